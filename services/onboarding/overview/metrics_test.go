package overview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/overview"
	"paceline.internal/services/onboarding/session"
)

func TestGauges(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*onboardingtest.Bundle, *sdkmetric.ManualReader) {
		t.Helper()
		b := onboardingtest.New(t)
		meter, reader := b.Meter()
		require.NoError(t, overview.Observe(t.Context(), meter, b.Store.Overviews(), b.Clock.Now))
		return b, reader
	}

	t.Run("NothingStandsStillAtFirst", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		b.Explained()
		for _, name := range []string{
			"paceline_sessions_in_burst", "paceline_sequence_lag_seconds", "paceline_alarms_unpublished", "paceline_alarms_unpublished_oldest_seconds", "paceline_dead_letters_open",
		} {
			require.Zero(t, onboardingtest.Gauge(t, reader, name), name)
		}
		for _, status := range []string{"stuck", "undeliverable"} {
			require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_sessions_parked", attribute.String("status", status)))
		}
	})

	t.Run("ASequenceLagsFromWhenItsStepWasDueWhateverTheSweeperSets", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		_, r := b.InBurst(2) // due eight seconds after the one before it, and QStash is mute
		require.InDelta(t, 1, onboardingtest.Gauge(t, reader, "paceline_sessions_in_burst"), 0)
		require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_sequence_lag_seconds"), "it is not due yet")
		b.Clock.Advance(8*time.Second + 3*onboardingtest.Grace)
		b.Sweeps()
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where session_id = $1 and cause = 'overdue'`, r.ID))
		require.InDelta(t, (3 * onboardingtest.Grace).Seconds(), onboardingtest.Gauge(t, reader, "paceline_sequence_lag_seconds"), .001)
		b.Exec(`update profiles set hold = true, hold_reason = 'a test'`)
		require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_sequence_lag_seconds"), "it stands still on purpose")
	})

	t.Run("AlarmsThatQStashDoesNotHaveGetOlder", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		b.Disabled = true
		b.Serve(b.Start(b.Healthy()))
		p, _ := b.Explained()
		b.Reply(p, "ok")
		b.Clock.Advance(90 * time.Second)
		require.InDelta(t, 1, onboardingtest.Gauge(t, reader, "paceline_alarms_unpublished"), 0)
		require.InDelta(t, 90, onboardingtest.Gauge(t, reader, "paceline_alarms_unpublished_oldest_seconds"), .001)
	})

	t.Run("ParkedSessionsAreCountedByTheirStatus", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		_, r := b.Explained()
		stuck := attribute.String("status", "stuck")
		require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_sessions_parked", stuck))
		require.NoError(t, b.Store.Move(t.Context(), session.Park(r, b.Clock.Now(), session.Stuck, session.TriggerOperator, "", "a test"), nil))
		require.InDelta(t, 1, onboardingtest.Gauge(t, reader, "paceline_sessions_parked", stuck), 0)
		require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_sessions_parked", attribute.String("status", "undeliverable")))
	})

	t.Run("AnErasureIsOpenUntilItIsDone", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_erasures_open_oldest_seconds"))
		b.Exec(`insert into erasures (profile_id, org_id, pseudonym, source, requested_at, next_try_at)
			values (gen_random_uuid(), gen_random_uuid(), 'erased:1', 'operator', $1, $1)`, b.Clock.Now().Add(-time.Hour))
		require.InDelta(t, 3600, onboardingtest.Gauge(t, reader, "paceline_erasures_open_oldest_seconds"), .001)
		b.Exec(`update erasures set erased_at = $1, next_try_at = null`, b.Clock.Now())
		require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_erasures_open_oldest_seconds"))
	})

	t.Run("ADeadLetterIsOpenUntilItIsReplayed", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		b.Exec(`insert into dead_letters (id, source_message_id, dlq_id, payload, status, response, retried, created_at)
			values (gen_random_uuid(), 'msg_1', 'dlq_1', '', 500, '', 5, $1)`, b.Clock.Now())
		require.InDelta(t, 1, onboardingtest.Gauge(t, reader, "paceline_dead_letters_open"), 0)
		b.Exec(`update dead_letters set replayed_at = $1, replays = 1`, b.Clock.Now())
		require.Zero(t, onboardingtest.Gauge(t, reader, "paceline_dead_letters_open"))
	})
}
