package queue

import "context"

type New struct{}

type Queue struct{}

func (q *Queue) Enqueue(ctx context.Context, n New) error { return nil }

func (q *Queue) EnqueueMany(ctx context.Context, n []New) error { return nil }

type Intake struct{}

func (i *Intake) Enqueue(ctx context.Context, n New) error { return nil }

const (
	sqlDue   = `select id from jobs where due_at <= @now`
	sqlStale = `update jobs set leased = null where lease_until < now()` // want `SQL reads the database's clock, now\(\) - pass the time as a parameter`
)
