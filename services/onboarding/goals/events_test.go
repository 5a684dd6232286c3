package goals_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/goals"
)

// TestEventsHoldNoWords: what the person said and what the device answers are in the rows alone.
func TestEventsHoldNoWords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mutes()
	g := b.says(b.device(), 0)
	run := b.begins(g).RunID
	_, err := b.store.Hear(t.Context(), g.DeviceID, run, "half of the door", b.clock.Now())
	require.NoError(t, err)
	b.ends(g, goals.End{RunID: run, Reason: goals.ReasonDevice, Detail: "the door is stuck"})
	moved := b.says(g.DeviceID, time.Hour)
	_, err = b.service.Reschedule(t.Context(), b.me(), moved.ID, goals.Moment{Words: "in 3 hours"})
	require.NoError(t, err)
	b.cancels(moved)

	require.Equal(t, "scheduled started failed", b.told(g))
	require.Equal(t, "scheduled rescheduled cancelled", b.told(moved))
	require.Equal(t, 1, b.count(`select count(*) from event_outbox where data->>'reason' = $1`, goals.ReasonDevice))
	require.Zero(t, b.count(`select count(*) from event_outbox, jsonb_object_keys(data) key where key not in ('goal_id', 'device_id', 'run_id', 'reason')`))
	require.Zero(t, b.count(`select count(*) from event_outbox e where e::text like '%door%' or e::text like '%hours%'`))
	require.Equal(t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and detail = 'the door is stuck'`, g.ID))
}
