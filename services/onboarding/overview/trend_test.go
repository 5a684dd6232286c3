package overview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

func TestOnboardingTrend(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "CountsWhatWasCompleted", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		b.Host.Answer = onboardingtest.Answers(`{"field": 3}`)
		p, _ := b.Visited()
		b.Reply(p, "sure")
		b.Reply(p, "Monday")
		b.Pass(time.Minute)
		_, own := b.Activated() // the deployment's own conversation, whose last answer hands it to the host application
		b.Exec(`update conversation_sessions set mode = 'interviewing', updated_at = $1 where id = $2`, b.Clock.Now(), own.ID)
		_, reset := b.Activated()
		b.Resets(reset) // which completes nothing
		stops, _ := b.Visited()
		b.Reply(stops, "STOP")
		b.Clock.Advance(2 * time.Hour)

		out, err := onboardingtest.Ask(b, b.Current().Server.GetOnboardingTrend, &onboardingv1.GetOnboardingTrendRequest{})
		require.NoError(t, err)
		require.Len(t, out.GetPeriods(), 24)
		for i, p := range out.GetPeriods() {
			require.Equal(t, map[int]int32{21: 2}[i], p.GetCompleted().GetCount(), i)
			require.False(t, p.GetCompleted().GetMore())
		}
		require.Equal(t, b.Clock.Now().Truncate(time.Hour), out.GetPeriods()[23].GetBeginsAt().AsTime())
		_, err = onboardingtest.Ask(b, b.Current().Server.GetOnboardingTrend, &onboardingv1.GetOnboardingTrendRequest{TimeZone: "here"})
		require.ErrorContains(t, err, "time_zone must be an IANA name")
	})
}
