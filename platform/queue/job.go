// Package queue is the one claim loop behind every queue: jobs are rows of a table, stored before they are acknowledged, done
// at least once and recorded once.
//
// A Queue is the SQL of a queue on one table (see Table for its columns); a Runner claims what is due, runs its handlers, and
// records how they ended. A claim is a lease: a finish names the lease, and ErrFenced says that it was lost.
package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// New is a job to be stored.
type New struct {
	ID          string // UUIDv7; jobs of one subject run in the order of their ids
	OrgID       string
	Key         string // unique per organisation
	EventType   string
	Subject     string // jobs of one subject never overlap; the empty one is no subject, and keeps no order
	Payload     json.RawMessage
	Priority    int // of a Table with Priorities: 0 comes first
	MaxAttempts int // default 3
	At          time.Time
	DueAt       time.Time // when a runner may take it
	Until       time.Time // when the lease of a job ends that Intake claims as it stores it; zero for none
	Extra       []string  // the texts of Table.Extra

	actor string // of postgres.WithActor; those of a statement may have several
}

// Enqueued is a job that is stored.
type Enqueued struct {
	ID        string
	Duplicate bool      // it had been stored before
	CreatedAt time.Time // when it was stored first
	Claimed   *Job      // for Runner.Do; nil when it has no Until, or another job of its subject is open

	mismatch bool // it carries something else
}

// Err is ErrPayloadMismatch when the key was stored with another payload; else nil.
func (e Enqueued) Err() error {
	if e.mismatch {
		return ErrPayloadMismatch
	}
	return nil
}

// Job is a claimed job. Its finish names the lease.
type Job struct {
	ID          string
	OrgID       string
	EventType   string
	Subject     string
	Payload     json.RawMessage
	Attempts    int // failed attempts so far
	MaxAttempts int
	Lost        int // how often in a row its lease ran out, because the process that had it died or hung
	CreatedAt   time.Time
	DueAt       time.Time // zero of one that was claimed by its id, or after its lease expired
	LeaseToken  string
}

// LastAttempt reports whether a failure now would be final.
func (j Job) LastAttempt() bool { return j.Attempts+1 >= j.MaxAttempts }

// Finish is the end of one attempt.
type Finish struct {
	Job      Job
	Status   string
	Attempts int
	Message  string
	DueAt    time.Time // of a job that is pending again
	At       time.Time
}

// Statuses of a job.
const (
	StatusPending    = "pending"
	StatusProcessing = "processing"
	StatusCompleted  = "completed"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
)

var (
	// ErrPayloadMismatch is an enqueue under a key that exists with another payload.
	ErrPayloadMismatch = errors.New("this key was used with another payload")
	// ErrPayload is a payload, or another text, that Postgres does not store, such as JSON with a NUL in it.
	ErrPayload = errors.New("this cannot be stored")
	// ErrFenced is a finish under a lease that was lost. The work is being done, or was done, elsewhere.
	ErrFenced = errors.New("worker: the lease was lost")
	// ErrEnded is returned by a handler that has ended the job in its own transaction: there is nothing left to record.
	ErrEnded = errors.New("worker: the handler has ended the job")
	// ErrNoJob is a job that the organisation does not have.
	ErrNoJob = errors.New("there is no such job in this organisation")
)

// StatusError refuses an operator's request that the status of the job does not allow.
type StatusError struct {
	Status string // that the job has
	Want   string // that it would need
}

// Cancellable names the statuses of a job that its room cancels or dismisses at an operator's request, as StatusError.Want.
const Cancellable = StatusPending + " or " + StatusFailed

func (e *StatusError) Error() string {
	return fmt.Sprintf("the job is %s; only one that is %s can be changed so", e.Status, e.Want)
}

// Snooze is returned by a handler that cannot go on yet through no fault of the job: it is tried again without using up
// an attempt.
type Snooze struct {
	After time.Duration
	Cause error
}

// Error is the cause alone: the job keeps it, and has the instant of its next try besides.
func (s *Snooze) Error() string { return s.Cause.Error() }

func (s *Snooze) Unwrap() error { return s.Cause }

// Later is returned by a handler that knows when another try may succeed. It uses up an attempt, and replaces the backoff.
type Later struct {
	After time.Duration
	Cause error
}

// Error is the cause alone, as of a Snooze.
func (l *Later) Error() string { return l.Cause.Error() }

func (l *Later) Unwrap() error { return l.Cause }

// Permanent is returned by a handler for a job that no retry can help.
type Permanent struct{ Cause error }

func (p *Permanent) Error() string { return p.Cause.Error() }

func (p *Permanent) Unwrap() error { return p.Cause }

const (
	firstBackoff = 30 * time.Second
	backoffLimit = 8 * time.Minute
)

// backoff returns the wait after the n-th failed attempt: 30 s, 2 min, then 8 min.
func backoff(n int) time.Duration {
	d := firstBackoff
	for i := 1; i < n && d < backoffLimit; i++ {
		d *= 4
	}
	return min(d, backoffLimit)
}

// verdict is the state of a job after a run.
type verdict struct {
	status   string // pending, completed or failed
	attempts int
	after    time.Duration // until the next try of a pending job
	message  string
	ended    bool // by the handler's own transaction
}

// judge turns a handler's answer into the job's next state.
func judge(j Job, err error, wait func(n int) time.Duration) verdict {
	if ended := errors.Is(err, ErrEnded); err == nil || ended {
		return verdict{status: StatusCompleted, attempts: j.Attempts, ended: ended}
	}
	var snooze *Snooze
	var permanent *Permanent
	switch {
	case errors.As(err, &snooze):
		return verdict{status: StatusPending, attempts: j.Attempts, after: snooze.After, message: err.Error()}
	case errors.As(err, &permanent), j.LastAttempt():
		return verdict{status: StatusFailed, attempts: j.Attempts + 1, message: err.Error()}
	}
	after := wait(j.Attempts + 1)
	if later, ok := errors.AsType[*Later](err); ok {
		after = later.After
	}
	return verdict{status: StatusPending, attempts: j.Attempts + 1, after: after, message: err.Error()}
}
