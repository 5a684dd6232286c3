package devices

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The outcomes of offers.
const (
	offerSent         = "sent"
	offerRepeated     = "repeated" // the device had never seen the run
	offerUnsent       = "unsent"   // the stream ended first: the device says at its next hello
	offerAcknowledged = "acknowledged"
	offerForgotten    = "forgotten" // the device had acknowledged the run, and says that it never saw it
)

// Observe has the hub count its offers, and registers the gauge of the devices that are connected to this process. The counters begin at
// zero: to Prometheus a counter that appears has not increased.
func (h *Hub) Observe(meter metric.Meter) (err error) {
	h.offers, err = meter.Int64Counter("paceline_goal_offers_total", metric.WithDescription("Goals offered to stream devices, by outcome."))
	if err != nil {
		return err
	}
	for _, outcome := range []string{offerSent, offerRepeated, offerUnsent, offerAcknowledged, offerForgotten} {
		h.offers.Add(context.Background(), 0, ofOutcome(outcome))
	}
	_, err = meter.Int64ObservableGauge("paceline_devices_connected",
		metric.WithDescription("Stream devices that are connected to this process."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(h.Connected()))
			return nil
		}))
	return err
}

func ofOutcome(outcome string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", outcome))
}

// count counts the outcome of an offer.
func (h *Hub) count(ctx context.Context, outcome string) {
	if h.offers != nil {
		h.offers.Add(ctx, 1, ofOutcome(outcome))
	}
}
