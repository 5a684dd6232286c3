package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestSettable(t *testing.T) {
	t.Parallel()

	t.Run("TimersRunInOrderOfTheirDueTimeAndSeeItAsNow", func(t *testing.T) {
		t.Parallel()
		c := clock.NewSettable(start)
		var seen []time.Duration
		note := func() { seen = append(seen, c.Now().Sub(start)) }
		c.AfterFunc(3*time.Second, note)
		c.AfterFunc(time.Second, func() { note(); c.AfterFunc(time.Second, note) })

		c.Advance(10 * time.Second)

		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, seen)
		require.Equal(t, start.Add(10*time.Second), c.Now())
	})

	t.Run("StoppedTimerNeverRuns", func(t *testing.T) {
		t.Parallel()
		c := clock.NewSettable(start)
		ran := false
		stop := c.AfterFunc(time.Second, func() { ran = true })

		require.True(t, stop())
		require.False(t, stop())
		c.Advance(time.Minute)
		require.False(t, ran)
	})

	t.Run("AdvanceToNextStopsAtTheEarliestTimer", func(t *testing.T) {
		t.Parallel()
		c := clock.NewSettable(start)
		c.AfterFunc(time.Minute, func() {})
		c.AfterFunc(time.Hour, func() {})

		require.True(t, c.AdvanceToNext())
		require.Equal(t, start.Add(time.Minute), c.Now())
		require.True(t, c.AdvanceToNext())
		require.False(t, c.AdvanceToNext())
	})
}
