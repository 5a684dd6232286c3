package conversation

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/session"
)

// Metrics measures what a Service does; nil measures nothing.
type Metrics struct{ spacing metric.Float64Histogram }

// NewMetrics registers them.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	spacing, err := meter.Float64Histogram("paceline_step_spacing_error_seconds", metric.WithUnit("s"),
		metric.WithDescription("By how much the gap between a step's text and the one before, as Twilio took them, was longer than the flow's; "+
			"negative is too close."),
		metric.WithExplicitBucketBoundaries(-5, -1, -.25, .25, 1, 2, 5, 15, 60, 300, 1800, 7200))
	if err != nil {
		return nil, err
	}
	return &Metrics{spacing: spacing}, nil
}

// spaced records by how much a message that was taken now came too late or too early. What cannot be measured is left out: the first step
// follows a reply, and a session that was resumed was moved by an operator last.
func (m *Metrics) spaced(ctx context.Context, r session.Record, follows bool, due, at time.Time) {
	if m != nil && follows && r.Detours == 0 && !due.IsZero() {
		m.spacing.Record(ctx, at.Sub(due).Seconds())
	}
}
