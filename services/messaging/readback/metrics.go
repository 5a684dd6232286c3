package readback

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// observeTimeout bounds the question of the gauge.
const observeTimeout = 2 * time.Second

// Metrics count what was read back.
type Metrics struct{ found metric.Int64Counter }

// NewMetrics registers the metrics; open counts the organisations that may not send.
func NewMetrics(ctx context.Context, meter metric.Meter, open func(ctx context.Context) (int, error)) (*Metrics, error) {
	texts, textsErr := meter.Int64Counter("paceline_readback_found_total",
		metric.WithDescription("Texts that the database had lost and Twilio's record had, by direction."))
	waiting, waitingErr := meter.Int64ObservableGauge("paceline_readbacks_open",
		metric.WithDescription("Organisations for which nothing is sent until Twilio's record is read back."))
	if err := errors.Join(textsErr, waitingErr); err != nil {
		return nil, err
	}
	m := &Metrics{found: texts}
	m.ended(ctx, found{})
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		n, err := open(ctx)
		if err == nil {
			o.ObserveInt64(waiting, int64(n))
		}
		return err
	}, waiting)
	return m, err
}

func (m *Metrics) ended(ctx context.Context, n found) {
	m.found.Add(ctx, int64(n.received), metric.WithAttributes(attribute.String("direction", "inbound")))
	m.found.Add(ctx, int64(n.sent), metric.WithAttributes(attribute.String("direction", "outbound")))
}
