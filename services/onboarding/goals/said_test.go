package goals_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/people"
)

// TestWordsOfTime is a Friday, seven in the morning in New York, where the owner lives.
func TestWordsOfTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	device := b.device()
	b.disconnect(device)
	for _, tt := range []struct { //nolint:paralleltest // they share a clock
		name, said, goal string
		in               time.Duration
	}{
		{name: "S3_01_ARelativeTimeIsScheduledInSecondsWithoutItsWords", said: "call John after 5 minutes", goal: "call John", in: 300 * time.Second},
		{name: "S3_02_TwoHoursAre7200SecondsAndTheWordsAreGone", said: "in 2 hours call John", goal: "call John", in: 7200 * time.Second},
		{name: "S3_03_AnAbsoluteTimeCountsInTheZoneOfThePerson", said: "call John tomorrow at 9am", goal: "call John", in: 26 * time.Hour},
		{name: "S3_04_WithoutATimeItIsNotScheduledForLater", said: "open the door", goal: "open the door"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := b.said(tt.said)
			n.DeviceID = device
			g, _, err := b.service.Create(t.Context(), n)
			require.NoError(t, err)
			require.Equal(t, []any{goals.Scheduled, tt.goal, tt.in}, []any{g.Status, g.Goal, g.Delay})
			require.Equal(t, b.clock.Now().Add(tt.in), g.ScheduledFor.UTC())
			require.Equal(t, 1, b.count(`select count(*) from goals where id = $1 and goal = $2 and scheduled_delay = $3`, g.ID, tt.goal, int(tt.in.Seconds())))
			if tt.in == 0 {
				require.NoError(t, b.qstash.Idle(t.Context()))
				require.Equal(t, 1, b.count(`select count(*) from goals where id = $1 and offline_tries = 1`, g.ID), "its alarm has come at once")
			}
		})
	}

	t.Run("S3_05_ATimeThatIsPastOrNotUnderstoodRunsNothing", func(t *testing.T) {
		before := b.count(`select count(*) from goals`)
		for _, said := range []string{"call John on Fryday at 9", "call John in 0 minutes", "call John in -5 minutes", "call John later"} {
			n := b.said(said)
			n.DeviceID = device
			_, _, err := b.service.Create(t.Context(), n)
			var asksBack *goals.UnclearError
			require.ErrorAs(t, err, &asksBack, said)
		}
		for _, said := range []string{"call John yesterday at 9am", "call John today at 5am"} {
			n := b.said(said)
			n.DeviceID = device
			_, _, err := b.service.Create(t.Context(), n)
			require.ErrorIs(t, err, goals.ErrPast, said)
		}
		_, _, err := b.service.Create(t.Context(), b.goal(device, -time.Second))
		require.ErrorIs(t, err, goals.ErrPast)
		require.Equal(t, before, b.count(`select count(*) from goals`))
	})
}

func TestScope(t *testing.T) {
	t.Parallel()

	t.Run("S3_31_NoRecurrenceNoSecondDeviceAndNoHoldForOneThatIsOffline", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		offline, online := b.device(), b.device()
		b.disconnect(offline)
		for _, said := range []string{"call John every day at 9am", "every Monday at 9 call John", "call John every 2 hours"} {
			n := b.said(said)
			n.DeviceID = online
			_, _, err := b.service.Create(t.Context(), n)
			var asksBack *goals.UnclearError
			require.ErrorAs(t, err, &asksBack, said)
		}
		require.Zero(t, b.count(`select count(*) from goals`))
		g := b.says(offline, time.Minute)
		b.plays(10 * time.Minute)
		require.Equal(t, goals.ReasonOffline, b.is(g, goals.Failed).Reason)
		b.connect(offline)
		b.plays(24 * time.Hour)
		b.sweeps()
		b.is(g, goals.Failed)
		require.Equal(t, 1, b.count(`select count(*) from goals where device_id = $1`, offline))
		require.Zero(t, b.count(`select count(*) from goals where device_id = $1 or called_at is not null or started_at is not null`, online))
	})

	t.Run("S3_29_WhileSchedulingIsPausedAGoalIsKeptAndRunsOnceItIsLifted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.service.Alarms.Disabled = true
		g := b.says("", time.Minute)
		b.plays(time.Hour) // without the relay and the sweeper, which a paused process does not run
		b.is(g, goals.Scheduled)
		require.Empty(t, b.qstash.Record())
		b.service.Alarms.Disabled = false
		b.sweeps()
		b.plays(time.Minute)
		b.is(g, goals.Completed)
	})
}

func TestPausedOrganisation(t *testing.T) {
	t.Parallel()

	t.Run("BeginsNoGoalUntilThePauseIsLiftedAndLosesNone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		early := b.says("", time.Minute) // QStash has its alarm
		b.exec(`insert into scheduling_pauses (org_id, reason, paused_at, paused_by) values ($1, 'a test', $2, '{"subject":"ada"}')`, orgID, b.clock.Now())
		late := b.says("", 2*time.Minute)
		require.True(t, late.SchedulingPaused)
		b.plays(3 * time.Hour)
		b.sweeps()
		b.plays(3 * time.Hour)
		v := b.is(early, goals.Scheduled)
		b.is(late, goals.Scheduled)
		require.Len(t, b.qstash.Record().Of(emulator.Published), 1)
		require.Equal(t, 2, b.count(`select count(*) from goal_alarms where published_at is null`), "one of each goal")

		held, err := people.NewStore(b.pool).SchedulingPause(t.Context(), orgID)
		require.NoError(t, err)
		e := v.Explain(b.clock.Now(), false, conversation.Pause{Since: held.Since, By: "ada", Reason: held.Reason})
		require.Equal(t, "Nothing: scheduling of the organisation is paused by ada: a test, since 2026-11-20T12:00:00Z.", e.Next)
		require.Contains(t, e.Advice, "POST /v1/scheduling:resume")

		_, err = people.NewStore(b.pool).ResumeScheduling(t.Context(), orgID)
		require.NoError(t, err)
		for range 2 { // both are due at once, and the phone does one after the other
			b.sweeps()
			b.plays(time.Minute)
		}
		b.is(early, goals.Completed)
		b.is(late, goals.Completed)
		require.Equal(t, map[string]int{early.ID: 1, late.ID: 1}, b.phone.texts)
	})

	t.Run("KeepsNoGoalOfAnother", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(`insert into scheduling_pauses (org_id, paused_at) values ($1, $2)`, otherOrgID, b.clock.Now())
		g := b.says("", time.Minute)
		b.plays(time.Minute)
		b.is(g, goals.Completed)
	})
}

func TestS3_37_AGoalThatFiresIsNotReadAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked, answer := b.model()
	answer.Store(`{"choices":[{"finish_reason":"stop","message":{"content":` +
		quoted(`{"kind":"at","year":2026,"month":11,"day":20,"hour":17,"minute":30,"amount":null,"unit":"none","goal":"call John"}`) + `}}]}`)
	read, _, err := b.service.Create(t.Context(), b.said("call John by the end of the day"))
	require.NoError(t, err)
	require.EqualValues(t, 1, asked.Load())
	timed := b.said("call John by the end of the month, or in 2 hours")
	timed.At = b.clock.Now().Add(time.Minute)
	given, _, err := b.service.Create(t.Context(), timed)
	require.NoError(t, err)
	b.plays(time.Minute)
	b.is(given, goals.Completed)
	b.plays(read.ScheduledFor.Sub(b.clock.Now()))
	v := b.is(read, goals.Completed)
	require.Equal(t, "call John", v.Goal.Goal)
	require.Equal(t, read.ScheduledFor, v.ScheduledFor)
	require.EqualValues(t, 1, asked.Load())
	require.Equal(t, 2, b.count(`select count(*) from goals`))
}
