package inbound_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/onboardingtest"
)

// TestSessionIsReadOnce counts how often a text has its person and their session read.
func TestSessionIsReadOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Mute()
	p, _ := b.Activated()
	for _, tt := range []struct {
		body string
		want int
	}{
		{body: "yes", want: 1}, // has the explanation sent
		{body: "yes", want: 1}, // begins the burst
		{body: "hello", want: 1},
		{body: onboardingtest.JohnAtNine, want: 2}, // goals read the person, too
		{body: "STOP", want: 1},
	} {
		b.Clock.Advance(time.Minute)
		ports := b.Current().Ports
		ports.Calls = nil
		b.Reply(p, tt.body)
		reads := 0
		for _, call := range ports.Calls {
			if call == "Conversation" {
				reads++
			}
		}
		require.Equal(t, tt.want, reads, tt.body)
	}
}
