package burst

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/session"
)

// ErrDisabled is a publish while scheduling is disabled. The alarm stays in the outbox.
var ErrDisabled = errors.New("burst: scheduling is disabled; the alarm stays in the outbox")

type claimer interface {
	ClaimAlarms(ctx context.Context, limit int, now, leaseUntil time.Time) ([]session.Alarm, error)
}

const (
	relayBatch   = 64
	relayWorkers = 8
	relayLease   = 30 * time.Second
)

// Relay publishes what a crash or a failed publish left in the outbox. It never sends a message.
type Relay struct {
	Outbox    claimer
	Publisher publisher
	Log       *slog.Logger
	Now       func() time.Time
}

// Loop publishes again and again: at the latest every poll, and when wake says that an alarm was given back.
func (r *Relay) Loop(rest process.Rest, poll time.Duration, wake <-chan struct{}) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			n, err := r.Once(ctx)
			return n == relayBatch, err
		},
		Failed: func(ctx context.Context, err error) { r.Log.WarnContext(ctx, "onboarding.relay", "error", err) },
		Rest:   rest, Every: poll, Wake: wake,
	}
}

// Once claims one batch of unpublished alarms, publishes it, and reports how many there were. The errors of single
// publishes are joined; each of those alarms is back in the outbox.
func (r *Relay) Once(ctx context.Context) (int, error) {
	now := r.Now()
	alarms, err := r.Outbox.ClaimAlarms(ctx, relayBatch, now, now.Add(relayLease))
	if err != nil {
		return 0, err
	}
	failures := make([]error, len(alarms)) // each its own place: one failure must not hide or stop the others
	var group errgroup.Group
	group.SetLimit(relayWorkers)
	for i, a := range alarms {
		group.Go(func() error {
			if err := r.Publisher.Publish(ctx, a); err != nil {
				failures[i] = fmt.Errorf("step %s of session %s: %w", a.StepID, a.SessionID, err)
			}
			process.Progress(ctx)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return len(alarms), err
	}
	return len(alarms), errors.Join(failures...)
}
