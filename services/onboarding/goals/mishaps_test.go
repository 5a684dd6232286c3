package goals_test

import (
	"context"
	"time"

	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/goals/timeparse"
)

type deleter struct{ b *bundle }

func (d deleter) Delete(ctx context.Context, id string) error {
	if d.b.undeletable {
		return errDoubt
	}
	return d.b.client.Delete(ctx, id)
}

// mishap has the n-th call of the store from now on fail, before or after its effect.
func (b *bundle) mishap(n int, effects bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.effects = n, effects
}

// fails reports whether this call is the one, and whether it has its effect.
func (b *bundle) fails() (fails, effects bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 0 {
		return false, true
	}
	b.left--
	return b.left < 0, b.left >= 0 || b.effects
}

// crashing is the store, of which one call fails.
type crashing struct {
	*goals.Store

	b *bundle
}

// met calls what a mishap may meet.
func met[R any](b *bundle, call func() (R, error)) (r R, err error) {
	fails, effects := b.fails()
	if effects {
		r, err = call()
	}
	if fails {
		var none R
		return none, errMishap
	}
	return r, err
}

type none struct{}

func meets(b *bundle, call func() error) error {
	_, err := met(b, func() (none, error) { return none{}, call() })
	return err
}

func (c crashing) Prepare(ctx context.Context, n goals.New) (goals.Prepared, error) {
	return met(c.b, func() (goals.Prepared, error) { return c.Store.Prepare(ctx, n) })
}

func (c crashing) Insert(ctx context.Context, g goals.Goal, a goals.Alarm) (goals.Goal, bool, error) {
	type stored struct {
		goal      goals.Goal
		duplicate bool
	}
	s, err := met(c.b, func() (s stored, err error) {
		s.goal, s.duplicate, err = c.Store.Insert(ctx, g, a)
		return s, err
	})
	return s.goal, s.duplicate, err
}

func (c crashing) KeepReading(ctx context.Context, n goals.New, reading timeparse.Reading, at time.Time) (*timeparse.Reading, error) {
	return met(c.b, func() (*timeparse.Reading, error) { return c.Store.KeepReading(ctx, n, reading, at) })
}

func (c crashing) Goal(ctx context.Context, org, id string, now time.Time) (goals.Situation, error) {
	return met(c.b, func() (goals.Situation, error) { return c.Store.Goal(ctx, org, id, now) })
}

func (c crashing) Busy(ctx context.Context, g goals.Goal, at time.Time) error {
	if then := c.b.beforeBusy; then != nil {
		c.b.beforeBusy = nil
		then()
	}
	return c.Store.Busy(ctx, g, at)
}

func (c crashing) BeginPhone(ctx context.Context, g goals.Goal, runID string, at time.Time) error {
	return meets(c.b, func() error { return c.Store.BeginPhone(ctx, g, runID, at) })
}

func (c crashing) End(ctx context.Context, e goals.End) (bool, error) {
	return met(c.b, func() (bool, error) { return c.Store.End(ctx, e) })
}

func (c crashing) PutBack(ctx context.Context, g goals.Goal, a goals.Alarm, at time.Time) error {
	return meets(c.b, func() error { return c.Store.PutBack(ctx, g, a, at) })
}

func (c crashing) Rearm(ctx context.Context, g goals.Goal, a goals.Alarm, at time.Time) error {
	return meets(c.b, func() error { return c.Store.Rearm(ctx, g, a, at) })
}
