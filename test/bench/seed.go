package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/platform/process"
)

// sqlSeed is the table of seed 002.
const sqlSeed = `
create table webhook_job (
    id              uuid        primary key default gen_random_uuid(),
    org_id          uuid        not null,
    idempotency_key text        not null,
    source          text        not null,
    event_type      text        not null,
    payload         jsonb       not null,
    status          text        not null default 'pending',
    attempts        integer     not null default 0,
    max_attempts    integer     not null default 3,
    next_retry_at   timestamptz default now(),
    processed_at    timestamptz,
    error_message   text,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now()
);
create index idx_webhook_job_pending on webhook_job (next_retry_at) where status = 'pending';
create unique index uq_webhook_job_idempotency on webhook_job (idempotency_key);`

func seedSchema() schema {
	return schema{
		table: "webhook_job", open: "processed_at is null",
		migrate: func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := pool.Exec(ctx, sqlSeed)
			return err
		},
		sqlFill: `
insert into webhook_job (org_id, idempotency_key, source, event_type, payload, status, processed_at)
select '` + organisation(0) + `', 'before-' || n, 'kapso', 'work', $2::text::jsonb, 'completed', now()
from generate_series(1, $1::integer) n`,
	}
}

// The statements of seed 002, as they stand there.
const (
	sqlSeedEnqueue = `
insert into webhook_job (org_id, idempotency_key, source, event_type, payload, max_attempts) values ($1, $2, 'kapso', 'work', $3, 3)
on conflict (idempotency_key) do nothing returning id`
	sqlSeedAcquire = `
update webhook_job set status = 'processing', updated_at = now()
where id = (
    select id from webhook_job where status = 'pending' and next_retry_at <= now()
    order by next_retry_at asc limit 1 for update skip locked
)
returning id, payload`
	sqlSeedComplete = `update webhook_job set status = 'completed', processed_at = $2, updated_at = $2 where id = $1`
)

// seedIdle is how long a loop rests that found nothing. The seed's own 5 s, with one job to a poll, would be 0.2 jobs a second.
const seedIdle = time.Millisecond

// openSeed is the seed's loop, several times over.
func openSeed(pool *pgxpool.Pool, run string, loops int, now func() time.Time) *contender {
	var unrecorded atomic.Int64
	return &contender{
		pool: pool, oneByOne: true,
		storeMany: func(ctx context.Context, first, n int) error {
			_, err := pool.CopyFrom(ctx, pgx.Identifier{"webhook_job"}, []string{"org_id", "idempotency_key", "source", "event_type", "payload"},
				pgx.CopyFromSlice(n, func(i int) ([]any, error) {
					return []any{uuid.MustParse(organisation(first + i)), fmt.Sprintf("%s-%d", run, first+i), "kapso", "work", payload(first + i)}, nil
				}))
			return err
		},
		storeOne: func(ctx context.Context, n int) error {
			var id uuid.UUID
			return pool.QueryRow(ctx, sqlSeedEnqueue, organisation(n), fmt.Sprintf("%s-%d", run, n), payload(n)).Scan(&id)
		},
		start: func(ctx context.Context, done func(n int)) (func() error, error) {
			ctx, cancel := context.WithCancel(ctx)
			var running sync.WaitGroup
			ends := make([]error, loops)
			for i := range loops {
				running.Go(func() { ends[i] = seedLoop(ctx, pool, &unrecorded, now, done) })
			}
			return func() error {
				cancel()
				running.Wait()
				return firstOf(ends...)
			}, nil
		},
		busy:     func(context.Context) (bool, error) { return unrecorded.Load() > 0, nil },
		sqlCount: `select count(*) filter (where status = 'completed'), count(*) filter (where status <> 'completed') from webhook_job`,
	}
}

// seedLoop acquires one job, does it, completes it, and so on.
func seedLoop(ctx context.Context, pool *pgxpool.Pool, unrecorded *atomic.Int64, now func() time.Time, done func(n int)) error {
	for ctx.Err() == nil {
		var id uuid.UUID
		var content []byte
		// An acquire that is cancelled may still take a job in the server, which would never be done: the seed has no leases.
		err := pool.QueryRow(context.WithoutCancel(ctx), sqlSeedAcquire).Scan(&id, &content)
		if errors.Is(err, pgx.ErrNoRows) {
			process.RestOnMachineClock(ctx, seedIdle, nil)
			continue
		}
		if err != nil {
			return err
		}
		unrecorded.Add(1)
		done(numberOf(content))
		if _, err := pool.Exec(context.WithoutCancel(ctx), sqlSeedComplete, id, now()); err != nil {
			return err
		}
		unrecorded.Add(-1)
	}
	return nil
}
