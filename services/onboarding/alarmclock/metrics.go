package alarmclock

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics measures how late steps are.
type Metrics struct{ lateness metric.Float64Histogram }

// NewMetrics registers the metric that the gateway has for the alarms of QStash.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	lateness, err := meter.Float64Histogram("paceline_step_lateness_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after its alarm was due a step was sent, or skipped, or an attempt at it failed."),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 30, 120, 600, 3600))
	return &Metrics{lateness: lateness}, err
}

func (m *Metrics) late(ctx context.Context, by time.Duration, outcome string) {
	if m != nil {
		m.lateness.Record(ctx, by.Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
	}
}
