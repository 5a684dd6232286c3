package tickets

import (
	"context"
	"time"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/people"
)

// store keeps the inbox. Each method is one intention: a statement, or a transaction. Store implements it, and the crash matrix puts one in
// its place that fails at the k-th call.
type store interface {
	Open(ctx context.Context, o Opening) (t Ticket, created bool, err error)
	Assign(ctx context.Context, orgID, id, from, to string, at time.Time) (Ticket, error)
	Close(ctx context.Context, c Closing) (t Ticket, job string, err error)
	Ticket(ctx context.Context, orgID, id string) (Ticket, error)
	KeepAnswer(ctx context.Context, a Answer, job queue.New) (kept Answer, duplicate bool, err error)
	Recipient(ctx context.Context, a Answer) (Recipient, error)
	Answer(ctx context.Context, orgID, id string) (Answer, error)
	Settle(ctx context.Context, s Settlement) (first bool, opened time.Time, err error)
}

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// Send hands over one message; people.ErrUnavailable.
	Send(ctx context.Context, m conversation.Message) (conversation.Sent, error)
	// Fate reads the status of the message of a key; people.ErrUnavailable.
	Fate(ctx context.Context, orgID, key string) (engagement.Fate, error)
	// Explain returns the answer that Send would give; people.ErrUnavailable.
	Explain(ctx context.Context, m conversation.Message) (conversation.Explanation, error)
}

// holds puts people on a safety hold; people.Service implements it.
type holds interface {
	Hold(ctx context.Context, orgID, profileID, reason string) (people.Profile, error)
}

// quiet knows when a person may be texted; people.Store implements it.
type quiet interface {
	// QuietHours is erasure.ErrBegun of a person who is being erased.
	QuietHours(ctx context.Context, orgID, number, profileID string) (q hours.Quiet, consentRequired bool, err error)
}

// sessions has a session go on after its ticket; conversation.Service implements it.
type sessions interface {
	AfterTicket(ctx context.Context, j queue.Job) error
}
