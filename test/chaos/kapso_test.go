package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSoakSender(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	s := newSender(&population{}, Soak{Processes: Processes{Seed: 7, Duration: time.Second}, Rate: 1, RetryAfter: 10 * time.Second}, "secret")

	t.Run("RepeatsAsKapsoDoes", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []time.Duration{10 * time.Second, 40 * time.Second, 90 * time.Second, 90 * time.Second},
			[]time.Duration{s.retryAfter(1), s.retryAfter(2), s.retryAfter(3), s.retryAfter(4)})
	})
	t.Run("AnAcceptanceThatSaysSomethingElseIsNone", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "accepted as ignored", s.accept(0, []byte(`{"status":"ignored"}`)))
		require.NotEmpty(t, s.accept(0, []byte(`ok`)))
		require.Zero(t, s.acceptedEvents())
	})
}

func TestSoakSilence(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(1_795_000_000_000 + int64(ms)) }
	s := &sender{oks: []time.Time{at(0), at(10), at(60), at(2500), at(2510)}}
	require.Equal(t, int64(2480), s.firstAfter(at(20)), "an answer that was on its way is not the recovery")
	require.Equal(t, int64(-1), s.firstAfter(at(3000)))
}
