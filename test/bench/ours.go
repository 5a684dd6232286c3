package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
)

// sqlOurs is the table as package queue asks for it, with the checks that the services' own tables have.
const sqlOurs = `
create table jobs (
    id              uuid        primary key,
    org_id          uuid        not null,
    idempotency_key text        not null,
    event_type      text        not null,
    subject         text        not null,
    payload         jsonb       not null,
    status          text        not null check (status in ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    attempts        integer     not null default 0,
    max_attempts    integer     not null default 3 check (max_attempts > 0),
    next_retry_at   timestamptz,
    lease_token     uuid,
    lease_until     timestamptz,
    lost_leases     integer     not null default 0,
    processed_at    timestamptz,
    error_message   text        not null default '',
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    actor           jsonb,
    unique (org_id, idempotency_key),
    check ((status = 'pending') = (next_retry_at is not null)),
    check ((status = 'processing') = (lease_token is not null)),
    check ((status = 'processing') = (lease_until is not null))
) with (autovacuum_vacuum_scale_factor = 0.02);
create index jobs_due on jobs (org_id, next_retry_at, id) where status = 'pending';
create index jobs_leased on jobs (lease_until) where status = 'processing';
create index jobs_open_by_subject on jobs (org_id, subject, id) where status in ('pending', 'processing') and subject <> '';
create index jobs_at_work_by_subject on jobs (subject, org_id, id) where status = 'processing' and subject <> '';
create index jobs_failed on jobs (org_id, id) where status = 'failed';
create index jobs_ended on jobs (processed_at) where processed_at is not null;`

func oursSchema() schema {
	return schema{
		table: "jobs", open: "processed_at is null",
		migrate: func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := pool.Exec(ctx, sqlOurs)
			return err
		},
		sqlFill: `
insert into jobs (id, created_at, org_id, updated_at, idempotency_key, processed_at, event_type, subject, payload, status)
select gen_random_uuid(), now(), '` + organisation(0) + `', now(), 'before-' || n, now(), 'work', '', $2::text::jsonb, 'completed'
from generate_series(1, $1::integer) n`,
	}
}

// organisations share the queue, so that the claim has to be fair between them.
const organisations = 10

func organisation(n int) string {
	return fmt.Sprintf("00000000-0000-7000-8000-%012d", n%organisations)
}

// openOurs is package queue as a service has it, with handlers that take less than a millisecond.
func openOurs(pool *pgxpool.Pool, run string, now func() time.Time) *contender {
	tasks := queue.NewQueue(pool, queue.Table{Name: "jobs"})
	intake, log := queue.NewIntake(tasks), slog.New(slog.DiscardHandler)
	// The runner learns of new jobs by NOTIFY alone, as one in another process does.
	notifier := queue.NewNotifier(pool, "paceline_bench", nil, log)
	job := func(n int, at time.Time) queue.New {
		return queue.New{
			ID: uuid.Must(uuid.NewV7()).String(), OrgID: organisation(n), Key: fmt.Sprintf("%s-%d", run, n), EventType: "work",
			Payload: payload(n), At: at, DueAt: at,
		}
	}
	return &contender{
		pool: pool,
		storeMany: func(ctx context.Context, first, n int) error {
			jobs, at := make([]queue.New, n), now()
			for i := range jobs {
				jobs[i] = job(first+i, at)
			}
			_, err := tasks.EnqueueMany(ctx, pool, jobs)
			notifier.Notify()
			return err
		},
		storeOne: func(ctx context.Context, n int) error {
			_, err := intake.Enqueue(ctx, job(n, now()))
			notifier.Notify()
			return err
		},
		start: func(ctx context.Context, done func(n int)) (func() error, error) {
			wake := make(chan struct{}, 1)
			loop := queue.NewRunner(queue.Config{
				Name: "bench", Store: tasks, Log: log, Now: now, Wake: wake, Workers: 1500, Fetchers: 2,
				Handlers: map[string]queue.Handler{"work": func(_ context.Context, j queue.Job) error {
					done(numberOf(j.Payload))
					return nil
				}},
			}).Loop(process.RestOnMachineClock)
			ctx, cancel := context.WithCancel(ctx)
			var running sync.WaitGroup
			var looped, notified error
			running.Go(func() { looped = loop.Run(ctx) })
			running.Go(func() { notified = notifier.Run(ctx) })
			running.Go(func() { postgres.Listen(ctx, pool.Config().ConnConfig, "paceline_bench", func() { queue.Wake(wake) }) })
			return func() error {
				cancel()
				running.Wait()
				return firstOf(looped, notified)
			}, nil
		},
		busy: busyBy(pool, `
select exists (select from jobs where status = 'processing') or exists (select from jobs where status = 'pending')`),
		sqlCount: `select count(*) filter (where status = 'completed'), count(*) filter (where status <> 'completed') from jobs`,
	}
}
