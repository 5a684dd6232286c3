package burst

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"paceline.internal/platform/qstash"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/session"
)

// Routes of the gateway that QStash calls, and the label of what it delivers there.
const (
	stepPath = "/api/onboarding/step"
	// FailurePath is told of an alarm whose every attempt failed.
	FailurePath = "/api/onboarding/step/failed"
	// Label is what alarms can be filtered by among QStash's logs and dead letters.
	Label = "onboarding-step"
)

const (
	// publishTimeout bounds the publish inside a request. The relay takes over what is not done by then.
	publishTimeout = 4 * time.Second
	// recordTimeout bounds writing down what became of it, which is worth doing even if the caller is gone.
	recordTimeout = 4 * time.Second
)

type clock interface {
	Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error)
}

type outbox interface {
	AlarmPublished(ctx context.Context, id, qstashMessageID string, at time.Time) error
	AlarmFailed(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error
}

// Publisher hands alarms to QStash. It is the only thing that does.
type Publisher struct {
	QStash clock
	Outbox outbox
	Flow   session.Flow
	// Disabled keeps alarms in the outbox. They are published once it is lifted.
	Disabled bool
	Threads  telemetry.Threads
	Log      *slog.Logger
	Now      func() time.Time
}

// Publish asks QStash to deliver an alarm when it is due, and records that it has it. The alarm must be in the outbox,
// leased to the caller. After an error it is the relay's.
func (p *Publisher) Publish(ctx context.Context, a session.Alarm) error {
	if p.Disabled {
		p.Log.InfoContext(ctx, "onboarding.scheduling_disabled", "step_id", string(a.StepID), "session_id", a.SessionID)
		return ErrDisabled
	}
	ctx, end := p.Threads.Begin(ctx, "onboarding.alarm", a.SessionID) // the relay comes without a trace
	defer end()
	receipt, err := p.scheduleStep(ctx, a)
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err != nil {
		return p.giveBack(record, a, err)
	}
	if err := p.Outbox.AlarmPublished(record, a.ID, receipt.MessageID, p.Now()); err != nil {
		return err
	}
	p.report(ctx, a)
	return nil
}

// report tells that a step was scheduled by the one before it, with the delay that the flow has between them. A step that is
// set again was told of before; the first of a burst follows a reply and not a step.
func (p *Publisher) report(ctx context.Context, a session.Alarm) {
	before, ok := p.Flow.Previous(a.StepID)
	step, known := p.Flow.Step(a.StepID)
	if !ok || !known || a.Generation > 1 {
		return
	}
	p.Log.InfoContext(ctx, "onboarding.step_next_scheduled", "step_id", string(before.ID), "session_id", a.SessionID,
		"next_step_id", string(a.StepID), "delay_ms", step.Delay.Milliseconds())
}

// scheduleStep is the one place where a step is scheduled: target, payload, due time and identity. How hard QStash tries
// is the policy of its publisher.
func (p *Publisher) scheduleStep(ctx context.Context, a session.Alarm) (qstash.Receipt, error) {
	body, err := a.Payload().Encode()
	if err != nil {
		return qstash.Receipt{}, fmt.Errorf("encode alarm: %w", err)
	}
	id, err := dedupID(a)
	if err != nil {
		return qstash.Receipt{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return p.QStash.Publish(ctx, qstash.Job{Path: stepPath, Label: Label, DedupID: id, Body: body, Due: a.DueAt})
}

// dedupID is onboarding-{session_id}-{step_id}-{generation}. The session is the episode, so that a second run is never
// taken for the first; a new generation is a new alarm, which must not be lost in the window of the one before it.
func dedupID(a session.Alarm) (qstash.DedupID, error) {
	return qstash.NewDedupID("onboarding", a.SessionID, string(a.StepID), strconv.Itoa(a.Generation))
}

// retryPause is how long a failed publish rests before the relay tries it.
const retryPause = time.Second

func (p *Publisher) giveBack(ctx context.Context, a session.Alarm, cause error) error {
	if err := p.Outbox.AlarmFailed(ctx, a, cause.Error(), p.Now().Add(retryPause)); err != nil {
		return fmt.Errorf("publish: %w; and the outbox: %w", cause, err)
	}
	return fmt.Errorf("publish: %w", cause)
}
