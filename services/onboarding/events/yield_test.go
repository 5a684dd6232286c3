package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/events"
)

func TestDeliveriesGiveWayWhileConversationsWait(t *testing.T) {
	t.Parallel()
	t.Run("AFewAtATimeAreBegun", func(t *testing.T) {
		t.Parallel()
		w, waited := setup(t), 0
		y := events.NewYield(func() int { return waited }, w.clock.Now)
		asks := func(n int, wait time.Duration) {
			t.Helper()
			got, rest, err := y.Admit(t.Context(), 20)
			require.NoError(t, err)
			require.Equal(t, n, got)
			require.Equal(t, wait, rest)
		}
		asks(20, 0)
		asks(20, 0)
		waited = 3
		asks(8, 0)
		asks(0, 250*time.Millisecond)
		w.clock.Advance(250 * time.Millisecond)
		waited = 4
		asks(8, 0)
		w.clock.Advance(250 * time.Millisecond)
		asks(20, 0)
	})

	t.Run("TheLogHoldsTheOthersUntilTheCrowdHasGone", func(t *testing.T) {
		t.Parallel()
		w, waited := setup(t), 0
		w.subscribes("https://example.com/")
		for n := range 100 {
			w.tells(orgID, "session.advanced", "ana", n)
		}
		cfg := w.feedConfig(time.Hour)
		cfg.Waited = func() int { waited++; return waited }
		crowded := events.NewFeed(cfg)
		w.moves(crowded)
		require.Equal(t, 32, w.count(`select count(*) from event_deliveries`))
		w.clock.Advance(time.Minute) // its lease ends
		w.moves(w.feed())
		require.Equal(t, 100, w.count(`select count(*) from event_deliveries`))
	})
}
