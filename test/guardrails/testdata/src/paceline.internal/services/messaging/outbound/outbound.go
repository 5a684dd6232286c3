package outbound

import (
	"context"

	"paceline.internal/platform/queue"
)

type Request struct{ Key string }

type Intake struct{ Store *Store }

func (d *Intake) Enqueue(ctx context.Context, r Request) error { return d.Store.Enqueue(ctx, r) }

func (d *Intake) shortcut(ctx context.Context, r Request) {
	d.Store.Enqueue(ctx, r) // want `^burst enqueue detected - use QStash scheduling: .*Store\)\.Enqueue\.`
}

type Store struct {
	jobs   *queue.Queue
	intake *queue.Intake
}

func (o *Store) Enqueue(ctx context.Context, r Request) error {
	return o.intake.Enqueue(ctx, queue.New{})
}

func (o *Store) many(ctx context.Context) {
	o.jobs.EnqueueMany(ctx, nil) // want `burst enqueue detected`
}

const (
	sqlText   = `select status from sms_outbound_jobs where id = @id`
	sqlInsert = `insert into sms_outbound_jobs (id) values (@id)` // want `an insert into sms_outbound_jobs`
)

type RPC struct{ Intake *Intake }

func (o *RPC) EnqueueText(ctx context.Context) error {
	return o.Intake.Enqueue(ctx, Request{})
}
