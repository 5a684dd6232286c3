package gateway

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// lateness measures how late steps come to their end; the zero value measures nothing.
type lateness struct {
	seconds metric.Float64Histogram
	now     func() time.Time
}

func newLateness(meter metric.Meter, now func() time.Time) (lateness, error) {
	seconds, err := meter.Float64Histogram("step_lateness_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after its alarm was due a step was sent, or skipped, or an attempt at it failed."),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 30, 120, 600, 3600))
	return lateness{seconds: seconds, now: now}, err
}

// ended measures one delivery of an alarm. The due time is in a header that the signature does not cover, so it is measured
// only of a signed body.
func (l lateness) ended(ctx context.Context, d *delivery, outcome string) {
	if l.seconds == nil || d.due.IsZero() {
		return
	}
	l.seconds.Record(ctx, l.now().Sub(d.due).Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
}
