package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/platform/process"
)

// sqlDeleteOld walks the index of what is finished, a batch at a time and from where the last batch ended, so that rows that have to be
// kept are passed over once in a pass. {keep} is the owner's condition. A row that another transaction has locked is left to the next
// pass, and counted.
const sqlDeleteOld = `
with old as materialized (
    select j.id, j.processed_at from {table} j
    where j.processed_at is not null and j.processed_at < $1::timestamptz and (j.processed_at, j.id) > ($2::timestamptz, $3::uuid)
    order by j.processed_at, j.id limit $4::integer
),
wanted as materialized (
    select j.id from {table} j
    where j.id = any(array(select id from old)) and j.status || '' in ('completed', 'failed', 'cancelled') and ({keep}) is not true
),
free as materialized (
    select j.id from {table} j
    where j.id = any(array(select id from wanted)) and j.status || '' in ('completed', 'failed', 'cancelled')
      and j.processed_at < $1::timestamptz
    for update skip locked
),
gone as (
    delete from {table} j where j.id = any(array(select id from free)) returning 1
)
select (select count(*) from gone), (select count(*) from wanted) - (select count(*) from free), (select count(*) from old),
    o.processed_at, o.id::text
from (select 1) one left join lateral (select processed_at, id from old order by processed_at desc, id desc limit 1) o on true`

// retentionInterval is the pause between two looks for jobs that are old enough.
const retentionInterval = 10 * time.Minute

// Retention deletes finished jobs after a time.
type Retention struct {
	Queue *Queue
	// Keep is an SQL condition on the row j, of jobs that have to stay. Empty keeps none.
	Keep  string
	For   time.Duration // how long a finished job is kept
	Batch int           // rows to a statement; default 1000
	Log   *slog.Logger
	Now   func() time.Time
}

// Loop deletes until nothing is left that is old enough, then rests.
func (r *Retention) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			_, err := r.Sweep(ctx)
			return false, err
		},
		Failed: func(ctx context.Context, err error) {
			r.Log.WarnContext(ctx, "worker.retention_failed", "queue", r.Queue.table.Name, "error", err)
		},
		Rest: rest, Every: retentionInterval,
	}
}

// Sweep makes one pass over all that is old enough and reports how many jobs it deleted.
func (r *Retention) Sweep(ctx context.Context) (deleted int, err error) {
	keep, batch := r.Keep, r.Batch
	if keep == "" {
		keep = "false"
	}
	if batch == 0 {
		batch = 1000
	}
	sql := r.Queue.withKeep(keep)
	before := r.Now().Add(-r.For)
	at, id := time.Time{}, "00000000-0000-0000-0000-000000000000"
	for ctx.Err() == nil {
		var gone, locked, seen int
		var lastAt *time.Time
		var lastID *string
		if err := r.Queue.pool.QueryRow(ctx, sql, before, at, id, batch).Scan(&gone, &locked, &seen, &lastAt, &lastID); err != nil {
			return deleted, fmt.Errorf("clear jobs away: %w", err)
		}
		process.Progress(ctx)
		for range locked {
			process.PassedOver(ctx)
		}
		deleted += gone
		if lastAt == nil || seen < batch {
			break
		}
		at, id = *lastAt, *lastID
	}
	if deleted > 0 {
		r.Log.InfoContext(ctx, "queue.cleared", "queue", r.Queue.table.Name, "jobs", deleted)
	}
	return deleted, nil
}
