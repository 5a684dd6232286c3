// Package alarms keeps alarms in a queue of the service's own database and rings them from there. It takes the place of QStash: Engine
// publishes as qstash.Publisher does, and a queue.Runner calls what QStash's callbacks call.
package alarms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
)

// Table is the table of the queue.
const Table = "alarm_jobs"

// NewQueue returns the queue of a database. An alarm that has rung is deleted: the state of its session or goal shows it.
func NewQueue(pool postgres.DB) *queue.Queue {
	return queue.NewQueue(pool, queue.Table{Name: Table, Scheduled: true, Passing: true})
}

const (
	// Attempts bounds the rings of an alarm, as QStash's default policy does.
	Attempts = qstash.PolicyRetries + 1
	// firstPause is the wait after the first failed attempt. Each one after that is twice as long as the one before.
	firstPause = 10 * time.Second
	// Poll is the time between two looks at the queue without a wake-up. What another process stored to ring at once is late by as much.
	Poll = 250 * time.Millisecond
	// Ahead bounds the time by which an alarm is claimed before it is due: longer than a Poll and a claim on a busy machine take together. It
	// is short because an alarm of a process that dies rings only when its lease is over.
	Ahead = 500 * time.Millisecond
	// Linger is the time in which the ends of alarms are recorded together: one commit for each was a third of those of a step.
	Linger = 50 * time.Millisecond
)

// Backoff returns the wait after the n-th failed attempt: 10 s, 20 s, up to 160 s.
func Backoff(n int) time.Duration { return firstPause << min(max(n-1, 0), qstash.PolicyRetries-1) }

// Alarm is the payload of a job: what rings, and when it was due first.
type Alarm struct {
	Due  time.Time       `json:"due"`
	Body json.RawMessage `json:"body"` // as QStash would deliver it
}

// Read returns the alarm of a job.
func Read(j queue.Job) (a Alarm, err error) {
	if err := json.Unmarshal(j.Payload, &a); err != nil {
		return a, &queue.Permanent{Cause: fmt.Errorf("alarms: the payload cannot be read: %w", err)}
	}
	return a, nil
}

// Engine stores alarms. It implements outbox.Publisher.
type Engine struct {
	DB     postgres.DB
	Intake *queue.Intake
	Wake   chan<- struct{} // of one: wakes the runner of this process, which may have claimed already what is due soon
	Now    func() time.Time
}

// newJob returns the job of the queue that rings an alarm when it is due: now for one that was due before.
func newJob(job qstash.Job, now time.Time) (queue.New, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return queue.New{}, fmt.Errorf("alarm id: %w", err)
	}
	due := job.Due
	if due.Before(now) {
		due = now
	}
	payload, err := json.Marshal(Alarm{Due: due, Body: job.Body})
	if err != nil {
		return queue.New{}, fmt.Errorf("encode an alarm: %w", err)
	}
	return queue.New{
		ID: id.String(), OrgID: job.OrgID, Key: job.DedupID.String(), EventType: job.Route.Label, Payload: payload, MaxAttempts: Attempts,
		At: now, DueAt: due,
	}, nil
}

// Publish stores an alarm to ring when it is due. The same identity again stores nothing until it has rung, and returns the alarm that
// has it; after that it rings once more, and finds nothing to do.
func (e *Engine) Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error) {
	n, err := newJob(job, e.Now())
	if err != nil {
		return qstash.Receipt{}, err
	}
	// The call of a person may not write into this table. The organisation is that of the alarm.
	stored, err := e.Intake.Enqueue(postgres.AcrossOrganisations(ctx), n)
	if err != nil && !errors.Is(err, queue.ErrPayloadMismatch) { // a repeat of what was due at once has another time
		return qstash.Receipt{}, fmt.Errorf("store an alarm: %w", err)
	}
	if n.DueAt.Sub(e.Now()) <= Ahead { // before the runner looks by itself
		queue.Wake(e.Wake)
	}
	return qstash.Receipt{MessageID: stored.ID, Deduplicated: stored.Duplicate}, nil
}

// Delete cancels an alarm that has not rung. One that is ringing, or that another engine has, is left: it finds nothing to do.
func (e *Engine) Delete(ctx context.Context, messageID string) error {
	const sql = `update alarm_jobs set status = 'cancelled', next_retry_at = null, processed_at = $2, updated_at = $2
where id = $1 and status || '' = 'pending'`
	if uuid.Validate(messageID) != nil {
		return nil //nolint:nilerr // QStash has it
	}
	if _, err := e.DB.Exec(postgres.AcrossOrganisations(ctx), sql, messageID, e.Now()); err != nil {
		return fmt.Errorf("cancel an alarm: %w", err)
	}
	return nil
}
