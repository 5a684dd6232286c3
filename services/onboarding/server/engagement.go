package server

import (
	"time"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/postgres"
)

// Engagement serves EngagementService.
type Engagement struct {
	onboardingv1.UnimplementedEngagementServiceServer

	People *engagement.Service
	Store  *postgres.Engagement
	Now    func() time.Time
}
