// Package jobs is the queue webhook_jobs: what its jobs are called and where they come from. How they are claimed and run is
// platform/queue's.
package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"paceline.internal/platform/queue"
)

// Queue is what the queue is called in logs and metrics, and its table.
const Queue = "webhook_jobs"

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

// Types of jobs that the store itself enqueues.
const (
	// EventHeldReply routes a reply which had been held, to wherever its session is. Nothing enqueues it any more.
	EventHeldReply = "session.held_reply"
	// EventResumedReply takes up a reply which had been held, or whose answer was under way when its session was parked, in
	// the place that it is for.
	EventResumedReply = "session.resumed_reply"
)

// New is a job to be stored.
type New struct {
	ID          string // UUIDv7; jobs of one subject run in the order of their ids
	OrgID       string
	Key         string // unique per organisation
	Source      string
	EventType   string
	Subject     string // jobs of one subject never overlap
	Payload     json.RawMessage
	MaxAttempts int // default 3
	At          time.Time
	DueAt       time.Time // when a runner may take it
}

// Job is as the queue has it.
func (n New) Job() queue.New {
	return queue.New{
		ID: n.ID, OrgID: n.OrgID, Key: n.Key, EventType: n.EventType, Subject: n.Subject, Payload: n.Payload,
		MaxAttempts: n.MaxAttempts, At: n.At, DueAt: n.DueAt, Extra: []string{n.Source},
	}
}

// What platform/queue calls them.
type (
	// Enqueued is a job that is stored.
	Enqueued = queue.Enqueued
	// Job is a claimed job. Whoever finishes it names its lease.
	Job = queue.Job
	// Finish is the end of one attempt.
	Finish = queue.Finish
	// Handler does one job. Returning nil completes it; a handler that completes it in its own transaction returns nil too.
	Handler = queue.Handler
	// Snooze is returned by a handler that cannot go on yet through no fault of the job.
	Snooze = queue.Snooze
	// Permanent is returned by a handler for a job that no retry can help.
	Permanent = queue.Permanent
	// Config is what a Runner needs.
	Config = queue.Config
	// Runner claims due jobs and runs them.
	Runner = queue.Runner
)

// Statuses of a job.
const (
	StatusPending    = queue.StatusPending
	StatusProcessing = queue.StatusProcessing
	StatusCompleted  = queue.StatusCompleted
	StatusFailed     = queue.StatusFailed
	StatusCancelled  = queue.StatusCancelled
)

// IsStatus reports whether a job can have it.
func IsStatus(s string) bool {
	return slices.Contains([]string{StatusPending, StatusProcessing, StatusCompleted, StatusFailed, StatusCancelled}, s)
}

var (
	// ErrPayloadMismatch is an enqueue under a key that exists with another payload.
	ErrPayloadMismatch = queue.ErrPayloadMismatch
	// ErrFenced is a finish by somebody who no longer holds the job. The work is being done, or was done, elsewhere.
	ErrFenced = queue.ErrFenced
)

// NeedsOperator begins the message of a failed job that asks somebody to do something. Such a job stays until they have said, by
// cancelling it, that it is done.
const NeedsOperator = "needs an operator: "

// ForOperator fails a job with what there is to do.
func ForOperator(format string, args ...any) error {
	return &Permanent{Cause: fmt.Errorf(NeedsOperator+format, args...)}
}

// NewRunner returns the runner of webhook_jobs.
func NewRunner(cfg Config) *Runner {
	cfg.Name = Queue
	return queue.NewRunner(cfg)
}

// Typed makes a handler of one that takes its payload decoded. A payload that is not exactly a T, with fields that T does not know or
// something behind it, is a permanent failure: no retry can help.
func Typed[T any](handle func(ctx context.Context, j Job, payload T) error) Handler {
	return func(ctx context.Context, j Job) error {
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
			return &Permanent{Cause: fmt.Errorf("the payload of %s cannot be read: %w", j.EventType, err)}
		}
		return handle(ctx, j, payload)
	}
}
