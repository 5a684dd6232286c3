package qstash

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Lateness measures how late steps are, whoever rings their alarms.
type Lateness struct{ histogram metric.Float64Histogram }

// NewLateness registers the metric.
func NewLateness(meter metric.Meter) (*Lateness, error) {
	histogram, err := meter.Float64Histogram("paceline_step_lateness_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after its alarm was due a step was sent, or skipped, or an attempt at it failed."),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 30, 120, 600, 3600))
	return &Lateness{histogram: histogram}, err
}

// Record measures a step that ended so long after it was due. Outcome is sent, skipped or failed. A nil Lateness measures nothing.
func (l *Lateness) Record(ctx context.Context, late time.Duration, outcome string) {
	if l != nil {
		l.histogram.Record(ctx, late.Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
	}
}
