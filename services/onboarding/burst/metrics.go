package burst

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/session"
)

// Metrics measures what an Executor does; nil measures nothing.
type Metrics struct{ spacing metric.Float64Histogram }

// NewMetrics registers them.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	spacing, err := meter.Float64Histogram("step_spacing_error_seconds", metric.WithUnit("s"),
		metric.WithDescription("By how much the gap between a step's text and the one before, as Twilio took them, was longer than the flow's; "+
			"negative is too close."),
		metric.WithExplicitBucketBoundaries(-5, -1, -.25, .25, 1, 2, 5, 15, 60, 300, 1800, 7200))
	return &Metrics{spacing: spacing}, err
}

// Standing is how all conversations stand at an instant.
type Standing struct {
	InBurst     int           // active sessions that wait for a step
	Lag         time.Duration // how long ago the step was due that is waited for longest; zero when none is overdue
	Unpublished int           // alarms that QStash does not have yet
	OldestAlarm time.Duration // how long ago the oldest of them was written
	OpenLetters int           // dead letters that nobody has replayed
}

type standings interface {
	Standing(ctx context.Context, now time.Time) (Standing, error)
	// Parked counts the sessions that wait for an operator.
	Parked(ctx context.Context) (map[session.Status]int, error)
}

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// Observe registers gauges of how all conversations stand, which are asked for at every collection under the values of ctx, such
// as whose rows it may see.
func Observe(ctx context.Context, meter metric.Meter, store standings, now func() time.Time) error {
	inBurst, inBurstErr := meter.Int64ObservableGauge("sessions_in_burst", metric.WithDescription("Active sessions that wait for a step."))
	lag, lagErr := meter.Float64ObservableGauge("sequence_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the step was due that is waited for longest; without sessions that are parked, paused or on hold."))
	parked, parkedErr := meter.Int64ObservableGauge("sessions_parked",
		metric.WithDescription("Sessions that wait for an operator, by status."))
	unpublished, unpublishedErr := meter.Int64ObservableGauge("alarms_unpublished",
		metric.WithDescription("Alarms that QStash does not have yet."))
	oldest, oldestErr := meter.Float64ObservableGauge("alarms_unpublished_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest alarm was written that QStash does not have yet."))
	letters, lettersErr := meter.Int64ObservableGauge("dead_letters_open",
		metric.WithDescription("Dead letters of steps that nobody has replayed."))
	if err := errors.Join(inBurstErr, lagErr, parkedErr, unpublishedErr, oldestErr, lettersErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		s, err := store.Standing(ctx, now())
		if err != nil {
			return err
		}
		o.ObserveInt64(inBurst, int64(s.InBurst))
		o.ObserveFloat64(lag, s.Lag.Seconds())
		o.ObserveInt64(unpublished, int64(s.Unpublished))
		o.ObserveFloat64(oldest, s.OldestAlarm.Seconds())
		o.ObserveInt64(letters, int64(s.OpenLetters))
		counted, err := store.Parked(ctx)
		if err != nil {
			return err
		}
		for _, status := range []session.Status{session.Stuck, session.Undeliverable} { // none is a number, too
			o.ObserveInt64(parked, int64(counted[status]), metric.WithAttributes(attribute.String("status", string(status))))
		}
		return nil
	}, inBurst, lag, parked, unpublished, oldest, letters)
	return err
}
