package outbox

import (
	"context"

	"paceline.internal/platform/qstash"
)

type publisher interface {
	Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error)
}

type Outbox[A any] struct{ QStash publisher }

func (o *Outbox[A]) Publish(ctx context.Context, a A) error {
	_, err := o.schedule(ctx, a)
	return err
}

func (o *Outbox[A]) schedule(ctx context.Context, _ A) (qstash.Receipt, error) {
	return o.QStash.Publish(ctx, qstash.Job{})
}

func (o *Outbox[A]) scheduleAnother(ctx context.Context) {
	o.QStash.Publish(ctx, qstash.Job{}) // want `^second publisher of steps detected - commit the alarm and hand it to its outbox: Publish\.`
}

func relay(ctx context.Context, o *Outbox[string]) error { return o.Publish(ctx, "session") }
