package overview

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/session"
)

// Gauges is the state of all conversations at an instant. Nothing is counted beyond a limit.
type Gauges struct {
	InBurst     int           // active sessions that wait for a step
	Overdue     int           // of these, as many as are read: what should have been sent a minute ago and more, and may be
	Lag         time.Duration // how long ago the step was due that is waited for longest; zero when none is overdue
	Unpublished int           // alarms that QStash does not have yet
	OldestAlarm time.Duration // how long ago the oldest of them was written
	DeadLetters int           // dead letters that were neither replayed nor handled
	Pauses      int           // organisations that an operator has paused
	// OldestErasure is the time since the oldest erasure was asked for that is not done; zero for none.
	OldestErasure time.Duration
}

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// Observe registers gauges of how all conversations stand, which are asked for at every collection under the values of ctx, such
// as the limit on the rows that it may see.
func Observe(ctx context.Context, meter metric.Meter, store *Store, now func() time.Time) error {
	inBurst, inBurstErr := meter.Int64ObservableGauge("paceline_sessions_in_burst",
		metric.WithDescription("Active sessions that wait for a step."))
	lag, lagErr := meter.Float64ObservableGauge("paceline_sequence_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the step was due that is waited for longest; "+
			"without sessions that are parked, paused or on hold, and paused organisations."))
	parked, parkedErr := meter.Int64ObservableGauge("paceline_sessions_parked",
		metric.WithDescription("Sessions that wait for an operator, by status."))
	unpublished, unpublishedErr := meter.Int64ObservableGauge("paceline_alarms_unpublished",
		metric.WithDescription("Alarms that QStash does not have yet, without those of paused organisations."))
	oldest, oldestErr := meter.Float64ObservableGauge("paceline_alarms_unpublished_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest alarm was written that QStash does not have yet."))
	deadLetters, deadLettersErr := meter.Int64ObservableGauge("paceline_dead_letters_open",
		metric.WithDescription("Dead letters of steps that are neither replayed nor over."))
	pauses, pausesErr := meter.Int64ObservableGauge("paceline_organisations_paused",
		metric.WithDescription("Organisations whose scheduling an operator has paused: what they keep counts in no other gauge of lateness."))
	erasure, erasureErr := meter.Float64ObservableGauge("paceline_erasures_open_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest erasure was asked for that is not done; 0 for none."))
	if err := errors.Join(pausesErr, erasureErr, inBurstErr, lagErr, parkedErr, unpublishedErr, oldestErr, deadLettersErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		s, err := store.Gauges(ctx, now())
		if err != nil {
			return err
		}
		o.ObserveInt64(inBurst, int64(s.InBurst))
		o.ObserveFloat64(lag, s.Lag.Seconds())
		o.ObserveInt64(unpublished, int64(s.Unpublished))
		o.ObserveFloat64(oldest, s.OldestAlarm.Seconds())
		o.ObserveInt64(deadLetters, int64(s.DeadLetters))
		o.ObserveInt64(pauses, int64(s.Pauses))
		o.ObserveFloat64(erasure, s.OldestErasure.Seconds())
		counted, err := store.Parked(ctx)
		if err != nil {
			return err
		}
		for _, status := range []session.Status{session.Stuck, session.Undeliverable} { // none is a number, too
			o.ObserveInt64(parked, int64(counted[status]), metric.WithAttributes(attribute.String("status", string(status))))
		}
		return nil
	}, inBurst, lag, parked, unpublished, oldest, deadLetters, pauses, erasure)
	return err
}
