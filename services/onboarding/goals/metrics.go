package goals

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// What a goal waited for after its time, other than us.
const (
	waitedForNothing = "nothing"
	waitedOffline    = "offline" // an alarm found its device offline
	waitedBusy       = "busy"    // another goal ran on its device, or a conversation on the phone
)

// Waited is the reason that a goal waited after its time, other than us.
func (g Goal) Waited() string {
	switch {
	case g.OfflineTries > 0:
		return waitedOffline
	case !g.WaitingSince.IsZero():
		return waitedBusy
	}
	return waitedForNothing
}

// outcome returns the label that the end of a run is counted under: completed, or why it failed.
func (e End) outcome() string {
	if e.OK {
		return string(Completed)
	}
	return e.Reason
}

// Metrics measures goals; nil measures nothing.
type Metrics struct {
	offline, ends   metric.Int64Counter
	lateness, calls metric.Float64Histogram
}

// NewMetrics registers them. They begin at zero: to Prometheus a counter that appears has not increased.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	offline, offlineErr := meter.Int64Counter("paceline_goal_alarms_offline_total",
		metric.WithDescription("Alarms of goals that found their device offline."))
	ends, endsErr := meter.Int64Counter("paceline_goals_ended_total",
		metric.WithDescription("Goals that completed or failed, by kind of device and outcome: completed, or the reason."))
	lateness, latenessErr := meter.Float64Histogram("paceline_goal_lateness_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after its time a goal was offered to its device, or its text accepted, by what it waited for."),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 30, 120, 600, 3600))
	calls, callsErr := meter.Float64Histogram("paceline_goal_call_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after its alarm reached us a goal was offered to its device, or its text accepted."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10))
	if err := errors.Join(offlineErr, endsErr, latenessErr, callsErr); err != nil {
		return nil, err
	}
	m := &Metrics{offline: offline, ends: ends, lateness: lateness, calls: calls}
	m.offline.Add(context.Background(), 0)
	for kind, reasons := range map[Kind][]string{
		Stream: {ReasonDevice, ReasonOffline, ReasonBusy, ReasonLost, ReasonRemoved, ReasonLimit, ReasonNoAlarm},
		Phone:  {ReasonBusy, ReasonLimit, ReasonNoAlarm, ReasonHeld, ReasonOptedOut, ReasonUndelivered},
	} {
		for _, outcome := range append(reasons, string(Completed)) {
			m.ended(context.Background(), kind, outcome, 0)
		}
	}
	return m, nil
}

func ofKind(kind Kind, attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(attrs, attribute.String("device", string(kind)))...)
}

// foundOffline counts an alarm that found its device offline.
func (m *Metrics) foundOffline(ctx context.Context) {
	if m != nil {
		m.offline.Add(ctx, 1)
	}
}

// ended counts so many goals that have ended.
func (m *Metrics) ended(ctx context.Context, kind Kind, outcome string, n int) {
	if m != nil {
		m.ends.Add(ctx, int64(n), ofKind(kind, attribute.String("outcome", outcome)))
	}
}

// began measures how late a goal was handed over. Two clocks may have a part in it. called is zero when no alarm of it was at work.
func (m *Metrics) began(ctx context.Context, kind Kind, waited string, due, called, at time.Time) {
	if m == nil {
		return
	}
	m.lateness.Record(ctx, max(0, at.Sub(due)).Seconds(), ofKind(kind, attribute.String("waited", waited)))
	if !called.IsZero() {
		m.calls.Record(ctx, max(0, at.Sub(called)).Seconds(), ofKind(kind))
	}
}

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// Gauges returns the figures of the goals of all organisations.
type Gauges struct {
	// Lag is the time since the goal was due that has waited longest for an alarm to begin it; those that wait for their device are not
	// counted.
	Lag time.Duration
	// OldestAlarm is the time since the oldest alarm was written that QStash does not have yet.
	OldestAlarm time.Duration
}

// gauges reads the figures of one collection.
type gauges interface {
	Gauges(ctx context.Context, now time.Time) (Gauges, error)
}

// Observe registers gauges of what waits for alarms, which are asked of the database at every collection under the values of ctx, because a
// loop that stands still measures nothing.
func (s *Service) Observe(ctx context.Context, meter metric.Meter, store gauges) error {
	lag, lagErr := meter.Float64ObservableGauge("paceline_goal_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the goal was due that has waited longest for its alarm; without waits for a device."))
	oldest, oldestErr := meter.Float64ObservableGauge("paceline_goal_alarms_unpublished_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest alarm of a goal was written that QStash does not have yet."))
	if err := errors.Join(lagErr, oldestErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		found, err := store.Gauges(ctx, s.Now())
		if err != nil {
			return err
		}
		o.ObserveFloat64(lag, found.Lag.Seconds())
		o.ObserveFloat64(oldest, found.OldestAlarm.Seconds())
		return nil
	}, lag, oldest)
	return err
}
