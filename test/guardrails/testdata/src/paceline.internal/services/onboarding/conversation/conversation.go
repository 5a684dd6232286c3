package conversation

import (
	"context"

	"paceline.internal/platform/qstash"
)

type clock interface {
	Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error)
}

type Publisher struct{ QStash clock }

func (p *Publisher) Publish(ctx context.Context, sessionID string) error {
	_, err := p.scheduleStep(ctx)
	return err
}

func (p *Publisher) scheduleStep(ctx context.Context) (qstash.Receipt, error) {
	return p.QStash.Publish(ctx, qstash.Job{})
}

func (p *Publisher) scheduleAnother(ctx context.Context) {
	p.QStash.Publish(ctx, qstash.Job{}) // want `^second publisher of steps detected - leave the alarm in the outbox and hand it to the Publisher: Publish\.`
}

type Relay struct{ Publisher *Publisher }

func (r *Relay) once(ctx context.Context) error { return r.Publisher.Publish(ctx, "session") }
