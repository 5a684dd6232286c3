package inbound

import (
	"context"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
)

// store keeps what comes in: the Stores of the rooms, and in their place the crash matrix, which fails at the k-th call.
type store interface {
	// Conversation is the open session of the person with a phone, or else the newest. Without one the session has no id, and without a
	// person no profile.
	Conversation(ctx context.Context, orgID, phone string) (conversation.View, error)
	// ConversationAt is Conversation of the sessions that there were at an instant; conversation.ErrNoSession.
	ConversationAt(ctx context.Context, orgID, phone string, at time.Time) (conversation.View, error)

	// NumberOfUser is the phone of the person whom WhatsApp names by an id; empty when no person is known by it.
	NumberOfUser(ctx context.Context, orgID, userID string) (phone string, err error)
	// FailedOf are the jobs of a subject that have failed, oldest first, at most a hundred.
	FailedOf(ctx context.Context, orgID, subject, eventType string) ([]queue.Job, error)
	// LearnUser stores the owner of the id, if there is such a person, and makes the jobs due again, with the number as their subject.
	LearnUser(ctx context.Context, l Learned) error

	Enqueue(ctx context.Context, n queue.New) (queue.Enqueued, error)
	// Job reads a job; queue.ErrNoJob.
	Job(ctx context.Context, orgID, id string) (queue.Row, error)
	// CancelJob ends a pending or a failed job; queue.ErrNoJob, a *queue.StatusError.
	CancelJob(ctx context.Context, orgID, id string, now time.Time) (queue.Row, error)

	// Sweeps of Twilio's list. Each is one guarded statement, and ErrSweepLost when the lease was lost.

	ClaimSweep(ctx context.Context, of Sender, first, now, leaseUntil time.Time) (Sweep, bool, error)
	ExtendSweep(ctx context.Context, a Sweep, leaseUntil time.Time) error
	FinishSweep(ctx context.Context, a Sweep, end SweepEnd) error
	ReleaseSweep(ctx context.Context, a Sweep) error
}

// carrier is messaging, and Twilio behind it; messaging.Client implements it.
type carrier interface {
	// Record stores a message of a person that reached us at the given time, and applies its words about consent.
	// From is the person as far as they are known: their profile and its language.
	Record(ctx context.Context, m Message, from conversation.View, received time.Time) (Recorded, error)
	// RecordStatus merges what a provider says of one of our messages, and reports whether there is such a message.
	RecordStatus(ctx context.Context, s KapsoStatus) (matched bool, err error)
	// SenderOrganisations returns the organisations that have a sender; ErrUnnamedSenders from a release of messaging that does not say.
	SenderOrganisations(ctx context.Context) ([]string, error)
	// Sender returns the number or the service that an organisation sends from; people.ErrNoSender.
	Sender(ctx context.Context, orgID string) (string, error)
	// ListInbound lists what was sent to it, in Twilio's own record.
	ListInbound(ctx context.Context, span Span, page string) (Page, error)
	// JudgeWords ends the hold by words of a person that may be an opt-out; people.ErrUnavailable.
	JudgeWords(ctx context.Context, orgID, phone string) error
}
