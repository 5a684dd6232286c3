package inbound

import (
	"context"
	"log/slog"
	"time"

	"paceline.internal/services/onboarding/conversation"
)

// Config has what a Service works with.
type Config struct {
	Conversations *conversation.Service
	Store         store
	Carrier       carrier
	// Erase asks to erase a person, as one of our webhooks asks; people.ErrUnavailable, or why it may not be done.
	Erase func(ctx context.Context, orgID, profileID, jobID string) error
	Log   *slog.Logger
	Now   func() time.Time
}

// Service works webhook jobs. It is safe for concurrent use, and several processes may each have one.
type Service struct{ Config }

// New makes a Service.
func New(cfg Config) *Service { return &Service{Config: cfg} }

// store keeps what comes in. *onboarding.Stores implements it, and the crash matrix puts one in its place that fails at the k-th call.
type store interface {
	// Conversation is the open session of the person with a phone, or else the newest. Without one the session has no id, and without a
	// person no profile.
	Conversation(ctx context.Context, orgID, phone string) (conversation.View, error)
}

// carrier is messaging, and Twilio behind it; messaging.Client implements it.
type carrier interface {
	// RecordStatus merges what a provider says of one of our messages, and reports whether there is such a message.
	RecordStatus(ctx context.Context, s KapsoStatus) (matched bool, err error)
}
