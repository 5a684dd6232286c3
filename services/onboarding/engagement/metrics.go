package engagement

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/engagement/rules"
)

// Metrics measures what a Service does; nil measures nothing. In Prometheus the names of the counters end in _total.
type Metrics struct {
	outreach, people metric.Int64Counter
	worked           metric.Float64Histogram
	late             metric.Float64Gauge
}

// NewMetrics registers them. The ends that alerts watch begin at zero: to Prometheus a counter that appears has not increased.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	outreach, outreachErr := meter.Int64Counter("engagement_outreach",
		metric.WithDescription("Outreach that came to its end, by type and outcome."))
	people, peopleErr := meter.Int64Counter("engagement_run_people",
		metric.WithDescription("People whom runs looked at, by job and result: succeeded, failed or skipped."))
	worked, workedErr := meter.Float64Histogram("engagement_run_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long a run worked, by job."), metric.WithExplicitBucketBoundaries(.1, 1, 5, 15, 60, 300, 1800))
	late, lateErr := meter.Float64Gauge("engagement_run_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the newest period of a job was to begin that has not ended, by job; 0 when all have."))
	if err := errors.Join(outreachErr, peopleErr, workedErr, lateErr); err != nil {
		return nil, err
	}
	m := &Metrics{outreach: outreach, people: people, worked: worked, late: late}
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

// lag notes how late a job is.
func (m *Metrics) lag(ctx context.Context, job rules.Job, behind time.Duration) {
	if m != nil {
		m.late.Record(ctx, behind.Seconds(), ofJob(job))
	}
}
