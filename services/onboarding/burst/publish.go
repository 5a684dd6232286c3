package burst

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/session"
)

// Policy is how alarms are published.
type Policy struct {
	// BaseURL is the origin that QStash reaches the gateway by.
	BaseURL string
	// Retries is how often QStash tries again after the first attempt.
	Retries int
	// RetryDelay is QStash's expression for the pause before each retry, in milliseconds.
	RetryDelay string
	// Disabled keeps alarms in the outbox. They are published once it is lifted.
	Disabled bool
}

// Routes of the gateway that QStash calls.
const (
	stepPath    = "/api/onboarding/step"
	failurePath = "/api/onboarding/step/failed"
)

const (
	// attemptTimeout is how long QStash waits for one execution: longer than a call to Twilio may take.
	attemptTimeout = 30 * time.Second
	// publishTimeout bounds the publish inside a request. The relay takes over what is not done by then.
	publishTimeout = 4 * time.Second
	// recordTimeout bounds writing down what became of it, which is worth doing even if the caller is gone.
	recordTimeout = 4 * time.Second
	label         = "onboarding-step"
)

type clock interface {
	Publish(ctx context.Context, m qstash.Message) (qstash.Receipt, error)
}

type outbox interface {
	AlarmPublished(ctx context.Context, id, qstashMessageID string, at time.Time) error
	AlarmFailed(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error
}

// Publisher hands alarms to QStash. It is the only thing that does.
type Publisher struct {
	QStash clock
	Outbox outbox
	Policy Policy
	Flow   session.Flow
	Log    *slog.Logger
	Now    func() time.Time
}

// Publish asks QStash to deliver an alarm when it is due, and records that it has it. The alarm must be in the outbox,
// leased to the caller. After an error it is the relay's.
func (p *Publisher) Publish(ctx context.Context, a session.Alarm) error {
	if p.Policy.Disabled {
		p.Log.InfoContext(ctx, "onboarding.scheduling_disabled", "step_id", string(a.StepID), "session_id", a.SessionID)
		return ErrDisabled
	}
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

// scheduleStep is the one place where a step is scheduled: target, payload, delay and retry policy.
func (p *Publisher) scheduleStep(ctx context.Context, a session.Alarm) (qstash.Receipt, error) {
	body, err := a.Payload().Encode()
	if err != nil {
		return qstash.Receipt{}, fmt.Errorf("encode alarm: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return p.QStash.Publish(ctx, qstash.Message{
		Destination:     p.Policy.BaseURL + stepPath,
		Body:            body,
		ContentType:     "application/json",
		Delay:           max(0, a.DueAt.Sub(p.Now())),
		Retries:         p.Policy.Retries,
		RetryDelay:      p.Policy.RetryDelay,
		DeduplicationID: a.DedupID(),
		FailureCallback: p.Policy.BaseURL + failurePath,
		Label:           label,
		Timeout:         attemptTimeout,
	})
}

// retryPause is how long a failed publish rests before the relay tries it.
const retryPause = time.Second

func (p *Publisher) giveBack(ctx context.Context, a session.Alarm, cause error) error {
	if err := p.Outbox.AlarmFailed(ctx, a, cause.Error(), p.Now().Add(retryPause)); err != nil {
		return fmt.Errorf("publish: %w; and the outbox: %w", cause, err)
	}
	return fmt.Errorf("publish: %w", cause)
}
