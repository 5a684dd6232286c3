package tickets

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// Metrics measures the inbox; nil measures nothing.
type Metrics struct{ firstAnswer metric.Float64Histogram }

// NewMetrics registers it.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	first, err := meter.Float64Histogram("paceline_ticket_first_answer_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long a person in the inbox waited for the first answer."),
		metric.WithExplicitBucketBoundaries(60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 259200))
	if err != nil {
		return nil, err
	}
	return &Metrics{firstAnswer: first}, nil
}

func (m *Metrics) answered(ctx context.Context, after time.Duration) {
	if m != nil {
		m.firstAnswer.Record(ctx, max(after, 0).Seconds())
	}
}

// Gauges is the state of the inboxes of all organisations.
type Gauges struct {
	Open    int           // tickets that are not closed
	Oldest  time.Duration // how long the person has waited who waits longest
	Overdue int           // tickets with a person who waits longer than their organisation's limit
}

// observeTimeout bounds what a collection waits for the database.
const observeTimeout = 2 * time.Second

// Observe registers gauges of how the inboxes stand, which are asked for at every collection under the values of ctx.
func Observe(ctx context.Context, meter metric.Meter, store *Store, now func() time.Time) error {
	open, openErr := meter.Int64ObservableGauge("paceline_tickets_open", metric.WithDescription("Tickets that are not closed."))
	oldest, oldestErr := meter.Float64ObservableGauge("paceline_tickets_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long the person in an inbox has waited for an answer who waits longest; 0 for none."))
	overdue, overdueErr := meter.Int64ObservableGauge("paceline_tickets_overdue",
		metric.WithDescription("Tickets with a person who waits for an answer longer than their organisation's limit (ticket_limit_minutes)."))
	if err := errors.Join(openErr, oldestErr, overdueErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		g, err := store.Gauges(ctx, now())
		if err != nil {
			return err
		}
		o.ObserveInt64(open, int64(g.Open))
		o.ObserveFloat64(oldest, g.Oldest.Seconds())
		o.ObserveInt64(overdue, int64(g.Overdue))
		return nil
	}, open, oldest, overdue)
	return err
}
