package delivery

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics counts what a Service does. In Prometheus the names end in _total.
type Metrics struct {
	sends, receipts, texts, settlements, fetches, replies metric.Int64Counter
}

// NewMetrics registers the counters.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	sends, sendsErr := meter.Int64Counter("sms_sent", metric.WithDescription("Answers to Send by outcome."))
	receipts, receiptsErr := meter.Int64Counter("sms_receipts", metric.WithDescription("Delivery receipts by what they did."))
	texts, textsErr := meter.Int64Counter("sms_inbound", metric.WithDescription("Inbound texts, repeats included, by effect on consent."))
	settlements, settlementsErr := meter.Int64Counter("sms_unknown_settled",
		metric.WithDescription("Sends in doubt that were settled, by how."))
	fetches, fetchesErr := meter.Int64Counter("sms_statuses_fetched",
		metric.WithDescription("Statuses fetched from Twilio because no receipt came, by what they did."))
	replies, repliesErr := meter.Int64Counter("sms_consent_replies",
		metric.WithDescription("Our own answers to words about consent that Twilio does not answer, by kind and how they ended."))
	return &Metrics{sends: sends, receipts: receipts, texts: texts, settlements: settlements, fetches: fetches, replies: replies},
		errors.Join(sendsErr, receiptsErr, textsErr, settlementsErr, fetchesErr, repliesErr)
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

func (m *Metrics) replied(ctx context.Context, r Reply) {
	m.replies.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", string(r.Kind)), attribute.String("outcome", r.Outcome)))
}

func (m *Metrics) settled(ctx context.Context, s Settlement) {
	m.settlements.Add(ctx, 1, metric.WithAttributes(attribute.String("as", string(s))))
}

func (m *Metrics) fetched(ctx context.Context, effect string) {
	m.fetches.Add(ctx, 1, metric.WithAttributes(attribute.String("effect", effect)))
}
