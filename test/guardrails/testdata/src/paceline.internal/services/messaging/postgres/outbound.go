package postgres

import (
	"context"

	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/outbound"
)

type Outbound struct {
	jobs   *queue.Queue
	intake *queue.Intake
}

func (o *Outbound) Enqueue(ctx context.Context, r outbound.Request) error {
	return o.intake.Enqueue(ctx, queue.New{})
}

func (o *Outbound) many(ctx context.Context) {
	o.jobs.EnqueueMany(ctx, nil) // want `burst enqueue detected`
}

const (
	sqlText   = `select status from sms_outbound_jobs where id = @id`
	sqlInsert = `insert into sms_outbound_jobs (id) values (@id)` // want `an insert into sms_outbound_jobs`
)
