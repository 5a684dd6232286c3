package queue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/retention"
)

// sqlDeleteOld walks the index of what is finished, a batch at a time and from where the last batch ended, so that rows that have to be
// kept are passed over once in a pass. {keep} is the owner's condition. A row that another transaction has locked is left to the next
// pass, and counted.
const sqlDeleteOld = `
with old as materialized (
    select j.id, j.processed_at as at from {table} j
    where j.processed_at is not null and j.processed_at < @before::timestamptz and (j.processed_at, j.id) > (@at::timestamptz, @id::uuid)
    order by j.processed_at, j.id limit @limit::integer
),` + sqlDeleteThem + `
from (select 1) one left join lateral (select at, id from old order by at desc, id desc limit 1) o on true`

// sqlDeleteOldOf walks the list of an organisation, where one keeps jobs for a time that it chose. Ids are in the order in which jobs
// came, and what came later did not end before: so a batch that ends with such a job is the last one.
const sqlDeleteOldOf = `
with old as materialized (
    select j.id, j.created_at as at from {table} j
    where j.org_id = @org::uuid and j.id > @id::uuid order by j.id limit @limit::integer
),` + sqlDeleteThem + `
from (select 1) one left join lateral (select at, id from old order by id desc limit 1) o on o.at < @before::timestamptz`

const sqlDeleteThem = `
wanted as materialized (
    select j.id from {table} j
    where j.id = any(array(select id from old)) and j.status || '' in ('completed', 'failed', 'cancelled')
      and j.processed_at < @before::timestamptz and {part} and ({keep}) is not true
),
free as materialized (
    select j.id from {table} j
    where j.id = any(array(select id from wanted)) and j.status || '' in ('completed', 'failed', 'cancelled')
      and j.processed_at < @before::timestamptz
    for update skip locked
),
gone as (
    delete from {table} j where j.id = any(array(select id from free)) returning 1
)
select (select count(*) from gone), (select count(*) from wanted) - (select count(*) from free), (select count(*) from old),
    o.at, o.id::text`

// defaultBatch is the number of rows to a statement.
const defaultBatch = 1000

// retentionInterval is the pause between two looks for jobs that are old enough.
const retentionInterval = 10 * time.Minute

// Retention deletes finished jobs after a time.
type Retention struct {
	Queue *Queue
	// Keep is an SQL condition on the row j, of jobs that have to stay. Empty keeps none.
	Keep string
	For  time.Duration // how long a finished job is kept
	// Setting names an organisation's own time instead of For, and Own reads them. Nil where they cannot.
	Setting string
	Own     func(ctx context.Context) (retention.Own, error)

	Batch int // rows to a statement; default 1000
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
			r.Log.WarnContext(ctx, "queue.retention_failed", "queue", r.Queue.table.Name, "error", err)
		},
		Rest: rest, Every: retentionInterval,
	}
}

// Sweep makes one pass over all that is old enough and reports how many jobs it deleted.
func (r *Retention) Sweep(ctx context.Context) (deleted int, err error) {
	var own retention.Own
	if r.Own != nil {
		if own, err = r.Own(ctx); err != nil {
			return 0, fmt.Errorf("clear jobs away: %w", err)
		}
	}
	parts, err := own.PartsOf(ctx, r.Queue.pool, r.Setting, r.For, r.Now(), r.Queue.table.Name)
	if err != nil {
		return 0, fmt.Errorf("clear jobs away: %w", err)
	}
	for _, part := range parts {
		n, err := r.sweep(ctx, part)
		if deleted += n; err != nil {
			return deleted, fmt.Errorf("clear jobs away: %w", err)
		}
	}
	if deleted > 0 {
		r.Log.InfoContext(ctx, "queue.cleared", "queue", r.Queue.table.Name, "jobs", deleted)
	}
	return deleted, nil
}

func (r *Retention) sweep(ctx context.Context, part retention.Part) (deleted int, err error) {
	sql, batch := r.Queue.sql.deleteOld, cmp.Or(r.Batch, defaultBatch)
	if part.Org != "" {
		sql = r.Queue.sql.deleteOldOf
	}
	sql = part.SQL(strings.ReplaceAll(sql, "{keep}", cmp.Or(r.Keep, "false")), "j")
	at, id := time.Time{}, "00000000-0000-0000-0000-000000000000"
	for ctx.Err() == nil {
		var gone, locked, seen int
		var lastAt *time.Time
		var lastID *string
		args := part.Args(postgres.Args{"at": at, "id": id, "limit": batch})
		if err := r.Queue.pool.QueryRow(ctx, sql, args).Scan(&gone, &locked, &seen, &lastAt, &lastID); err != nil {
			return deleted, err
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
	return deleted, nil
}
