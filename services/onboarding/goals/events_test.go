package goals_test

import (
	"bytes"
	"log/slog"
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
	h, d := b.hub(), b.gadget()
	c, _ := d.connects(h)
	c.settled(t)
	g := d.called()
	require.NoError(t, h.Offer(t.Context()))
	offer := c.offered(t, g)
	c.says(goals.Progress{RunID: offer.RunID, Text: "half of the door"})
	c.says(goals.Ended{RunID: offer.RunID, Detail: "the door is stuck"})
	c.settled(t)
	moved := b.says(d.id, time.Hour)
	_, err := b.service.Reschedule(t.Context(), b.me(), moved.ID, goals.Moment{Words: "in 3 hours"})
	require.NoError(t, err)
	b.cancels(moved)

	require.Equal(t, "scheduled started failed", b.told(g))
	require.Equal(t, "scheduled rescheduled cancelled", b.told(moved))
	require.Equal(t, 1, b.count(`select count(*) from event_outbox where data->>'reason' = $1`, goals.ReasonDevice))
	require.Zero(t, b.count(`select count(*) from event_outbox, jsonb_object_keys(data) key where key not in ('goal_id', 'device_id', 'run_id', 'reason')`))
	require.Zero(t, b.count(`select count(*) from event_outbox e where e::text like '%door%' or e::text like '%hours%'`))
	require.Equal(t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and detail = 'the door is stuck'`, g.ID))
}

func TestLogHoldsNoWordsOfWhatIsSaidToADevice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log bytes.Buffer
	h := goals.NewHub(goals.HubConfig{
		Store: b.store, Goals: b.service, RunLease: runLease, Log: slog.New(slog.NewJSONHandler(&log, nil)), Now: b.clock.Now,
	})
	d := b.gadget()
	c, _ := d.connects(h)
	c.says(goals.Said{Key: "k", Goal: "open the door at nine or at ten tonight"})
	answer, ok := c.next().(goals.Answer)
	require.True(t, ok)
	require.ErrorContains(t, answer.Err, "ten")
	c.closes()
	require.Contains(t, log.String(), "goals.said_not_taken")
	require.NotContains(t, log.String(), "nine")
	require.NotContains(t, log.String(), "ten tonight")
}
