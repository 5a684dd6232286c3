package onboarding

import (
	"paceline.internal/platform/audit"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/overview"
	"paceline.internal/services/onboarding/people"
)

type (
	peopleRPC       = people.RPC
	conversationRPC = conversation.RPC
	inboundRPC      = inbound.RPC
	erasureRPC      = erasure.RPC
)

// Service serves OnboardingService: each RPC is one of a room, but for those that ask several.
type Service struct {
	onboardingv1.UnsafeOnboardingServiceServer
	*peopleRPC
	*conversationRPC
	*inboundRPC
	*erasureRPC
	*Operations
}

// NewService composes the rooms.
func NewService(p *people.RPC, c *conversation.RPC, i *inbound.RPC, e *erasure.RPC, o *Operations) *Service {
	return &Service{peopleRPC: p, conversationRPC: c, inboundRPC: i, erasureRPC: e, Operations: o}
}

// Operations serves what asks several rooms: the overview and the audit log.
type Operations struct {
	*overview.RPC

	Calls     *audit.Log
	Messaging auditor
}
