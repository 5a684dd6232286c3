package engagement

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/engagement/rules"
)

// Metrics measures what a Service does; nil measures nothing.
type Metrics struct {
	outreach, transitions, people metric.Int64Counter
	worked                        metric.Float64Histogram
}

// NewMetrics registers them. The ends that alerts watch begin at zero: to Prometheus a counter that appears has not increased.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	outreach, outreachErr := meter.Int64Counter("paceline_engagement_outreach_total",
		metric.WithDescription("Outreach that came to its end, by type and outcome."))
	transitions, transitionsErr := meter.Int64Counter("paceline_engagement_transitions_total",
		metric.WithDescription("Changes of where people stand, by trigger."))
	people, peopleErr := meter.Int64Counter("paceline_engagement_run_people_total",
		metric.WithDescription("People whom runs looked at, by job and result: succeeded, failed or skipped."))
	worked, workedErr := meter.Float64Histogram("paceline_engagement_run_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long a run worked, by job."), metric.WithExplicitBucketBoundaries(.1, 1, 5, 15, 60, 300, 1800))
	if err := errors.Join(outreachErr, transitionsErr, peopleErr, workedErr); err != nil {
		return nil, err
	}
	m := &Metrics{outreach: outreach, transitions: transitions, people: people, worked: worked}
	for _, trigger := range rules.Triggers() {
		m.moved(context.Background(), trigger, 0)
	}
	for _, job := range rules.Jobs() {
		m.people.Add(context.Background(), 0, ofJob(job, attribute.String("result", "failed")))
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

func ofJob(job rules.Job, attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(attrs, attribute.String("job", string(job)))...)
}

// ran counts a run that has ended.
func (m *Metrics) ran(ctx context.Context, r Run) {
	if m == nil {
		return
	}
	skipped := 0
	for _, n := range r.Counts.Skipped {
		skipped += n
	}
	for result, n := range map[string]int{"succeeded": r.Counts.Succeeded, "failed": r.Counts.Failed, "skipped": skipped} {
		m.people.Add(ctx, int64(n), ofJob(r.Period.Job, attribute.String("result", result)))
	}
	m.worked.Record(ctx, r.Counts.Worked.Seconds(), ofJob(r.Period.Job))
}

// moved counts so many transitions.
func (m *Metrics) moved(ctx context.Context, trigger rules.Trigger, n int) {
	if m != nil {
		m.transitions.Add(ctx, int64(n), metric.WithAttributes(attribute.String("trigger", string(trigger))))
	}
}
