package inbound

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/conversation"
)

// Metrics measures what is found in Twilio's record of texts; nil measures nothing. In Prometheus the names of the counters end in _total.
type Metrics struct{ sweeps, late, missedStops metric.Int64Counter }

// NewMetrics registers them. The counters that alerts watch begin at zero: to Prometheus a counter that appears has not increased, and the
// first missed STOP would raise no alert.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	sweeps, sweepsErr := meter.Int64Counter("paceline_inbound_sweeps_total",
		metric.WithDescription("Sweeps of Twilio's record of inbound texts, by outcome."))
	late, lateErr := meter.Int64Counter("paceline_inbound_late_total",
		metric.WithDescription("Texts whose webhook never came, found at Twilio and recorded, by effect on consent."))
	missed, missedErr := meter.Int64Counter("paceline_inbound_missed_stops_total",
		metric.WithDescription("Opt-outs among the texts whose webhook never came."))
	if err := errors.Join(sweepsErr, lateErr, missedErr); err != nil {
		return nil, err
	}
	ctx := context.Background()
	missed.Add(ctx, 0)
	for _, outcome := range []string{sweepDone, sweepLost, sweepFailed} {
		sweeps.Add(ctx, 0, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
	return &Metrics{sweeps: sweeps, late: late, missedStops: missed}, nil
}

// The outcomes of a sweep.
const (
	sweepDone   = "swept"
	sweepLost   = "lost" // another process had taken it over
	sweepFailed = "failed"
)

func (m *Metrics) swept(ctx context.Context, err error) {
	if m == nil {
		return
	}
	outcome := sweepDone
	switch {
	case errors.Is(err, ErrSweepLost):
		outcome = sweepLost
	case err != nil:
		outcome = sweepFailed
	}
	m.sweeps.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

// reportLate logs and counts one late message as it is recorded, and an opt-out in particular: until now the person may have been sent
// messages against their will. It is reported again when its answer fails and is tried once more: a missed STOP rather twice than never.
func (in *Service) reportLate(ctx context.Context, m reply, recorded Recorded) {
	attrs := []slog.Attr{
		slog.String("twilio_sid", m.Message.SID), slog.String("message_id", recorded.MessageID),
		slog.String("consent_effect", recorded.Effect.String()), slog.Time("said_at", m.Message.ReceivedAt),
		slog.Int64("late_ms", int64(m.lateBy/time.Millisecond)),
	}
	stop := recorded.Effect == conversation.EffectOptOut
	in.Log.LogAttrs(ctx, slog.LevelInfo, "onboarding.late_text", attrs...)
	if stop {
		in.Log.LogAttrs(ctx, slog.LevelWarn, "onboarding.missed_stop", attrs...)
	}
	if in.Metrics == nil {
		return
	}
	in.Metrics.late.Add(ctx, 1, metric.WithAttributes(attribute.String("consent_effect", recorded.Effect.String())))
	if stop {
		in.Metrics.missedStops.Add(ctx, 1)
	}
}
