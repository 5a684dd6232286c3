package onboarding_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// meter is what a test measures with.
func (b *bundle) meter() (metric.Meter, *sdkmetric.ManualReader) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	b.t.Cleanup(func() { require.NoError(b.t, provider.Shutdown(context.WithoutCancel(b.t.Context()))) })
	return provider.Meter("test"), reader
}

// gauge is the value of a gauge or a counter that has no attributes, or this one.
func gauge(t *testing.T, reader *sdkmetric.ManualReader, name string, attrs ...attribute.KeyValue) float64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	want := attribute.NewSet(attrs...)
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range points.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Value)
					}
				}
			case metricdata.Gauge[int64]:
				for _, p := range points.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Value)
					}
				}
			case metricdata.Gauge[float64]:
				for _, p := range points.DataPoints {
					if p.Attributes.Equals(&want) {
						return p.Value
					}
				}
			}
		}
	}
	require.FailNow(t, "no such gauge: "+name)
	return 0
}

func TestGauges(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*bundle, *sdkmetric.ManualReader) {
		t.Helper()
		b := setup(t)
		meter, reader := b.meter()
		require.NoError(t, b.current().service.Observe(t.Context(), meter))
		return b, reader
	}

	t.Run("NothingStandsStillAtFirst", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		b.explained()
		for _, name := range []string{
			"sessions_in_burst", "sequence_lag_seconds", "alarms_unpublished", "alarms_unpublished_oldest_seconds", "dead_letters_open",
		} {
			require.Zero(t, gauge(t, reader, name), name)
		}
		for _, status := range []string{"stuck", "undeliverable"} {
			require.Zero(t, gauge(t, reader, "sessions_parked", attribute.String("status", status)))
		}
	})

	t.Run("ASequenceLagsFromWhenItsStepWasDueWhateverTheSweeperSets", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		_, r := b.inBurst(2) // due eight seconds after the one before it, and QStash is mute
		require.InDelta(t, 1, gauge(t, reader, "sessions_in_burst"), 0)
		require.Zero(t, gauge(t, reader, "sequence_lag_seconds"), "it is not due yet")
		b.clock.Advance(8*time.Second + 3*grace)
		b.sweeps()
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where session_id = $1 and cause = 'overdue'`, r.ID))
		require.InDelta(t, (3 * grace).Seconds(), gauge(t, reader, "sequence_lag_seconds"), .001)
		b.exec(`update profiles set hold = true, hold_reason = 'a test'`)
		require.Zero(t, gauge(t, reader, "sequence_lag_seconds"), "it stands still on purpose")
	})

	t.Run("AlarmsThatQStashDoesNotHaveGetOlder", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		b.disabled = true
		b.serve(b.start(b.healthy()))
		p, _ := b.explained()
		b.reply(p, "ok")
		b.clock.Advance(90 * time.Second)
		require.InDelta(t, 1, gauge(t, reader, "alarms_unpublished"), 0)
		require.InDelta(t, 90, gauge(t, reader, "alarms_unpublished_oldest_seconds"), .001)
	})

	t.Run("ParkedSessionsAreCountedByTheirStatus", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		_, r := b.explained()
		stuck := attribute.String("status", "stuck")
		require.Zero(t, gauge(t, reader, "sessions_parked", stuck))
		require.NoError(t, b.store.Move(t.Context(), session.Park(r, b.clock.Now(), session.Stuck, session.TriggerOperator, "", "a test"), nil))
		require.InDelta(t, 1, gauge(t, reader, "sessions_parked", stuck), 0)
		require.Zero(t, gauge(t, reader, "sessions_parked", attribute.String("status", "undeliverable")))
	})

	t.Run("AnErasureIsOpenUntilItIsDone", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		require.Zero(t, gauge(t, reader, "erasures_open_oldest_seconds"))
		b.exec(`insert into erasures (profile_id, org_id, pseudonym, source, requested_at, next_try_at)
			values (gen_random_uuid(), gen_random_uuid(), 'erased:1', 'operator', $1, $1)`, b.clock.Now().Add(-time.Hour))
		require.InDelta(t, 3600, gauge(t, reader, "erasures_open_oldest_seconds"), .001)
		b.exec(`update erasures set erased_at = $1, next_try_at = null`, b.clock.Now())
		require.Zero(t, gauge(t, reader, "erasures_open_oldest_seconds"))
	})

	t.Run("ADeadLetterIsOpenUntilItIsReplayed", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		b.exec(`insert into dead_letters (id, source_message_id, dlq_id, payload, status, response, retried, created_at)
			values (gen_random_uuid(), 'msg_1', 'dlq_1', '', 500, '', 5, $1)`, b.clock.Now())
		require.InDelta(t, 1, gauge(t, reader, "dead_letters_open"), 0)
		b.exec(`update dead_letters set replayed_at = $1, replays = 1`, b.clock.Now())
		require.Zero(t, gauge(t, reader, "dead_letters_open"))
	})
}

func TestSpacingError(t *testing.T) {
	t.Parallel()
	// measured is what was recorded when the second step was executed so long after the first one was taken.
	measured := func(t *testing.T, gap time.Duration, bend func(b *bundle, r session.Record)) metricdata.HistogramDataPoint[float64] {
		t.Helper()
		b := setup(t)
		meter, reader := b.meter()
		metrics, err := conversation.NewMetrics(meter)
		require.NoError(t, err)
		_, r := b.inBurst(2)
		bend(b, r)
		b.clock.Advance(gap)
		b.current().service.Metrics = metrics
		b.executes(b.session(r.ID))
		_, err = b.execute(payload(r))
		require.NoError(t, err, "a repeat, which sends nothing")
		var got metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &got))
		for _, m := range got.ScopeMetrics[0].Metrics {
			if recorded, ok := m.Data.(metricdata.Histogram[float64]); ok {
				require.Len(t, recorded.DataPoints, 1)
				return recorded.DataPoints[0]
			}
		}
		return metricdata.HistogramDataPoint[float64]{}
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
			b.exec(`update conversation_sessions set updated_at = updated_at + interval '10 seconds' where id = $1`, r.ID)
		})
		require.InDelta(t, 3, point.Sum, .001)
	})

	t.Run("OfASessionThatWasResumedNothingIsSaid", func(t *testing.T) {
		t.Parallel()
		point := measured(t, 2*time.Second, func(b *bundle, r session.Record) {
			b.exec(`update conversation_sessions set detours = 2, turn = turn + 2 where id = $1`, r.ID)
		})
		require.Zero(t, point.Count)
	})
}
