package queue

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics counts what runners do. In Prometheus the names of the counters end in _total.
type Metrics struct {
	ends metric.Int64Counter
	wait metric.Float64Histogram
}

// NewMetrics registers them. One Metrics serves any number of queues, which are told apart by the attribute queue.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	ends, endsErr := meter.Int64Counter("jobs_ended", metric.WithDescription("Attempts at jobs by what became of the job."))
	wait, waitErr := meter.Float64Histogram("job_age_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after it was stored a job came to its end."),
		metric.WithExplicitBucketBoundaries(.005, .025, .1, .5, 1, 5, 30, 120, 600, 3600, 86400))
	return &Metrics{ends: ends, wait: wait}, errors.Join(endsErr, waitErr)
}

func (m *Metrics) ended(ctx context.Context, queue, eventType string, end Finish) {
	if m == nil {
		return
	}
	which := attribute.String("queue", queue)
	m.ends.Add(ctx, 1, metric.WithAttributes(which, attribute.String("event_type", eventType), attribute.String("status", end.Status)))
	if end.Status != StatusPending {
		m.wait.Record(ctx, end.At.Sub(end.Job.CreatedAt).Seconds(), metric.WithAttributes(which))
	}
}

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// Observe registers gauges of a queue's Stats, which are asked for at every collection under the values of ctx, such as whose
// rows it may see.
func Observe(ctx context.Context, meter metric.Meter, name string, queue *Queue, now func() time.Time) error {
	running, runningErr := meter.Int64ObservableGauge("jobs_running", metric.WithDescription("Jobs that are claimed."))
	backlog, backlogErr := meter.Int64ObservableGauge("jobs_backlog", metric.WithDescription("Jobs that are due and not begun."))
	scheduled, scheduledErr := meter.Int64ObservableGauge("jobs_scheduled", metric.WithDescription("Jobs that are due later."))
	failed, failedErr := meter.Int64ObservableGauge("jobs_failed", metric.WithDescription("Jobs that failed for good."))
	oldest, oldestErr := meter.Float64ObservableGauge("jobs_oldest_due_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest job of the backlog has been due."))
	if err := errors.Join(runningErr, backlogErr, scheduledErr, failedErr, oldestErr); err != nil {
		return err
	}
	which := metric.WithAttributes(attribute.String("queue", name))
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		s, err := queue.Stats(ctx, now())
		if err != nil {
			return err
		}
		o.ObserveInt64(running, int64(s.Running), which)
		o.ObserveInt64(backlog, int64(s.Backlog), which)
		o.ObserveInt64(scheduled, int64(s.Scheduled), which)
		o.ObserveInt64(failed, int64(s.Failed), which)
		o.ObserveFloat64(oldest, s.OldestDue.Seconds(), which)
		return nil
	}, running, backlog, scheduled, failed, oldest)
	return err
}
