package audit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/inbound"
)

// Metrics counts what the audit does. In Prometheus the names end in _total.
type Metrics struct {
	sweeps, late, missedStops metric.Int64Counter
}

// NewMetrics registers the counters.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	sweeps, sweepsErr := meter.Int64Counter("inbound_audits",
		metric.WithDescription("Sweeps of Twilio's record of inbound texts, by outcome."))
	late, lateErr := meter.Int64Counter("inbound_late",
		metric.WithDescription("Texts whose webhook never came, found at Twilio and recorded, by effect on consent."))
	missed, missedErr := meter.Int64Counter("inbound_missed_stops",
		metric.WithDescription("Opt-outs among the texts whose webhook never came."))
	m := &Metrics{sweeps: sweeps, late: late, missedStops: missed}
	if err := errors.Join(sweepsErr, lateErr, missedErr); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// begin has the counters that alerts watch begin at zero: to Prometheus a counter that appears has not increased, and the first
// missed STOP would wake nobody.
func (m *Metrics) begin() {
	ctx := context.Background()
	m.missedStops.Add(ctx, 0)
	for _, outcome := range []string{outcomeSwept, outcomeLost, outcomeFailed} {
		m.sweeps.Add(ctx, 0, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
}

// The outcomes of a sweep.
const (
	outcomeSwept  = "swept"
	outcomeLost   = "lost" // another process had taken it over
	outcomeFailed = "failed"
)

func (m *Metrics) swept(ctx context.Context, err error) {
	outcome := outcomeSwept
	switch {
	case errors.Is(err, ErrLost):
		outcome = outcomeLost
	case err != nil:
		outcome = outcomeFailed
	}
	m.sweeps.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

// Reporter tells of late texts as they are recorded. A text is told of again when its answer fails and is tried once more:
// a missed STOP rather twice than never.
type Reporter struct {
	Metrics *Metrics
	Log     *slog.Logger
}

// Late tells of one text, and of an opt-out in particular: until now the person may have been texted against their will.
func (r Reporter) Late(ctx context.Context, m inbound.Message, recorded inbound.Recorded) {
	attrs := []slog.Attr{
		slog.String("twilio_sid", m.SID), slog.String("message_id", recorded.MessageID), slog.String("consent_effect", recorded.Effect.String()),
		slog.Time("said_at", m.ReceivedAt), slog.Int64("late_ms", int64(recorded.LateBy/time.Millisecond)),
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "onboarding.late_text", attrs...)
	r.Metrics.late.Add(ctx, 1, metric.WithAttributes(attribute.String("consent_effect", recorded.Effect.String())))
	if recorded.Effect == inbound.EffectOptOut {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "onboarding.missed_stop", attrs...)
		r.Metrics.missedStops.Add(ctx, 1)
	}
}
