package inbound

import (
	"errors"
	"log/slog"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/tickets"
)

// Config has what a Service works with.
type Config struct {
	OrgID         string // owns the configured sender; its messages are stored under it
	Store         store
	Carrier       carrier
	Engagement    *engagement.Service
	Goals         *goals.Texts
	Conversations *conversation.Service
	Inbox         *tickets.Service
	Flows         published
	People        enroller
	Erasures      *erasure.Service // asked by one of our webhooks
	Metrics       *Metrics         // nil measures nothing
	Log           *slog.Logger
	Now           func() time.Time
}

// Service takes what comes in, and works it. It is safe for concurrent use, and several processes may each have one.
type Service struct {
	Config

	// Jobs runs webhook_jobs with the Handlers and the GiveUp of this service, so it is made after it.
	Jobs *queue.Runner
}

// New makes a Service; its Jobs are still to be set.
func New(cfg Config) *Service { return &Service{Config: cfg} }

var (
	// ErrUnknownSender reports a message to a number that no organisation owns. No retry can help.
	ErrUnknownSender = errors.New("no organisation owns the number that this was sent to")
	// ErrElsewhere reports a message that messaging has recorded for another organisation than the caller named. The caller may know better
	// the next time: this job of it fails.
	ErrElsewhere = errors.New("the number that this was sent to is another organisation's; send it again")
	// ErrInvalidMessage reports a callback without the fields that every message has.
	ErrInvalidMessage = errors.New("MessageSid, From and To are required")
)
