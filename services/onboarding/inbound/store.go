package inbound

import (
	"context"
	"errors"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
)

// Store keeps what operators do to jobs, the sweeps of Twilio's list, and the ids of WhatsApp. Every time that a statement uses is handed
// in.
type Store struct {
	pool postgres.DB
	jobs *queue.Queue
}

// NewStore returns a store on an open pool, with the queue of webhook jobs.
func NewStore(pool postgres.DB, jobs *queue.Queue) *Store { return &Store{pool: pool, jobs: jobs} }

// RetryJob gives a failed job of the organisation all of its attempts again. Errors: queue.ErrNoJob, a *queue.StatusError.
func (s *Store) RetryJob(ctx context.Context, orgID, id string, now time.Time) (queue.Row, error) {
	return s.jobs.Retry(ctx, s.pool, orgID, id, now)
}

// Job reads one job of the organisation; queue.ErrNoJob.
func (s *Store) Job(ctx context.Context, orgID, id string) (queue.Row, error) {
	return s.jobs.Get(ctx, orgID, id)
}

// CancelJob ends a pending or a failed job of the organisation. Errors: queue.ErrNoJob, a *queue.StatusError.
func (s *Store) CancelJob(ctx context.Context, orgID, id string, now time.Time) (queue.Row, error) {
	r, err := s.jobs.Cancel(ctx, s.pool, orgID, id, now)
	if r.Status == queue.StatusFailed {
		r, err = s.jobs.Dismiss(ctx, s.pool, orgID, id, now)
	}
	if refused, ok := errors.AsType[*queue.StatusError](err); ok {
		refused.Want = queue.Cancellable
	}
	return r, err
}
