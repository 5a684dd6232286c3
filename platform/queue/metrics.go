package queue

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics counts what runners do.
type Metrics struct {
	ends metric.Int64Counter
	wait metric.Float64Histogram
}

// NewMetrics registers them. One Metrics serves any number of queues, which are told apart by the attribute queue.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	ends, endsErr := meter.Int64Counter("paceline_job_attempts_total",
		metric.WithDescription("Attempts at jobs, by the status that they left."))
	wait, waitErr := meter.Float64Histogram("paceline_job_age_seconds", metric.WithUnit("s"),
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
