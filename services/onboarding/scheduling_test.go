package onboarding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/session"
)

// pauses and unpauses are an operator's of the organisation.
func (b *bundle) pauses(reason string) *onboardingv1.SchedulingPause {
	b.t.Helper()
	out, err := asks(b, b.current().server.PauseScheduling, &onboardingv1.PauseSchedulingRequest{Reason: reason})
	require.NoError(b.t, err)
	return out.GetPause()
}

func (b *bundle) unpauses() bool {
	b.t.Helper()
	out, err := asks(b, b.current().server.ResumeScheduling, &onboardingv1.ResumeSchedulingRequest{})
	require.NoError(b.t, err)
	return out.GetResumed()
}

func TestSchedulingPause(t *testing.T) {
	t.Parallel()

	subtest(t, "KeepsAlarmsUntilItIsLiftedAndLosesNone", setup, func(t *testing.T, b *bundle) {
		early, r := b.explained()
		since := b.clock.Now()
		b.pauses("the words are wrong")
		b.reply(early, "yes") // it is received, and the burst begins after the pause
		b.clock.Advance(time.Second)
		late, _ := b.explained() // an opening and an explanation are answers, and no alarms
		b.reply(late, "yes")
		b.pass(10 * time.Minute)
		b.at(r.ID, session.AwaitingBurst, step(1))
		require.Empty(t, b.qstash.Record())
		require.Equal(t, 2, b.count(`select count(*) from step_alarms where published_at is null and generation = 1`))

		out, err := asks(b, b.current().server.GetOverview, &onboardingv1.GetOverviewRequest{})
		require.NoError(t, err)
		require.Equal(t, "the words are wrong", out.GetSchedulingPause().GetReason())
		require.Equal(t, since, out.GetSchedulingPause().GetSince().AsTime())
		require.EqualValues(t, 2, out.GetUnpublishedAlarms().GetCount(), "an operator sees what waits")
		gauges, err := b.store.Gauges(t.Context(), b.clock.Now())
		require.NoError(t, err)
		require.Equal(t, []any{0, time.Duration(0), time.Duration(0), 1}, []any{gauges.Unpublished, gauges.OldestAlarm, gauges.Lag, gauges.Pauses}, "no alert tells of it")

		require.True(t, b.unpauses())
		require.Equal(t, 2, b.relays())
		require.Equal(t, 2, b.count(`select count(*) from step_alarms where step_id = $1 and published_at is not null and attempts = 1`, string(step(1))))
		b.completes(early)
		b.completes(late)
		require.Zero(t, b.count(`select count(*) from step_alarms where generation > 1`))
	})

	subtest(t, "KeepsNoAlarmOfAnotherOrganisation", setup, func(t *testing.T, b *bundle) {
		p, _ := b.explained()
		b.exec(`insert into scheduling_pauses (org_id, paused_at) values ($1, $2)`, newID(), b.clock.Now())
		b.reply(p, "yes")
		b.completes(p)
	})

	subtest(t, "PutsAnExecutionBackThatComesMeanwhile", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2) // whose alarm QStash has
		b.unmute()
		b.pauses("")
		b.pass(10 * time.Minute)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.Active, b.at(r.ID, session.AwaitingBurst, step(2)).Status, "a pause is no fault of the alarms")
		b.skips(session.SkipSchedulingPaused, payload(b.session(r.ID))) // by hand, or delivered twice
		b.skips(session.SkipSchedulingPaused, payload(b.session(r.ID)))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where session_id = $1 and published_at is null and generation = 2`, r.ID))
		require.Equal(t, 1, b.count(`select count(*) from session_transitions where session_id = $1 and kind = 'waiting'`, r.ID))
		require.True(t, b.unpauses())
		b.completes(p)
		require.Equal(t, 2, b.count(`select max(generation) from step_alarms where step_id = $1`, string(step(2))))
	})

	subtest(t, "IsSaidOnceHoweverOftenItIsAskedFor", setup, func(t *testing.T, b *bundle) {
		before := b.pauses("first")
		b.clock.Advance(time.Minute)
		require.EqualExportedValues(t, before, b.pauses("second"))
		require.True(t, b.unpauses())
		require.False(t, b.unpauses())
		_, err := asks(b, b.current().server.PauseScheduling, &onboardingv1.PauseSchedulingRequest{Reason: strings.Repeat("é", 201)})
		require.ErrorContains(t, err, "200 characters")
		b.pauses(strings.Repeat("é", 200))
	})

	subtest(t, "LetsStopWork", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.pauses("")
		b.reply(p, "STOP")
		b.pass(time.Minute)
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		require.True(t, b.unpauses())
		b.pass(time.Minute)
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})

	subtest(t, "IsExplainedWithSinceWhenAndByWhom", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		b.clock.Advance(8 * time.Second)
		b.exec(`insert into scheduling_pauses (org_id, reason, paused_at, paused_by) values ($1, 'the words are wrong', $2, '{"subject":"ada"}')`, orgID, b.clock.Now())
		e, err := b.current().service.ExplainStep(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"scheduling_paused", "POST /v1/scheduling:resume"}, []string{e.Outcome, e.Advice})
		for _, g := range e.Gates {
			if g.Name == "scheduling" {
				require.Equal(t, "scheduling of the organisation is paused by ada: the words are wrong", g.Fact)
				require.True(t, b.clock.Now().Equal(g.Since))
			}
		}
	})

	subtest(t, "IsKeptWithWhoDidIt", newWorld, func(t *testing.T, w *world) {
		t.Cleanup(w.run())
		ada := w.as(rpc.RoleOperator, "ada", orgID)
		out, err := w.client.PauseScheduling(ada, &onboardingv1.PauseSchedulingRequest{Reason: "a test"})
		require.NoError(t, err)
		require.Equal(t, "ada", out.GetPause().GetBy().GetSubject())
		require.Equal(t, 1, w.count(`select count(*) from audit where subject = 'ada' and method like '%PauseScheduling'`))
	})
}
