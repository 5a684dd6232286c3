package qstash

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

func newLateness(meter metric.Meter) (metric.Float64Histogram, error) {
	return meter.Float64Histogram("paceline_step_lateness_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after its alarm was due a step was sent, or skipped, or an attempt at it failed."),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 30, 120, 600, 3600))
}

// late measures how late a step ended. The due time is in a header that the signature does not cover, so it is measured
// only of a signed body.
func (a *Alarms) late(ctx context.Context, d *delivery, outcome string) {
	if d.due.IsZero() {
		return
	}
	a.lateness.Record(ctx, a.Now().Sub(d.due).Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
}
