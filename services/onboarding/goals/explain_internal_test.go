package goals

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/conversation"
)

// TestGates holds what an alarm would answer to what it does.
func TestGates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		v := Situation{
			Online: rapid.Bool().Draw(t, "online"), Busy: rapid.Bool().Draw(t, "busy"),
			Goal: Goal{
				Status:           rapid.SampledFrom([]Status{Scheduled, Running, Completed, Failed, Cancelled}).Draw(t, "status"),
				Kind:             rapid.SampledFrom([]Kind{Phone, Stream}).Draw(t, "kind"),
				SchedulingPaused: rapid.Bool().Draw(t, "paused"),
				ScheduledFor:     now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "seconds")) * time.Second),
			},
		}
		if v.Kind == Phone {
			v.Online = true
		}
		gates, outcome := v.Gates(now, conversation.Pause{Since: now})
		for _, g := range gates {
			require.Equal(t, g.Passed, g.Change == "")
		}
		switch v.onAlarm(now) {
		case nothing:
			want := string(v.Status)
			if v.Status == Scheduled {
				want = OutcomeEarly
			}
			require.Equal(t, want, outcome)
		case putBack:
			require.Equal(t, OutcomePaused, outcome)
		case noteOffline:
			require.Equal(t, "offline", outcome)
		case noteBusy:
			require.Equal(t, OutcomeBusy, outcome)
		case callNode, beginPhone, continuePhone:
			require.Equal(t, OutcomeStarted, outcome)
		}
	})
}
