package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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

// IsSource reports whether jobs can come from there.
func IsSource(s string) bool {
	return slices.Contains([]string{SourceTwilio, SourceKapso, SourceShopify, SourceInternal}, s)
}

// Types of jobs that carry the work of a conversation.
const (
	// EventMessage carries a message of a person as Twilio posted it, EventWhatsApp one as Kapso did.
	EventMessage  = "twilio.message.received"
	EventWhatsApp = "kapso.message.received"
	// EventResumedReply takes up a reply which had been held, or was being answered when its session was parked, in
	// the place that it is for.
	EventResumedReply = "session.resumed_reply"
	// EventOpening sends a session's opening.
	EventOpening = "session.opening"
)

// Handlers are the handlers of every type of job.
func (c *Service) Handlers() map[string]queue.Handler {
	handlers := map[string]queue.Handler{
		EventMessage: c.HandleReply, EventWhatsApp: c.HandleReply, EventResumedReply: c.HandleReply, EventOpening: c.sendOpening,
		kapsoNumberCreated: read(c.numberCreated), kapsoSurvey: read(c.surveyAnswered), shopifyUninstalled: typed(c.uninstalled),
		shopifyCustomersRedact: read(c.redact), shopifyDataRequest: read(c.dataRequested),
	}
	for _, event := range []string{kapsoSent, kapsoDelivered, kapsoRead, kapsoFailed} {
		handlers[event] = typed(c.kapsoStatus)
	}
	for event, duty := range duties() {
		handlers[event] = func(context.Context, queue.Job) error { return forOperator("%s; then cancel this job", duty) }
	}
	return handlers
}

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
	Failure   string // why the job has failed for good; empty when the change completes it
	Cancelled bool   // the job is pending, and an operator cancels it
}

// ended returns what a handler returns to the runner. The change of a conversation has ended the job in its own transaction. What is
// no fault of the job is tried again without using up an attempt, soon at first and then every half a minute. A lost lease is the success
// of another process. age is the job's.
func ended(err error, age time.Duration) error {
	var wait *Pending
	switch {
	case errors.Is(err, errNothingToDo):
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

// forOperator fails a job with what there is to do.
func forOperator(format string, args ...any) error {
	return &queue.Permanent{Cause: fmt.Errorf(NeedsOperator+format, args...)}
}

// typed makes a handler of one that takes its payload decoded. A payload that is not exactly a T, with fields that T does not know or
// something behind it, is a permanent failure: no retry can help.
func typed[T any](handle func(ctx context.Context, j queue.Job, payload T) error) queue.Handler {
	return func(ctx context.Context, j queue.Job) error {
		var payload T
		decoder := json.NewDecoder(bytes.NewReader(j.Payload))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&payload)
		if err == nil {
			if _, more := decoder.Token(); more != io.EOF {
				err = errors.New("there is more behind the payload")
			}
		}
		if err != nil {
			return unreadable(j, err)
		}
		return handle(ctx, j, payload)
	}
}

// read is typed for a payload of a vendor's own, which may get more fields.
func read[T any](handle func(ctx context.Context, j queue.Job, payload T) error) queue.Handler {
	return func(ctx context.Context, j queue.Job) error {
		var payload T
		if err := json.Unmarshal(j.Payload, &payload); err != nil {
			return unreadable(j, err)
		}
		return handle(ctx, j, payload)
	}
}

func unreadable(j queue.Job, err error) error {
	return &queue.Permanent{Cause: fmt.Errorf("the payload of %s cannot be read: %w", j.EventType, err)}
}
