package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Gauges are the figures of the log.
type Gauges struct {
	Oldest   time.Duration // how long the oldest event waits for its number; 0 when none does
	ByStatus map[Status]int64
	Behind   time.Duration // how long ago the event was recorded that an active subscription is to take next; 0 when none is behind
}

// Observe shows the gauges at every scrape.
func Observe(meter metric.Meter, read func(ctx context.Context) (Gauges, error)) error {
	oldest, err := meter.Float64ObservableGauge("paceline_events_waiting_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest event waits to be recorded; 0 when none does."))
	behind, behindErr := meter.Float64ObservableGauge("paceline_event_subscription_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the event was recorded that an active subscription is to take next; the largest."))
	subscriptions, subscriptionsErr := meter.Int64ObservableGauge("paceline_event_subscriptions",
		metric.WithDescription("Subscriptions to events by status: active, paused."))
	if err := errors.Join(err, behindErr, subscriptionsErr); err != nil {
		return fmt.Errorf("metrics of events: %w", err)
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		g, err := read(ctx)
		if err != nil {
			return err
		}
		o.ObserveFloat64(oldest, g.Oldest.Seconds())
		o.ObserveFloat64(behind, g.Behind.Seconds())
		for _, status := range []Status{Active, Paused} {
			o.ObserveInt64(subscriptions, g.ByStatus[status], metric.WithAttributes(attribute.String("status", string(status))))
		}
		return nil
	}, oldest, behind, subscriptions)
	return err
}
