// Package jobs runs webhook_jobs: work that was stored before it was acknowledged, done at least once and recorded once.
package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Sources of jobs.
const (
	SourceTwilio   = "twilio"
	SourceInternal = "internal"
)

// New is a job to be stored.
type New struct {
	ID        string // UUIDv7; jobs of one subject run in the order of their ids
	OrgID     string
	Key       string // unique per organisation
	Source    string
	EventType string
	Subject   string // jobs of one subject never overlap
	Payload   json.RawMessage
	At        time.Time
	DueAt     time.Time // when a runner may take it
}

// Enqueued is a job that is stored.
type Enqueued struct {
	ID        string
	Duplicate bool      // it had been stored before
	CreatedAt time.Time // when it was stored first
}

// Job is a claimed job. Whoever finishes it names its lease.
type Job struct {
	ID          string
	OrgID       string
	EventType   string
	Subject     string
	Payload     json.RawMessage
	Attempts    int // failed attempts so far
	MaxAttempts int
	CreatedAt   time.Time
	LeaseToken  string
}

// LastAttempt reports whether a failure now would be final.
func (j Job) LastAttempt() bool { return j.Attempts+1 >= j.MaxAttempts }

// ErrPayloadMismatch is an enqueue under a key that exists with another payload.
var ErrPayloadMismatch = errors.New("jobs: this key was used with another payload")

// ErrFenced is a finish by somebody who no longer holds the job. The work is being done, or was done, elsewhere.
var ErrFenced = errors.New("jobs: the lease was lost")

// Snooze is returned by a handler that cannot go on yet through no fault of the job: it is tried again without using up
// an attempt.
type Snooze struct {
	After time.Duration
	Cause error
}

func (s *Snooze) Error() string { return fmt.Sprintf("again in %s: %v", s.After, s.Cause) }

func (s *Snooze) Unwrap() error { return s.Cause }

// Permanent is returned by a handler for a job that no retry can help.
type Permanent struct{ Cause error }

func (p *Permanent) Error() string { return p.Cause.Error() }

func (p *Permanent) Unwrap() error { return p.Cause }

const (
	firstBackoff = 30 * time.Second
	backoffLimit = 8 * time.Minute
)

// Backoff is how long to wait after the n-th failed attempt: 30 s, 2 min, then 8 min.
func Backoff(n int) time.Duration {
	d := firstBackoff
	for i := 1; i < n && d < backoffLimit; i++ {
		d *= 4
	}
	return min(d, backoffLimit)
}

// verdict is what becomes of a job after a run.
type verdict struct {
	status   string // pending, completed or failed
	attempts int
	after    time.Duration // until the next try of a pending job
	message  string
}

// judge turns a handler's answer into the job's next state.
func judge(j Job, err error) verdict {
	if err == nil {
		return verdict{status: StatusCompleted, attempts: j.Attempts}
	}
	var snooze *Snooze
	var permanent *Permanent
	switch {
	case errors.As(err, &snooze):
		return verdict{status: StatusPending, attempts: j.Attempts, after: snooze.After, message: err.Error()}
	case errors.As(err, &permanent), j.LastAttempt():
		return verdict{status: StatusFailed, attempts: j.Attempts + 1, message: err.Error()}
	default:
		return verdict{status: StatusPending, attempts: j.Attempts + 1, after: Backoff(j.Attempts + 1), message: err.Error()}
	}
}

// Types of jobs that the store itself enqueues.
const (
	// EventHeldReply routes a reply which had been held, to wherever its session is. Nothing enqueues it any more.
	EventHeldReply = "session.held_reply"
	// EventResumedReply takes up a reply which had been held, or whose answer was under way when its session was parked, in
	// the place that it is for.
	EventResumedReply = "session.resumed_reply"
)

// Statuses of a job.
const (
	StatusPending    = "pending"
	StatusProcessing = "processing"
	StatusCompleted  = "completed"
	StatusFailed     = "failed"
)
