package burst

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/session"
)

// awaitWindow reports whether a step has to wait for the end of quiet hours, and if so has its alarm set for then. However the
// alarm came to ring: set by an operator, swept after it was lost, or set for an opening that the organisation has moved since.
// A burst that has begun is not parted.
func (e *Executor) awaitWindow(ctx context.Context, r session.Record, step session.Step) (bool, error) {
	now := e.Now()
	until, quiet := r.QuietUntil(now)
	if !quiet {
		return false, nil
	}
	if begun, err := e.begun(ctx, r, step, now); begun || err != nil {
		return false, err
	}
	due := session.QuietAlarm(now, until)
	alarm, err := e.Waits.AwaitWindow(ctx, r, due, func(generation int) *session.Alarm {
		a := NewAlarm(r, step.ID, generation, due)
		a.Cause = session.CauseQuiet
		return a
	}, session.QuietEntry(now, until, session.TriggerStep, step.ID))
	if err != nil {
		return false, err
	}
	if alarm != nil {
		e.setAlarm(ctx, *alarm)
	}
	return true, nil
}

// begun reports whether a step belongs to a burst that is under way: its own text was taken already and only that is not
// written down, or the text before it was taken moments ago.
func (e *Executor) begun(ctx context.Context, r session.Record, step session.Step, now time.Time) (bool, error) {
	_, err := e.Receipts.Receipt(ctx, r.OrgID, session.Key(r.ProfileID, r.ID, step.ID))
	before, ok := e.Flow.Previous(step.ID)
	if !errors.Is(err, dispatch.ErrMessageMissing) || !ok {
		return err == nil, unlessMissing(err)
	}
	receipt, err := e.Receipts.Receipt(ctx, r.OrgID, session.Key(r.ProfileID, r.ID, before.ID))
	return err == nil && session.BurstGoesOn(receipt.AcceptedAt, now), unlessMissing(err)
}

func unlessMissing(err error) error {
	if err == nil || errors.Is(err, dispatch.ErrMessageMissing) {
		return nil
	}
	return fmt.Errorf("receipt, in quiet hours: %w", err)
}
