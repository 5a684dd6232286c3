package inbound

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/messaging/send"
)

// Metrics counts what a Service does.
type Metrics struct {
	messages, replies metric.Int64Counter
}

// NewMetrics registers the counters.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	messages, messagesErr := meter.Int64Counter("paceline_sms_inbound_total",
		metric.WithDescription("Inbound texts, repeats included, by effect on consent."))
	replies, repliesErr := meter.Int64Counter("paceline_sms_consent_replies_total",
		metric.WithDescription("Our own answers to words about consent that Twilio does not answer, by kind and how they ended."))
	return &Metrics{messages: messages, replies: replies}, errors.Join(messagesErr, repliesErr)
}

func (m *Metrics) inbound(ctx context.Context, message send.Message) {
	m.messages.Add(ctx, 1, metric.WithAttributes(attribute.String("consent_effect", effectOf(message))))
}

// effectOf is a message's effect in logs and metrics: a preference is its own.
func effectOf(m send.Message) string {
	if m.Preferences.Any() {
		return "preference"
	}
	return m.ConsentEffect.String()
}

func (m *Metrics) replied(ctx context.Context, r Reply) {
	m.replies.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", string(r.Kind)), attribute.String("outcome", r.Outcome)))
}
