package engagement

import (
	"context"
	"errors"
	"time"

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

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// gauges reads the figures of one collection.
type gauges interface {
	// People counts people by state, up to a limit for each.
	People(ctx context.Context) (map[rules.State]int, error)
	// RunMissing returns when the oldest period began that an organisation with people has not come to the end of; the zero time for none.
	RunMissing(ctx context.Context, usual rules.Period, own map[string]rules.Period) (time.Time, error)
}

// Observe registers gauges of how people stand and how late the runs are, which are asked for at every collection under the values of ctx,
// such as the rows that it may see. The lag is asked of the database, because a loop that stands still measures nothing.
func (s *Service) Observe(ctx context.Context, meter metric.Meter, store gauges) error {
	people, peopleErr := meter.Int64ObservableGauge("paceline_engagement_people",
		metric.WithDescription("People by where they stand, counted up to 100,000 for each state."))
	lag, lagErr := meter.Float64ObservableGauge("paceline_engagement_run_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the newest period of a job began, while an organisation has not come to its end; zero otherwise."))
	if err := errors.Join(peopleErr, lagErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		now := s.Now() // the lag comes first: an alert watches it, and people take longer to count
		decided, err := s.Settings.EngagementCalendars(ctx)
		if err != nil {
			return err
		}
		for _, job := range rules.Jobs() {
			own, late := map[string]rules.Period{}, 0.
			for org, by := range decided {
				own[org] = by.Newest(job, now)
			}
			since, err := store.RunMissing(ctx, s.Rules.Newest(job, now), own)
			if err != nil {
				return err
			}
			if !since.IsZero() {
				late = now.Sub(since).Seconds()
			}
			o.ObserveFloat64(lag, late, metric.WithAttributes(attribute.String("job", string(job))))
		}
		counted, err := store.People(ctx)
		if err != nil {
			return err
		}
		for _, state := range rules.States() { // none is a number, too
			o.ObserveInt64(people, int64(counted[state]), metric.WithAttributes(attribute.String("state", string(state))))
		}
		return nil
	}, people, lag)
	return err
}
