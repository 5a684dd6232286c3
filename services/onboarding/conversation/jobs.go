package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
)

// JobsTable is the queue of this service: its table, and its name in logs and metrics.
const JobsTable = "webhook_jobs"

// Sources of jobs.
const (
	SourceTwilio   = "twilio"
	SourceKapso    = "kapso"
	SourceShopify  = "shopify"
	SourceInternal = "internal"
)

// Types of jobs that carry the work of a conversation.
const (
	// EventMessage carries a message of a person as Twilio posted it, EventWhatsApp one as Kapso did.
	EventMessage  = "twilio.message.received"
	EventWhatsApp = "kapso.message.received"
	// EventResumedReply takes up a reply which had been held, or was being answered when its session was parked, in
	// the place that it is for.
	EventResumedReply = "session.resumed_reply"
	// EventFlow acts on a silence, calls the host application, or starts the flow that follows.
	EventFlow = "session.flow"
	// EventTicket has a session go on after its ticket was closed, and EventAnswer sends what an operator wrote (package tickets).
	EventTicket = "ticket.closed"
	EventAnswer = "ticket.answer"
	// EventOpening sends a session's opening.
	EventOpening = "session.opening"
)

// NewJob is a job to be stored, due at once.
func NewJob(orgID, source, eventType, key, subject string, payload json.RawMessage, now time.Time) queue.New {
	return queue.New{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: orgID, Key: key, EventType: eventType, Subject: subject, Payload: payload,
		At: now, DueAt: now, Extra: []string{source},
	}
}

// Cause is the claimed job that a change answers; it is ended in the change's transaction.
type Cause struct {
	Job       queue.Job
	Failure   string    // why the job has failed for good; empty when the change completes it
	Cancelled bool      // the job is pending, and an operator cancels it
	WroteAt   time.Time // when the person wrote the text that it carries; zero of any other job
}

// Ended returns what a handler returns to the runner. The change of a conversation has ended the job in its own transaction. What is
// no fault of the job is tried again without using up an attempt, soon at first and then every half a minute. A lost lease is the success
// of another process. age is the job's.
func Ended(err error, age time.Duration) error {
	var wait *Pending
	switch {
	case errors.Is(err, ErrNothingToDo):
		return nil
	case err == nil, errors.Is(err, queue.ErrFenced):
		return queue.ErrEnded
	case errors.As(err, &wait):
		return &queue.Snooze{After: max(wait.RetryAfter, pause(age)), Cause: err}
	case errors.Is(err, people.ErrUnavailable), errors.Is(err, people.ErrConflict):
		return &queue.Snooze{After: pause(age), Cause: err}
	default:
		return err
	}
}

// pause returns how long the next try of something waits that is as old as age.
func pause(age time.Duration) time.Duration {
	return min(max(age/2, time.Second), 30*time.Second)
}

// NeedsOperator begins the error of a failed job that asks an operator to do something. Such a job stays until they cancel it, because
// it is done.
const NeedsOperator = "needs an operator: "

// ForOperator fails a job with what there is to do.
func ForOperator(format string, args ...any) error {
	return &queue.Permanent{Cause: fmt.Errorf(NeedsOperator+format, args...)}
}

// Unreadable fails a job with a payload that no retry can help.
func Unreadable(j queue.Job, err error) error {
	return &queue.Permanent{Cause: fmt.Errorf("the payload of %s cannot be read: %w", j.EventType, err)}
}
