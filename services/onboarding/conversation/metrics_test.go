package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

func TestSpacingError(t *testing.T) {
	t.Parallel()
	// measured is the value that was recorded when the second step was executed so long after the first one was taken.
	measured := func(t *testing.T, gap time.Duration, bend func(b *bundle, r session.Record)) metricdata.HistogramDataPoint[float64] {
		t.Helper()
		b := setup(t)
		meter, reader := b.Meter()
		metrics, err := conversation.NewMetrics(meter)
		require.NoError(t, err)
		_, r := b.InBurst(2)
		bend(b, r)
		b.Clock.Advance(gap)
		b.Current().Service.Metrics = metrics
		b.Executes(b.Session(r.ID))
		_, err = b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err, "a repeat, which sends nothing")
		var got metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &got))
		if len(got.ScopeMetrics) == 0 {
			return metricdata.HistogramDataPoint[float64]{}
		}
		recorded, ok := got.ScopeMetrics[0].Metrics[0].Data.(metricdata.Histogram[float64])
		require.True(t, ok)
		require.Len(t, recorded.DataPoints, 1)
		return recorded.DataPoints[0]
	}
	for _, tt := range []struct {
		name string
		gap  time.Duration
		want float64
	}{
		{name: "OnTime", gap: 8 * time.Second, want: 0},
		{name: "TooLate", gap: 11 * time.Second, want: 3},
		{name: "TooClose", gap: 2 * time.Second, want: -6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			point := measured(t, tt.gap, func(*bundle, session.Record) {})
			require.EqualValues(t, 1, point.Count)
			require.InDelta(t, tt.want, point.Sum, .001)
		})
	}

	t.Run("IsOfTheMessagesAndNotOfWhenTheirOutcomeWasLearnt", func(t *testing.T) {
		t.Parallel()
		point := measured(t, 11*time.Second, func(b *bundle, r session.Record) {
			b.Exec(`update conversation_sessions set updated_at = updated_at + interval '10 seconds' where id = $1`, r.ID)
		})
		require.InDelta(t, 3, point.Sum, .001)
	})

	t.Run("OfASessionThatWasResumedNothingIsSaid", func(t *testing.T) {
		t.Parallel()
		point := measured(t, 2*time.Second, func(b *bundle, r session.Record) {
			b.Exec(`update conversation_sessions set detours = 2, turn = turn + 2 where id = $1`, r.ID)
		})
		require.Zero(t, point.Count)
	})
}
