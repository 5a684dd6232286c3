package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	callback "paceline.internal/gateway/qstash"
	"paceline.internal/platform/qstash"
)

func TestLateness(t *testing.T) {
	t.Parallel()
	const (
		sent    = `{"outcome":"STEP_OUTCOME_SENT"}`
		skipped = `{"outcome":"STEP_OUTCOME_SKIPPED","skip_reason":"stale"}`
	)
	due := func(ago time.Duration) string { return noon().Add(-ago).Format("2006-01-02T15:04:05.000Z07:00") }
	for _, tc := range []struct {
		name, due, sign string
		answer          reply
		outcome         string // empty when nothing is measured
		seconds         float64
	}{
		{name: "OfAStepThatWasSent", due: due(1500 * time.Millisecond), answer: reply{Response: sent}, outcome: "sent", seconds: 1.5},
		{name: "OfOneThatWasSkipped", due: due(time.Minute), answer: reply{Response: skipped}, outcome: "skipped", seconds: 60},
		{name: "OfAnAttemptThatFailed", due: due(time.Second), answer: reply{Code: "UNAVAILABLE"}, outcome: "failed", seconds: 1},
		{name: "OfOneThatCameTooEarly", due: due(-2 * time.Second), answer: reply{Response: sent}, outcome: "sent", seconds: -2},
		{name: "OfAnAlarmThatDoesNotSay", answer: reply{Response: sent}},
		{name: "OfAnAlarmThatSaysNonsense", due: "soon", answer: reply{Response: sent}},
		{name: "OfAStranger", due: due(time.Hour), sign: "qstash forged", answer: reply{Response: sent}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.services.on("OnboardingService/ExecuteStep", tc.answer.give)
			h := headers("0", "5")
			if tc.due != "" {
				h[qstash.HeaderDue] = tc.due
			}
			r := goldenRequest{Path: callback.PathStep, Sign: "qstash current", Headers: h, Body: aStep}
			if tc.sign != "" {
				r.Sign = tc.sign
			}
			b.deliver(t, r)
			points := b.lateness(t)
			if tc.outcome == "" {
				require.Empty(t, points)
				return
			}
			require.Len(t, points, 1)
			require.Equal(t, attribute.NewSet(attribute.String("outcome", tc.outcome)), points[0].Attributes)
			require.InDelta(t, tc.seconds, points[0].Sum, .0001)
		})
	}
}

// lateness returns the measurements of steps.
func (b *bench) lateness(t *testing.T) (points []metricdata.HistogramDataPoint[float64]) {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, b.measured.Collect(t.Context(), &got))
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "paceline_step_lateness_seconds" {
				points = append(points, h.DataPoints...)
			}
		}
	}
	return points
}
