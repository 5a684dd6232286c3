package conversation

import (
	"context"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// timer rings the alarms that are due soon in the process that set them; alarmclock.Timer implements it.
type timer interface {
	// Lease returns until when an alarm is leased to this timer; zero for one that it does not take.
	Lease(due time.Time) time.Time
	// Set takes an alarm that is stored under such a lease, unless the timer is full or stops.
	Set(a session.Alarm) bool
}

// store keeps conversations. Each method is one intention: a statement, or a separate transaction. Store implements
// it, and the crash matrix puts one in its place that fails at the k-th call.
type store interface {
	Profile(ctx context.Context, orgID, profileID string) (people.Profile, error)
	// Decided returns what the organisation has decided.
	Decided(ctx context.Context, orgID string) (people.Decided, error)

	// Sessions. ErrNoSession where there is none.

	// OpenSession stores the episode unless the person has one open, which is returned. Errors: people.ErrNoProfile,
	// people.ErrOnHold, *SessionParked,
	// people.ErrAwaitsOperator, ErrConsentRequired.
	OpenSession(ctx context.Context, o Opening) (session.Record, error)
	// Fields returns what flows have learnt of a person, as JSON has it.
	Fields(ctx context.Context, orgID, profileID string) (map[string]any, error)
	LoadSession(ctx context.Context, id string) (View, error)
	ConsentChangedAt(ctx context.Context, orgID, profileID string) (time.Time, error)
	// LoadStep is LoadSession, with when the step that is due was to be sent.
	LoadStep(ctx context.Context, id string) (View, StepDue, error)
	// Conversation is the open session of the person with a phone, or else the newest. Without one the session has no id, and without a
	// person no profile.
	Conversation(ctx context.Context, orgID, phone string) (View, error)
	// ConversationAt is Conversation of the sessions that there were at an instant.
	ConversationAt(ctx context.Context, orgID, phone string, at time.Time) (View, error)
	// LastStepAt returns from when on a reply may answer the newest scheduled message of a session; zero when none was taken.
	LastStepAt(ctx context.Context, sessionID string) (time.Time, error)
	// LastMessageAt is the same of the newest message of any kind.
	LastMessageAt(ctx context.Context, sessionID string) (time.Time, error)
	// LastReplyAt returns when the newest reply came in a session; zero when there was none.
	LastReplyAt(ctx context.Context, sessionID string) (time.Time, error)
	// Move changes a session, with its timeline, its next alarm and the end of the job that causes it; people.ErrConflict, queue.ErrFenced.
	Move(ctx context.Context, m session.Move, cause *Cause) error
	// Note adds to the timeline of a session that has not moved since it was read, and ends the job that causes it; people.ErrConflict,
	// queue.ErrFenced.
	Note(ctx context.Context, at session.Record, entries []session.Entry, cause *Cause, now time.Time) error
	// DeferReply keeps a reply that may not be answered now, and ends its job; people.ErrConflict, queue.ErrFenced.
	DeferReply(ctx context.Context, at session.Record, cause Cause, entry session.Entry) error
	// PutOff has a job go on with a reply later, and ends that of the reply; people.ErrConflict, queue.ErrFenced.
	PutOff(ctx context.Context, at session.Record, later queue.New, entries []session.Entry, cause Cause) error
	// Generation returns that of the newest alarm of a step; 0 without one.
	Generation(ctx context.Context, sessionID string, step session.StepID) (int, error)
	// Wait sets the alarm of a due step again; nil when there is nothing to publish. people.ErrConflict.
	Wait(ctx context.Context, w session.Wait) (*session.Alarm, error)
	// PutBack sets the alarm of a due step again, to be published after the pause of its organisation. people.ErrConflict.
	PutBack(ctx context.Context, w session.Wait) error
	CloseSession(ctx context.Context, orgID, sessionID string, at time.Time) (session.Record, error)

	// Circumstances returns what an explanation needs apart from the session; people.ErrNoProfile.
	Circumstances(ctx context.Context, orgID, profileID string) (Circumstances, error)

	// Recovery.

	// Unavailable notes that a step of a session could not be done because messaging cannot be reached.
	Unavailable(ctx context.Context, sessionID string, at time.Time) error
	Overdue(ctx context.Context, limit, doublings int, grace time.Duration, now time.Time) ([]Overdue, error)
	// Rearm and Park wait for no lock: platform/postgres.ErrLocked when another transaction has the session.
	Rearm(ctx context.Context, r session.Record, a session.Alarm, then, at time.Time) error
	Park(ctx context.Context, m session.Move) error
	Resume(ctx context.Context, orgID, sessionID string, by session.Trigger, closesTicket bool, at time.Time) (session.Record, error)
	// Stranded lists sessions that wait for a ticket which was closed before an instant, and have no job that has them go on.
	Stranded(ctx context.Context, before time.Time) ([]Stranded, error)
	// ResumeAfterTicket and MoveAfterTicket have a session go on after its ticket was closed; ErrTicketOpen, people.ErrConflict,
	// queue.ErrFenced.
	ResumeAfterTicket(ctx context.Context, r session.Record, p TicketClosed, waits bool, silentAt time.Time, cause Cause, at time.Time) error
	MoveAfterTicket(ctx context.Context, m session.Move, p TicketClosed, cause Cause) error
	ReplayDeadLetter(ctx context.Context, within Scope, id string, at time.Time) (Replayed, error)

	// Jobs.

	Enqueue(ctx context.Context, n queue.New) (queue.Enqueued, error)
	// ReplyWaits reports whether a reply waits to be answered in the place where a session stands, or has its turn next.
	ReplyWaits(ctx context.Context, s session.Record, phone string) (bool, error)
	// AwaitsOperator reports whether a failed job of a phone asks an operator for something already.
	AwaitsOperator(ctx context.Context, orgID, phone string) (bool, error)
	// JudgeJobs cancels the failed jobs of a phone from before an instant that ask whether words are an opt-out.
	JudgeJobs(ctx context.Context, orgID, phone string, before, at time.Time) error
}

// published has the flows that organisations have published; flows.Store implements it.
type published interface {
	// Current returns the flow that new sessions get, Version the one that a session began with. flow.ErrNotFound.
	Current(ctx context.Context, orgID, name string) (flow.Flow, error)
	Version(ctx context.Context, orgID, name, version string) (flow.Flow, error)
}

// host is the application of the organisation that flows call.
type host interface {
	// Call posts a body, signed as our webhooks are, and returns the answer's body of a 2xx.
	Call(ctx context.Context, orgID, url, key string, timeout time.Duration, body []byte) ([]byte, error)
}

// carrier is messaging, and Twilio behind it; messaging.Client implements it.
type carrier interface {
	// Send hands over one message; people.ErrUnavailable.
	Send(ctx context.Context, m Message) (Sent, error)
	// Explain returns the answer that Send would give now; people.ErrUnavailable.
	Explain(ctx context.Context, m Message) (Explanation, error)
	// Receipt is ErrMessageMissing for a key without a message that the carrier has.
	Receipt(ctx context.Context, orgID, key string) (Receipt, error)
	// CheckSender returns no error when the organisation can message the phone, and whether the ledger has nothing of it; people.ErrNoSender,
	// people.ErrOptedOut, people.ErrAwaitsOperator.
	CheckSender(ctx context.Context, orgID, phone string) (unrecorded bool, err error)
	// JudgeWords ends the hold by words of a person that may be an opt-out; people.ErrUnavailable.
	JudgeWords(ctx context.Context, orgID, phone string) error
}
