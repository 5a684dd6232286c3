package goals

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// What became of offers.
const (
	offerSent         = "sent"
	offerRepeated     = "repeated" // the device had never seen the run
	offerUnsent       = "unsent"   // the stream ended first: the device says at its next hello
	offerAcknowledged = "acknowledged"
	offerForgotten    = "forgotten" // the device had acknowledged the run, and says that it never saw it
)

// Metrics measures goals and their devices; nil measures nothing. In Prometheus the names of the counters end in _total.
type Metrics struct {
	offers, offline metric.Int64Counter
}

// NewMetrics registers them. They begin at zero: to Prometheus a counter that appears has not increased.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	offers, offersErr := meter.Int64Counter("goal_offers", metric.WithDescription("Goals offered to stream devices, by outcome."))
	offline, offlineErr := meter.Int64Counter("goal_alarms_offline",
		metric.WithDescription("Alarms of goals that found their device offline."))
	if err := errors.Join(offersErr, offlineErr); err != nil {
		return nil, err
	}
	m := &Metrics{offers: offers, offline: offline}
	for _, outcome := range []string{offerSent, offerRepeated, offerUnsent, offerAcknowledged, offerForgotten} {
		m.offers.Add(context.Background(), 0, ofOffer(outcome))
	}
	m.offline.Add(context.Background(), 0)
	return m, nil
}

func ofOffer(outcome string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", outcome))
}

// offer counts what became of an offer.
func (m *Metrics) offer(ctx context.Context, outcome string) {
	if m != nil {
		m.offers.Add(ctx, 1, ofOffer(outcome))
	}
}

// foundOffline counts an alarm that found its device offline.
func (m *Metrics) foundOffline(ctx context.Context) {
	if m != nil {
		m.offline.Add(ctx, 1)
	}
}

// Observe registers the gauge of the devices that are connected to this process.
func (h *Hub) Observe(meter metric.Meter) error {
	_, err := meter.Int64ObservableGauge("devices_connected", metric.WithDescription("Stream devices that are connected to this process."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(h.Connected()))
			return nil
		}))
	return err
}
