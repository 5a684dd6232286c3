package engagement

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/engagement/rules"
)

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
