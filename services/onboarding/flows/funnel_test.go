package flows_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/onboardingtest"
)

func TestFunnel(t *testing.T) {
	t.Parallel()
	funnel := func(b *onboardingtest.Bundle) flows.Funnel {
		b.T.Helper()
		f, err := b.Store.Flows().Current(b.T.Context(), onboardingtest.OrgID, "visit")
		require.NoError(b.T, err)
		found, err := b.Store.Flows().Funnel(b.T.Context(), onboardingtest.OrgID, &f, b.Clock.Now())
		require.NoError(b.T, err)
		return found
	}
	onboardingtest.Subtest(t, "CountsWhoStandAtAStepAndHowFarPeopleCame", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		b.Host.Answer = onboardingtest.Answers(`{"field": 3}`)
		done, _ := b.Visited()
		b.Reply(done, "sure")
		b.Reply(done, "tuesday or monday") // unclear, and an answer all the same
		b.Reply(done, "Monday")
		b.Pass(time.Minute)
		silent, _ := b.Visited()
		b.Reply(silent, "sure")
		b.Clock.Advance(24 * time.Hour)
		b.Pass(time.Minute)
		stops, _ := b.Visited()
		b.Reply(stops, "STOP")
		_, last := b.Visited()

		found := funnel(b)
		require.Equal(t, []any{2, 4}, []any{found.Open, found.Began})
		got := map[string]flows.FunnelStep{}
		for id, n := range found.Steps {
			got[id] = *n
		}
		require.Equal(t, map[string]flows.FunnelStep{
			"hello":  {Now: 1, Reached: 4, WentOn: 2, Answered: 2, Stopped: 1},
			"day":    {Now: 1, Reached: 2, WentOn: 1, Answered: 1, Silent: 1},
			"free":   {Reached: 1, WentOn: 1},
			"enough": {Reached: 1, WentOn: 1},
			"booked": {Reached: 1, WentOn: 1},
			"tip":    {Reached: 1, WentOn: 1},
			"done":   {Reached: 1},
		}, got)
		more, err := b.Store.Flows().FoldCounts(t.Context())
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
	onboardingtest.Subtest(t, "CountsTheAnswersOfOlderVersions", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		publish := func(change ...string) {
			t.Helper()
			newer := maps.Clone(onboardingtest.Visit)
			newer["flow.yaml"] = strings.NewReplacer(change...).Replace(newer["flow.yaml"])
			_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, newer, b.Clock.Now())
			require.NoError(t, err)
		}
		silent, _ := b.Visited()
		b.Reply(silent, "sure")
		b.Clock.Advance(24 * time.Hour)
		b.Pass(time.Minute)
		publish("hello: {send", "hello: {state: \"visit:met\", send")
		p := b.Person()
		_, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID, Flow: "visit"})
		require.NoError(t, err)
		b.Reply(p, "sure")
		publish("hello", "greeting", "  day:\n", "  which:\n", "then: day}", "then: which}")
		found := funnel(b)
		require.Equal(t, []any{2, 2, 1}, []any{found.Steps["hello"].Reached, found.Steps["hello"].Answered, found.Steps["day"].Silent})
		require.Len(t, found.Steps, 2, "no state is a step")
	})
}
