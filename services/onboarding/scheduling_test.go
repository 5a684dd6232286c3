package onboarding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

func TestSchedulingPause(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "KeepsAlarmsUntilItIsLiftedAndLosesNone", setup, func(t *testing.T, b *bundle) {
		early, r := b.Explained()
		since := b.Clock.Now()
		b.Pauses("the words are wrong")
		b.Reply(early, "yes") // it is received, and the burst begins after the pause
		b.Clock.Advance(time.Second)
		late, _ := b.Explained() // an opening and an explanation are answers, and no alarms
		b.Reply(late, "yes")
		b.Pass(10 * time.Minute)
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		require.Empty(t, b.QStash.Record())
		require.Equal(t, 2, b.Count(`select count(*) from step_alarms where published_at is null and generation = 1`))

		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetOverview, &onboardingv1.GetOverviewRequest{})
		require.NoError(t, err)
		require.Equal(t, "the words are wrong", out.GetSchedulingPause().GetReason())
		require.Equal(t, since, out.GetSchedulingPause().GetSince().AsTime())
		require.EqualValues(t, 2, out.GetUnpublishedAlarms().GetCount(), "an operator sees what waits")
		gauges, err := b.Store.Overviews().Gauges(t.Context(), b.Clock.Now())
		require.NoError(t, err)
		require.Equal(t, []any{0, time.Duration(0), time.Duration(0), 1}, []any{gauges.Unpublished, gauges.OldestAlarm, gauges.Lag, gauges.Pauses}, "no alert tells of it")

		require.True(t, b.Unpauses())
		require.Equal(t, 2, b.Relays())
		require.Equal(t, 2, b.Count(`select count(*) from step_alarms where step_id = $1 and published_at is not null and attempts = 1`, string(onboardingtest.Step(1))))
		b.Completes(early)
		b.Completes(late)
		require.Zero(t, b.Count(`select count(*) from step_alarms where generation > 1`))
	})

	onboardingtest.Subtest(t, "KeepsNoAlarmOfAnotherOrganisation", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Explained()
		b.Exec(`insert into scheduling_pauses (org_id, paused_at) values ($1, $2)`, onboardingtest.NewID(), b.Clock.Now())
		b.Reply(p, "yes")
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "PutsAnExecutionBackThatComesMeanwhile", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2) // QStash has their alarm
		b.Unmute()
		b.Pauses("")
		b.Pass(10 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		require.Equal(t, session.Active, b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2)).Status, "a pause is no fault of the alarms")
		b.Skips(session.SkipSchedulingPaused, onboardingtest.Payload(b.Session(r.ID))) // by hand, or delivered twice
		b.Skips(session.SkipSchedulingPaused, onboardingtest.Payload(b.Session(r.ID)))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where session_id = $1 and published_at is null and generation = 2`, r.ID))
		require.Equal(t, 1, b.Count(`select count(*) from session_transitions where session_id = $1 and kind = 'waiting'`, r.ID))
		require.True(t, b.Unpauses())
		b.Completes(p)
		require.Equal(t, 2, b.Count(`select max(generation) from step_alarms where step_id = $1`, string(onboardingtest.Step(2))))
	})

	onboardingtest.Subtest(t, "IsSaidOnceHoweverOftenItIsAskedFor", setup, func(t *testing.T, b *bundle) {
		before := b.Pauses("first")
		b.Clock.Advance(time.Minute)
		require.EqualExportedValues(t, before, b.Pauses("second"))
		require.True(t, b.Unpauses())
		require.False(t, b.Unpauses())
		_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.PauseScheduling, &onboardingv1.PauseSchedulingRequest{Reason: strings.Repeat("é", 201)})
		require.ErrorContains(t, err, "200 characters")
		b.Pauses(strings.Repeat("é", 200))
	})

	onboardingtest.Subtest(t, "LetsStopWork", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Pauses("")
		b.Reply(p, "STOP")
		b.Pass(time.Minute)
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.True(t, b.Unpauses())
		b.Pass(time.Minute)
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "IsExplainedWithSinceWhenAndByWhom", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		b.Clock.Advance(8 * time.Second)
		b.Exec(`insert into scheduling_pauses (org_id, reason, paused_at, paused_by) values ($1, 'the words are wrong', $2, '{"subject":"ada"}')`, onboardingtest.OrgID, b.Clock.Now())
		e, err := b.Current().Service.ExplainStep(t.Context(), onboardingtest.OrgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"scheduling_paused", "POST /v1/scheduling:resume"}, []string{e.Outcome, e.Advice})
		for _, g := range e.Gates {
			if g.Name == "scheduling" {
				require.Equal(t, "scheduling of the organisation is paused by ada: the words are wrong", g.Fact)
				require.True(t, b.Clock.Now().Equal(g.Since))
			}
		}
	})

	onboardingtest.Subtest(t, "IsKeptWithWhoDidIt", newWorld, func(t *testing.T, w *world) {
		t.Cleanup(w.run())
		ada := w.as(rpc.RoleOperator, "ada", onboardingtest.OrgID)
		for _, said := range []struct{ reason, kept string }{{"", ""}, {"a test", "a test"}, {"another", "a test"}} {
			out, err := w.client.PauseScheduling(ada, &onboardingv1.PauseSchedulingRequest{Reason: said.reason})
			require.NoError(t, err)
			require.Equal(t, "ada", out.GetPause().GetBy().GetSubject())
			require.Equal(t, said.kept, out.GetPause().GetReason())
		}
		require.Equal(t, 3, w.count(`select count(*) from audit where subject = 'ada' and method like '%PauseScheduling'`))
	})

	onboardingtest.Subtest(t, "OfAllIsAnOperatorsOnceTheyAskForIt", newWorld, func(t *testing.T, w *world) {
		t.Cleanup(w.run())
		store := onboarding.NewStores(w.pool).People()
		all := func() {
			require.NoError(t, store.PauseAll(postgres.AcrossOrganisations(t.Context()), "a restore", w.clock.Now()))
			require.Equal(t, 1, w.count(`select count(*) from scheduling_pauses`))
		}
		resumed := func(left int) {
			require.NoError(t, store.ResumeAll(postgres.AcrossOrganisations(t.Context()), "a restore"))
			require.Equal(t, left, w.count(`select count(*) from scheduling_pauses`))
		}
		w.enrolled("+5511987650001")
		all()
		resumed(0)
		all()
		out, err := w.client.PauseScheduling(w.as(rpc.RoleOperator, "ada", onboardingtest.OrgID), &onboardingv1.PauseSchedulingRequest{Reason: "a test"})
		require.NoError(t, err)
		require.Equal(t, []string{"ada", "a test"}, []string{out.GetPause().GetBy().GetSubject(), out.GetPause().GetReason()})
		resumed(1)
	})
}
