package delivery

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics counts what a Service does. In Prometheus the names end in _total.
type Metrics struct {
	sends, receipts, texts metric.Int64Counter
}

// NewMetrics registers the counters.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	sends, sendsErr := meter.Int64Counter("sms_sent", metric.WithDescription("Answers to Send by outcome."))
	receipts, receiptsErr := meter.Int64Counter("sms_receipts", metric.WithDescription("Delivery receipts by what they did."))
	texts, textsErr := meter.Int64Counter("sms_inbound", metric.WithDescription("Inbound texts, repeats included, by effect on consent."))
	return &Metrics{sends: sends, receipts: receipts, texts: texts}, errors.Join(sendsErr, receiptsErr, textsErr)
}

func (m *Metrics) sent(ctx context.Context, o Outcome) {
	m.sends.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", string(o))))
}

func (m *Metrics) receipt(ctx context.Context, r Recorded) {
	effect := "unmatched"
	switch {
	case r.Changed:
		effect = "merged"
	case r.Message != nil:
		effect = "nothing_new"
	}
	m.receipts.Add(ctx, 1, metric.WithAttributes(attribute.String("effect", effect)))
}

func (m *Metrics) inbound(ctx context.Context, text Message) {
	m.texts.Add(ctx, 1, metric.WithAttributes(attribute.String("consent_effect", text.ConsentEffect.String())))
}
