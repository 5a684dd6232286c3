package outbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

// Policy sets when an alarm that brought nothing is set again, and for how long.
type Policy struct {
	// Grace is the time after its alarm at which work is overdue. Each further alarm of it is given twice as long as the one before: with a
	// minute and five of them, alarms have to bring nothing for half an hour before the work is given up.
	Grace time.Duration
	// MaxGenerations bounds the alarms in a row that bring nothing.
	MaxGenerations int
}

// Rest returns the time that an alarm gets after so many repeats in a row.
func (p Policy) Rest(repeats int) time.Duration { return p.Grace << min(repeats, p.MaxGenerations-1) }

const sweepBatch = 256

// Sweeper sets alarms again that QStash has lost or has given up, so that a sequence goes on or visibly ends: T is an
// aggregate with work that
// is overdue although its newest alarm was published. An alarm that QStash never got is the relay's: a second one for the same work
// would help no more than the first, so the sweeper logs it and notifies the relays.
type Sweeper[T any] struct {
	Policy

	// Overdue lists at most limit of them.
	Overdue func(ctx context.Context, limit int) ([]T, error)
	// Mend sets the next alarm of one, or gives it up. It waits for no lock: postgres.ErrLocked when another transaction has its row.
	Mend func(ctx context.Context, overdue T) error
	// Locked is called for one that is passed over until the next sweep: a process that is frozen with its row locked delays no other.
	Locked func(ctx context.Context, overdue T)

	// Unpublished is Rows.NotifyUnpublished of the outbox.
	Unpublished func(ctx context.Context, before, now time.Time) (n int, since time.Time, err error)
	Log         *slog.Logger
	Now         func() time.Time
}

// Loop sweeps every poll.
func (s *Sweeper[T]) Loop(rest process.Rest, poll time.Duration) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			n, err := s.Sweep(ctx)
			return n == sweepBatch, err
		},
		Failed: func(ctx context.Context, err error) { s.Log.WarnContext(ctx, "outbox.sweep_failed", "error", err) },
		Rest:   rest, Every: poll,
	}
}

// Sweep deals with one batch of overdue work and reports with how much.
func (s *Sweeper[T]) Sweep(ctx context.Context) (int, error) {
	failures := []error{s.unpublished(ctx)}
	process.Progress(ctx)
	found, err := s.Overdue(ctx, sweepBatch)
	if err != nil {
		return 0, err
	}
	dealt := len(found)
	for _, overdue := range found {
		err := s.Mend(ctx, overdue)
		process.Progress(ctx)
		switch {
		case errors.Is(err, postgres.ErrLocked):
			dealt--
			process.PassedOver(ctx)
			s.Locked(ctx, overdue)
		case err != nil:
			failures = append(failures, err)
		}
	}
	return dealt, errors.Join(failures...)
}

// unpublished logs alarms that QStash should have got long ago.
func (s *Sweeper[T]) unpublished(ctx context.Context) error {
	now := s.Now()
	n, since, err := s.Unpublished(ctx, now.Add(-s.Grace), now)
	if err == nil && n > 0 {
		s.Log.WarnContext(ctx, "outbox.alarms_unpublished", "alarms", n, "since", since)
	}
	return err
}
