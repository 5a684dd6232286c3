package process

import (
	"context"
	"errors"
	"time"
)

// Rest waits until d has passed, or wake has something, or ctx has ended, and reports whether to go on: false once ctx has
// ended. It is an argument of every loop, as the time is, so that a simulation can tell a loop that rests from one that works.
type Rest func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool

// RestOnMachineClock is production's Rest.
func RestOnMachineClock(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// Repetition is work that is done again and again: at once, whenever something wakes it, and at the latest every so often.
type Repetition struct {
	// Once does what is due, and reports whether there may be more of it right away.
	Once func(ctx context.Context) (more bool, err error)
	// Failed hears of an error of Once, unless it only says that the context has ended. The work goes on after the next rest.
	Failed func(ctx context.Context, err error)
	Rest   Rest
	Every  time.Duration
	Wake   <-chan struct{} // may be nil
	// Bound is how long Once may take by rights between two calls of Progress, if that may be more than PassBound.
	Bound time.Duration
}

// Run repeats until ctx ends. What Once is at then, it brings to its end by itself. The start is a wake-up like any other, so that
// whoever decides about rests decides about the first work as well. After a pass that was ended for its silence the next one
// begins at once: it gets another connection.
func (r Repetition) Run(ctx context.Context) error {
	started := make(chan struct{})
	close(started)
	if !r.Rest(ctx, r.Every, started) {
		return nil
	}
	for {
		more := false
		err := Bounded(ctx, r.Bound, func(ctx context.Context) (err error) {
			more, err = r.Once(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			r.Failed(ctx, err)
		}
		if (more && err == nil || errors.Is(err, ErrSilent)) && ctx.Err() == nil {
			continue
		}
		if !r.Rest(ctx, r.Every, r.Wake) {
			return nil
		}
	}
}
