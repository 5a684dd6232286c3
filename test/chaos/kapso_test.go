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
		require.Zero(t, s.accepted[0].Load())
	})
}
