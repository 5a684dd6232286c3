package engagement

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/engagement/rules"
)

// Metrics measures what a Service does; nil measures nothing. In Prometheus the names of the counters end in _total.
type Metrics struct{ outreach, transitions metric.Int64Counter }

// NewMetrics registers them. The ends that alerts watch begin at zero: to Prometheus a counter that appears has not increased.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	outreach, outreachErr := meter.Int64Counter("engagement_outreach",
		metric.WithDescription("Outreach that came to its end, by type and outcome."))
	transitions, transitionsErr := meter.Int64Counter("engagement_transitions",
		metric.WithDescription("Changes of where people stand, by trigger."))
	if err := errors.Join(outreachErr, transitionsErr); err != nil {
		return nil, err
	}
	m := &Metrics{outreach: outreach, transitions: transitions}
	for _, trigger := range rules.Triggers() {
		m.moved(context.Background(), trigger, 0)
	}
	for _, kind := range rules.MessageTypes() {
		for _, outcome := range []string{outcomeSent, outcomeRejected, outcomeGivenUp, outcomeExpired} {
			m.outreach.Add(context.Background(), 0, ends(kind, outcome))
		}
	}
	return m, nil
}

func ends(kind rules.MessageType, outcome string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("type", string(kind)), attribute.String("outcome", outcome))
}

func (m *Metrics) ended(ctx context.Context, kind rules.MessageType, outcome string) {
	if m != nil {
		m.outreach.Add(ctx, 1, ends(kind, outcome))
	}
}

// moved counts so many transitions.
func (m *Metrics) moved(ctx context.Context, trigger rules.Trigger, n int) {
	if m != nil {
		m.transitions.Add(ctx, int64(n), metric.WithAttributes(attribute.String("trigger", string(trigger))))
	}
}
