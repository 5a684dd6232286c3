package runs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPlaces plays runs that never end. Each asks again as soon as its turn is over, and those without a place every second.
func TestPlaces(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p := newPlaces()
	orgOf := func(run int) string { return map[bool]string{true: "big", false: "small"}[run < 12] } // and run 12 is the only one of the other
	working, turns := map[int]time.Time{}, map[int]int{}
	for range 120 {
		for run, since := range working {
			if now.Sub(since) >= workWhileOthersWait {
				p.release(orgOf(run))
				delete(working, run)
			}
		}
		for run := range 13 {
			if _, at := working[run]; !at && p.acquire(fmt.Sprintf("run-%02d", run), orgOf(run), now) {
				working[run] = now
				turns[run]++
			}
		}
		require.LessOrEqual(t, len(working), atWork)
		now = now.Add(time.Second)
	}
	for run := range 12 {
		require.GreaterOrEqual(t, turns[run], 6, "run %d", run)
	}
	require.Greater(t, turns[12], 15, "an organisation with one run does not wait behind all those of another")
}
