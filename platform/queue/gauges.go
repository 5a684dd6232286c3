package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Gauges are the state of a queue, of all processes together. No count goes beyond a limit, so that asking stays cheap however bad
// it is.
type Gauges struct {
	Running          int     `json:"running"`            // claimed, and not at their end
	Backlog          int     `json:"backlog"`            // due and not begun
	Scheduled        int     `json:"scheduled"`          // due later, retries included
	Failed           int     `json:"failed"`             // failed for good and kept, until they are retried or retention deletes them
	OldestDueSeconds float64 `json:"oldest_due_seconds"` // how long the oldest of the backlog has been due
}

// countLimit is the number at which Queue.Gauges stops counting.
const countLimit = 100_000

// sqlGauges reads only partial indexes, never the finished jobs: those of what is pending, processing, or failed.
const sqlGauges = `
with recursive {oldest due}
select
    (select count(*) from (select 1 from {table} t where t.status = 'processing' limit $2::integer) x),
    (select count(*) from (
        select 1 from {table} t where t.status = 'pending' and t.next_retry_at <= $1::timestamptz limit $2::integer) x),
    (select count(*) from (
        select 1 from {table} t where t.status = 'pending' and t.next_retry_at > $1::timestamptz limit $2::integer) x),
    (select count(*) from (select 1 from {table} t where t.status = 'failed' limit $2::integer) x),
    (select at from oldest where at <= $1::timestamptz)`

// Gauges reads the state of the queue.
func (q *Queue) Gauges(ctx context.Context, now time.Time) (Gauges, error) {
	return q.GaugesUpTo(ctx, now, countLimit)
}

// GaugesUpTo reads the state of the queue, and counts nothing beyond a limit.
func (q *Queue) GaugesUpTo(ctx context.Context, now time.Time, limit int) (Gauges, error) {
	var g Gauges
	var oldest *time.Time
	var batch pgx.Batch
	batch.Queue(q.sql.byIndex)
	batch.Queue(q.sql.gauges, now, limit)
	results := q.pool.SendBatch(ctx, &batch)
	_, err := results.Exec()
	if err == nil {
		err = results.QueryRow().Scan(&g.Running, &g.Backlog, &g.Scheduled, &g.Failed, &oldest)
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return Gauges{}, fmt.Errorf("gauges of the queue: %w", err)
	}
	if oldest != nil {
		g.OldestDueSeconds = now.Sub(*oldest).Seconds()
	}
	return g, nil
}

// Health is the state of a queue and whether this process works it, for people.
type Health struct {
	Processor string `json:"processor"` // running, or stopped
	Gauges
}

// Health reads the queue's gauges, and says whether the runner's loop is running.
func (r *Runner) Health(ctx context.Context, queue *Queue, now time.Time) (Health, error) {
	gauges, err := queue.Gauges(ctx, now)
	if err != nil {
		return Health{}, err
	}
	h := Health{Processor: "stopped", Gauges: gauges}
	if r.looping.Load() {
		h.Processor = "running"
	}
	return h, nil
}

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// Observe registers a queue's Gauges, which are asked for at every collection under the values of ctx, such as the scope of the
// rows it may see.
func Observe(ctx context.Context, meter metric.Meter, name string, queue *Queue, now func() time.Time) error {
	running, runningErr := meter.Int64ObservableGauge("paceline_jobs_running", metric.WithDescription("Jobs that are claimed."))
	backlog, backlogErr := meter.Int64ObservableGauge("paceline_jobs_backlog", metric.WithDescription("Jobs that are due and not begun."))
	scheduled, scheduledErr := meter.Int64ObservableGauge("paceline_jobs_scheduled", metric.WithDescription("Jobs that are due later."))
	failed, failedErr := meter.Int64ObservableGauge("paceline_jobs_failed", metric.WithDescription("Jobs that failed for good."))
	oldest, oldestErr := meter.Float64ObservableGauge("paceline_jobs_oldest_due_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest job of the backlog has been due."))
	if err := errors.Join(runningErr, backlogErr, scheduledErr, failedErr, oldestErr); err != nil {
		return err
	}
	which := metric.WithAttributes(attribute.String("queue", name))
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		g, err := queue.Gauges(ctx, now())
		if err != nil {
			return err
		}
		o.ObserveInt64(running, int64(g.Running), which)
		o.ObserveInt64(backlog, int64(g.Backlog), which)
		o.ObserveInt64(scheduled, int64(g.Scheduled), which)
		o.ObserveInt64(failed, int64(g.Failed), which)
		o.ObserveFloat64(oldest, g.OldestDueSeconds, which)
		return nil
	}, running, backlog, scheduled, failed, oldest)
	return err
}
