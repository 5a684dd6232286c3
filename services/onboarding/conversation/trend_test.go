package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
)

func TestFunnel(t *testing.T) {
	t.Parallel()
	funnel := func(b *bundle) conversation.Funnel {
		b.T.Helper()
		f, err := b.Store.Flows().Current(b.T.Context(), onboardingtest.OrgID, "visit")
		require.NoError(b.T, err)
		found, err := b.Store.Funnel(b.T.Context(), onboardingtest.OrgID, &f, b.Clock.Now())
		require.NoError(b.T, err)
		return found
	}
	onboardingtest.Subtest(t, "CountsWhoStandAtAStepAndHowFarPeopleCame", setup, func(t *testing.T, b *bundle) {
		b.Host.Answer = free(`{"field": 3}`)
		done, _ := visited(b)
		b.Reply(done, "sure")
		b.Reply(done, "tuesday or monday") // unclear, and an answer all the same
		b.Reply(done, "Monday")
		b.Pass(time.Minute)
		silent, _ := visited(b)
		b.Reply(silent, "sure")
		b.Clock.Advance(24 * time.Hour)
		b.Pass(time.Minute)
		stops, _ := visited(b)
		b.Reply(stops, "STOP")
		_, last := visited(b)

		found := funnel(b)
		require.Equal(t, []any{2, 4}, []any{found.Open, found.Began})
		got := map[string]conversation.FunnelStep{}
		for id, n := range found.Steps {
			got[id] = *n
		}
		require.Equal(t, map[string]conversation.FunnelStep{
			"hello":  {Now: 1, Reached: 4, WentOn: 2, Answered: 2, Stopped: 1},
			"day":    {Now: 1, Reached: 2, WentOn: 1, Answered: 1, Silent: 1},
			"free":   {Reached: 1, WentOn: 1},
			"enough": {Reached: 1, WentOn: 1},
			"booked": {Reached: 1, WentOn: 1},
			"tip":    {Reached: 1, WentOn: 1},
			"done":   {Reached: 1},
		}, got)
		more, err := b.Store.FoldFlowCounts(t.Context())
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, found, funnel(b), "folded or not")

		b.Clock.Advance(31 * 24 * time.Hour)
		found = funnel(b)
		require.Equal(t, []any{2, 0, 1}, []any{found.Open, found.Began, found.Steps["hello"].Now}, "those who stand there are not forgotten")

		for _, sql := range []string{
			`delete from step_alarms where session_id = $1`, `delete from session_transitions where session_id = $1`,
			`delete from conversation_sessions where id = $1`,
		} { // as an erasure does
			_, err := pgtest.Owner(t, b.Pool).Exec(t.Context(), sql, last.ID)
			require.NoError(t, err)
		}
		require.Equal(t, 1, funnel(b).Open, "nobody stands there any more")
	})
}

func TestOnboardingTrend(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "CountsWhatWasCompleted", setup, func(t *testing.T, b *bundle) {
		b.Host.Answer = free(`{"field": 3}`)
		p, _ := visited(b)
		b.Reply(p, "sure")
		b.Reply(p, "Monday")
		b.Pass(time.Minute)
		_, own := b.Activated() // the deployment's own conversation, whose last answer hands it to the host application
		b.Exec(`update conversation_sessions set mode = 'interviewing', updated_at = $1 where id = $2`, b.Clock.Now(), own.ID)
		_, reset := b.Activated()
		b.Resets(reset) // which completes nothing
		stops, _ := visited(b)
		b.Reply(stops, "STOP")
		b.Clock.Advance(2 * time.Hour)

		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetOnboardingTrend, &onboardingv1.GetOnboardingTrendRequest{})
		require.NoError(t, err)
		require.Len(t, out.GetPeriods(), 24)
		for i, p := range out.GetPeriods() {
			require.Equal(t, map[int]int32{21: 2}[i], p.GetCompleted().GetCount(), i)
			require.False(t, p.GetCompleted().GetMore())
		}
		require.Equal(t, b.Clock.Now().Truncate(time.Hour), out.GetPeriods()[23].GetBeginsAt().AsTime())
		_, err = onboardingtest.Ask(b.Bundle, b.Current().Server.GetOnboardingTrend, &onboardingv1.GetOnboardingTrendRequest{TimeZone: "here"})
		require.ErrorContains(t, err, "time_zone must be an IANA name")
	})
}
