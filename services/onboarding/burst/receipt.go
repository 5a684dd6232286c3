package burst

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/session"
)

// Receipt is how far the carrier is with a text.
type Receipt struct {
	AcceptedAt time.Time
	Final      bool // it will not hear of it any more: delivered, undelivered or failed
}

type receipts interface {
	// Receipt is dispatch.ErrMessageMissing for a key without a text that the carrier has.
	Receipt(ctx context.Context, orgID, key string) (Receipt, error)
}

type waiting interface {
	AwaitReceipt(
		ctx context.Context, r session.Record, next func(generation, looks int) *session.Alarm, told session.Entry,
	) (*session.Alarm, error)
	AwaitWindow(
		ctx context.Context, r session.Record, due time.Time, next func(generation int) *session.Alarm, told session.Entry,
	) (*session.Alarm, error)
}

// awaitDelivery reports whether a step has to wait until the message before it was delivered, and if so has set its alarm
// again: nothing here sleeps. After its limit it goes on, whatever became of that message.
func (e *Executor) awaitDelivery(ctx context.Context, r session.Record, step session.Step) (bool, error) {
	before, ok := e.Flow.Previous(step.ID)
	if step.AfterDelivery == 0 || !ok {
		return false, nil
	}
	receipt, err := e.Receipts.Receipt(ctx, r.OrgID, session.Key(r.ProfileID, r.ID, before.ID))
	if errors.Is(err, dispatch.ErrMessageMissing) { // the flow had other steps when this session came here: nothing to wait for
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("receipt of the message before: %w", err)
	}
	now, end := e.Now(), receipt.AcceptedAt.Add(step.AfterDelivery)
	if receipt.Final || !now.Before(end) {
		return false, nil
	}
	alarm, err := e.Waits.AwaitReceipt(ctx, r, func(generation, looks int) *session.Alarm {
		a := NewAlarm(r, step.ID, generation, session.NextLook(now, end, looks))
		a.Cause = session.CauseDelivery
		return a
	}, session.Entry{
		At: now, Kind: session.KindWaiting, Trigger: session.TriggerStep, Step: step.ID,
		Detail: fmt.Sprintf("for the delivery of %s, until %s at the latest", before.ID, end.UTC().Format(time.RFC3339)),
	})
	if err != nil {
		return false, err
	}
	if alarm != nil {
		e.setAlarm(ctx, *alarm)
	}
	return true, nil
}

// waited answers for an execution that did not come to its send. One that lost the race to move the session says why, as
// any other does.
func (e *Executor) waited(ctx context.Context, p session.StepPayload, reason session.SkipReason, err error) (Result, error) {
	switch {
	case err == nil:
		return e.skip(ctx, p, reason, ""), nil
	case errors.Is(err, dispatch.ErrConflict):
		return e.overtaken(ctx, p, dispatch.Sent{})
	}
	return Result{}, err
}
