package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// Receipt is the carrier's progress with a message.
type Receipt struct {
	AcceptedAt time.Time
	Final      bool // it will not hear of it any more: delivered, undelivered or failed
}

// afterQuiet reports whether a step has to wait for the end of quiet hours, and if so has its alarm set for then. This holds for every
// alarm: an operator's, a sweeper's, and one that was set before the organisation changed its hours. A burst that has begun goes on.
func (c *Service) afterQuiet(ctx context.Context, f *flow.Flow, r session.Record, at flow.State, due StepDue, end time.Time) (bool, error) {
	now := c.Now()
	if begun, err := c.begun(ctx, f, r, at, due, now); begun || err != nil {
		return false, err
	}
	return true, c.setAgain(ctx, session.Wait{
		From: r, Cause: session.CauseQuiet, At: now, Until: session.QuietAlarm(now, end),
		Entry: session.QuietEntry(now, end, session.TriggerStep, r.NextStep),
	})
}

// begun reports whether a step belongs to a burst that is under way: the message before it was taken moments ago, or the carrier has
// its own message already, and only the session has not moved yet.
func (c *Service) begun(ctx context.Context, f *flow.Flow, r session.Record, at flow.State, due StepDue, now time.Time) (bool, error) {
	if at.Before != "" && !due.First.IsZero() && session.BurstGoesOn(due.First.Add(-f.Due(at).After), now) {
		return true, nil
	}
	_, err := c.Carrier.Receipt(ctx, r.OrgID, stepKey(r, at.Key))
	switch {
	case errors.Is(err, ErrMessageMissing):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("receipt, in quiet hours: %w", err)
	}
	return true, nil
}

// awaitDelivery reports whether a step has to wait until the message before it was delivered, and if so has set its alarm
// again: nothing here sleeps. After its limit it goes on, whether that message arrived or not.
func (c *Service) awaitDelivery(ctx context.Context, f *flow.Flow, r session.Record, at flow.State) (bool, error) {
	now := c.Now()
	end, waits, err := c.deliveryOf(ctx, f, r, at)
	if err != nil || !waits {
		return false, err
	}
	return true, c.setAgain(ctx, session.Wait{
		From: r, Cause: session.CauseDelivery, At: now, Until: end,
		Entry: session.Entry{
			At: now, Kind: session.KindWaiting, Trigger: session.TriggerStep, Step: r.NextStep,
			Detail: fmt.Sprintf("for the delivery of %s, until %s at the latest", at.Before, end.UTC().Format(time.RFC3339)),
		},
	})
}

// deliveryOf reports whether a step waits for the delivery of the message before it, and until when at the latest.
func (c *Service) deliveryOf(ctx context.Context, f *flow.Flow, r session.Record, at flow.State) (end time.Time, waits bool, err error) {
	receipt, err := c.Carrier.Receipt(ctx, r.OrgID, stepKey(r, at.Before))
	if errors.Is(err, ErrMessageMissing) { // the flow had other steps when this session came here: nothing to wait for
		return end, false, nil
	}
	if err != nil {
		return end, false, fmt.Errorf("receipt of the message before: %w", err)
	}
	end = receipt.AcceptedAt.Add(f.Due(at).AfterDelivery)
	return end, !receipt.Final && c.Now().Before(end), nil
}

// awaitRoom has the alarm of a step that met a cap set again. It is no failure: callers that try a step again would use up their tries.
func (c *Service) awaitRoom(ctx context.Context, r session.Record, after time.Duration) error {
	now := c.Now()
	return c.setAgain(ctx, session.Wait{
		From: r, Cause: session.CauseReleased, At: now, Until: now.Add(max(after, holdPause)),
		Entry: session.Entry{
			At: now, Kind: session.KindWaiting, Trigger: session.TriggerStep, Step: r.NextStep, Detail: "for room beneath a cap",
		},
	})
}

// putBack has the alarm of a step that came due while its organisation was paused set again. The relay publishes it after the pause.
func (c *Service) putBack(ctx context.Context, r session.Record, now time.Time) error {
	return c.Store.PutBack(ctx, session.Wait{
		From: r, Cause: session.CauseReleased, At: now,
		Entry: session.Entry{
			At: now, Kind: session.KindWaiting, Trigger: session.TriggerStep, Step: r.NextStep,
			Detail: "for the end of the pause of the organisation's scheduling",
		},
	})
}

// setAgain has the alarm of a step that waits set again, unless one is on its way already.
func (c *Service) setAgain(ctx context.Context, w session.Wait) error {
	alarm, err := c.Store.Wait(ctx, w)
	if err == nil && alarm != nil {
		c.Alarms.PublishOrLeave(ctx, *alarm)
	}
	return err
}
