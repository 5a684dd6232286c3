package onboarding_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
)

// works does all that runs have to do now.
func (b *bundle) works() {
	b.t.Helper()
	worked(b.t, b.current())
}

func worked(t *testing.T, p *running) {
	t.Helper()
	for range 20 {
		open, err := p.people.People.WorkRuns(t.Context(), orgID, time.Minute)
		require.NoError(t, err)
		if !open {
			return
		}
	}
	t.Fatal("the runs do not end")
}

// at sets the clock forward to a time of the day, UTC.
func (b *bundle) onDay(days, hour int) {
	b.t.Helper()
	now := b.clock.Now()
	then := time.Date(now.Year(), now.Month(), now.Day()+days, hour, 0, 0, 0, time.UTC)
	b.clock.Advance(then.Sub(now))
}

// last is a person's last activity.
func (b *bundle) last(p conversation.Profile, at time.Time) {
	b.t.Helper()
	b.exec(`update user_engagement_states set last_activity_at = $2 where profile_id = $1`, p.ID, at)
}

// runsOf are the runs of a job: period and status, oldest first.
func (b *bundle) runsOf(job rules.Job) []string {
	b.t.Helper()
	return listed[string](b, `select period || ' ' || status from engagement_runs where job = $1 order by period`, string(job))
}

// runsToday has a person whose jobs have run today already, so that the next runs are tomorrow's.
func runsToday(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	b.known()
	b.works()
	b.sends()
	return b
}

func TestDailyRun(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_59_ExactlyFourteenDaysAreEnoughAndAMomentLessIsNot", runsToday, func(t *testing.T, b *bundle) {
		exactly, nearly := b.known(), b.known()
		b.onDay(20, 6)
		b.last(exactly, b.clock.Now().Add(-14*day))
		b.last(nearly, b.clock.Now().Add(-14*day+time.Microsecond))
		b.clock.Advance(5 * time.Hour) // everything is computed from 06:00
		b.works()
		b.in(exactly, rules.GoodbyeSent)
		b.in(nearly, rules.Active)
	})

	subtest(t, "S4_59_ExactlyFortyEightHoursAreEnoughAndAMomentLessIsNot", runsToday, func(t *testing.T, b *bundle) {
		exactly, nearly := b.asked(), b.asked()
		b.onDay(3, 6)
		for p, expires := range map[conversation.Profile]time.Time{exactly: b.clock.Now(), nearly: b.clock.Now().Add(time.Microsecond)} {
			b.exec(`update user_engagement_states set goodbye_expires_at = $2 where profile_id = $1`, p.ID, expires)
		}
		b.works()
		b.in(exactly, rules.Dormant)
		b.in(nearly, rules.GoodbyeSent)
	})

	subtest(t, "S4_79_TransitionAuditOutreachAndEventAreOneBatch", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 7)
		b.works()
		v := b.in(p, rules.GoodbyeSent)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.triggers(p))
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "pending", ""))
		require.Equal(t, 1, b.count(`select count(*) from engagement_outreach where transition_id = $1 and created_at = $2`,
			v.TransitionID, v.Person.GoodbyeSentAt))
		b.tells(p, engagement.EventStateChanged, "to", "active", "goodbye_sent")
	})

	subtest(t, "S4_53_SilenceAfterTheGoodbyeIsDormantAndSilentOnce", runsToday, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.onDay(4, 7)
		b.works()
		b.works()
		b.in(p, rules.Dormant)
		require.Equal(t, rules.ResponseTimeout, b.metadata(p).ResponseType)
		require.True(t, *b.metadata(p).Accepted)
		b.tells(p, engagement.EventGoodbyeResponse, "response_type", "timeout")
		require.Zero(t, b.count(`select count(*) from engagement_outreach where profile_id = $1 and status = 'pending' and event_type <> 'welcome'`, p.ID))
	})

	subtest(t, "S4_53_GoodbyeThatWasNeverAcceptedEndsWithoutAWait", runsToday, func(t *testing.T, b *bundle) {
		p := b.goodbyeQueued()
		b.exec(`update engagement_outreach set status = 'failed', outcome = 'rejected', next_retry_at = null, processed_at = $2
			where profile_id = $1 and event_type = 'goodbye'`, p.ID, b.clock.Now())
		b.onDay(1, 7)
		b.works()
		b.in(p, rules.Dormant)
		require.False(t, *b.metadata(p).Accepted)
	})

	subtest(t, "S4_54_PromisedReminderIsSentAndThenThePersonIsDormant", runsToday, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "2")
		b.in(p, rules.RemindLater)
		b.onDay(15, 8)
		b.works()
		b.in(p, rules.Dormant)
		b.sends()
		require.Equal(t, 1, b.outreach(p, rules.Reminder, "completed", "sent"))
	})

	subtest(t, "S4_58_SkipsAreCountedByReasonAndMoveNobody", runsToday, func(t *testing.T, b *bundle) {
		out, silent, held, onboarding := b.known(), b.known(), b.known(), b.known()
		b.exec(`update profiles set opted_out_at = now() where id = $1`, out.ID)
		b.exec(`update profiles set reengagement_opt_out = true where id = $1`, silent.ID)
		b.hold(held)
		b.activate(onboarding)
		b.onDay(16, 7)
		b.works()
		for _, p := range []conversation.Profile{out, silent, held, onboarding} {
			b.in(p, rules.Active)
		}
		r := b.newestRun(rules.Daily)
		require.Equal(t, map[string]int64{"opted_out": 1, "reminders_off": 1, "held": 1, "onboarding": 1}, r.GetSkipped())
		require.Equal(t, int64(5), r.GetProcessed())
		require.Equal(t, int64(1), r.GetSucceeded())
	})

	subtest(t, "S4_82_PersonWhoWritesBetweenTheDecisionAndItsWriteStaysActive", runsToday, func(t *testing.T, b *bundle) {
		writes, waits := b.known(), b.known()
		b.onDay(16, 7)
		b.current().ports.beforeBatch = func() {
			b.reply(writes, "coffee 5")
			b.unrecorded(waits, "tea 3")
		}
		b.works()
		b.in(writes, rules.Active)
		b.in(waits, rules.Active)
		require.Equal(t, int64(2), b.newestRun(rules.Daily).GetSkipped()["changed"])
		require.Zero(t, b.count(`select count(*) from engagement_outreach where event_type = 'goodbye' and profile_id in ($1, $2)`, writes.ID, waits.ID))
	})

	subtest(t, "PersonWhoCameBackToWhereTheyWereReadHasMovedAllTheSame", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 7)
		b.current().ports.beforeBatch = func() {
			b.standing(p, rules.Inactivity14d)
			b.exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		}
		b.works()
		b.in(p, rules.Active)
		require.Len(t, b.triggers(p), 2)
	})

	subtest(t, "S4_47_EpisodeHasOneGoodbyeHoweverManyRuns", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 9)
		b.works()
		b.sends()
		for range 40 { // it is sent, times out, and they are dormant
			b.onDay(1, 9)
			b.works()
			b.sends()
		}
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.Equal(t, 1, b.count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, p.ID))
	})

	subtest(t, "S4_47_DayHasOneGoodbyeAlsoOfTwoEpisodes", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 9)
		b.works()
		b.exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		b.standing(p, rules.Inactivity14d)
		require.Equal(t, 1, b.count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, p.ID))
	})

	subtest(t, "S4_47_SecondRunOfADayMovesNobodyWhoseGoodbyeIsQueuedAndSaysSo", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 9)
		b.works()
		b.in(p, rules.GoodbyeSent)
		b.exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		b.exec(`delete from engagement_runs where job = 'daily'`)
		b.works()
		b.in(p, rules.Active)
		require.Equal(t, int64(1), b.newestRun(rules.Daily).GetSkipped()["already_queued"])
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.triggers(p), "the second run writes no transition")
	})

	subtest(t, "OrganisationWithoutANumberMovesNoPerson", setup, func(t *testing.T, b *bundle) {
		elsewhere := newID()
		p, _, err := b.current().service.Enrol(t.Context(), elsewhere, conversation.Person{Phone: "+5511987659999", FirstName: "Ana"})
		require.NoError(t, err)
		at := b.clock.Now()
		m, err := rules.Begin(rules.Event{Trigger: rules.UserMessage, At: at, Now: at})
		require.NoError(t, err)
		require.NoError(t, b.store.Engagement().Apply(t.Context(), engagement.Change{
			View: engagement.View{OrgID: elsewhere, ProfileID: p.ID}, Cause: "message:" + newID(), Moves: []rules.Move{m}, At: at,
		}))
		b.onDay(16, 7)
		_, err = b.current().people.People.WorkRuns(t.Context(), elsewhere, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []string{"active"}, listed[string](b, `select state from user_engagement_states where profile_id = $1`, p.ID))
		require.Equal(t, []string{"1"}, listed[string](b, `select skipped ->> 'no_sender' from engagement_runs where status = 'completed' and job = 'daily'`))
	})

	// Also: S4-35.
	subtest(t, "S4_58_PersonWhoCannotBeWrittenIsCountedAndSpoilsNobodyElse", runsToday, func(t *testing.T, b *bundle) {
		people := []conversation.Profile{b.known(), b.known(), b.known()}
		b.exec(fmt.Sprintf(`alter table engagement_state_transitions add constraint broken check (profile_id <> '%s' or trigger = 'user_message')`, people[1].ID))
		b.onDay(16, 7)
		b.works()
		b.in(people[0], rules.GoodbyeSent)
		b.in(people[1], rules.Active)
		b.in(people[2], rules.GoodbyeSent)
		r := b.newestRun(rules.Daily)
		require.Equal(t, []int64{4, 3, 1}, []int64{r.GetProcessed(), r.GetSucceeded(), r.GetFailed()})
		require.Equal(t, people[1].ID, b.log.of(t, "engagement.run_person_failed")[0]["profile_id"])
	})
}

// newestRun is the newest run of a job, as an operator sees it.
func (b *bundle) newestRun(job rules.Job) *onboardingv1.EngagementRun {
	b.t.Helper()
	page, err := b.current().people.ListEngagementRuns(asOperator(b), &onboardingv1.ListEngagementRunsRequest{Job: string(job), PageSize: 1})
	require.NoError(b.t, err)
	require.Len(b.t, page.GetRuns(), 1)
	return page.GetRuns()[0]
}

func asOperator(b *bundle) context.Context {
	return rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "operator", Role: rpc.RoleOperator, OrgID: orgID})
}

func TestWeeklyRun(t *testing.T) {
	t.Parallel()
	review := func(b *bundle, p conversation.Profile) []string {
		return listed[string](b, `select idempotency_key || ' ' || message_key || ' ' || payload::text from engagement_outreach
			where profile_id = $1 and event_type = 'weekly_review' order by id`, p.ID)
	}

	subtest(t, "S4_60_CountsTheWeekAndAnswersSilenceWithSilence", runsToday, func(t *testing.T, b *bundle) { // it is a Friday
		busy, idle, silent := b.known(), b.known(), b.known()
		b.onDay(2, 12)
		b.reports(busy, "add_expense")
		b.reports(busy, "set_budget")
		b.reply(idle, "hello")
		b.last(silent, b.clock.Now().Add(-8*day))
		b.onDay(1, 10)
		b.works()
		require.Equal(t, []string{busy.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW " + `{"count": 2}`}, review(b, busy))
		require.Equal(t, []string{idle.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW_EMPTY {}"}, review(b, idle))
		require.Empty(t, review(b, silent))
		b.works()
		require.Len(t, review(b, busy), 1)
		require.Equal(t, []string{"2026-W47 superseded", "2026-W48 completed"}, b.runsOf(rules.Weekly))
	})

	subtest(t, "S4_60_WhatIsDoneAfterItsEndIsNotOfTheWeek", runsToday, func(t *testing.T, b *bundle) {
		busy, late := b.known(), b.known()
		b.onDay(3, 8) // Monday
		b.reports(busy, "add_expense")
		b.reply(late, "hello")
		b.onDay(0, 9)
		b.clock.Advance(time.Microsecond) // the week is over, and its run comes later
		b.reports(busy, "set_budget")
		b.reports(late, "add_expense")
		b.clock.Advance(time.Hour)
		b.works()
		require.Equal(t, []string{busy.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW " + `{"count": 1}`}, review(b, busy))
		require.Equal(t, []string{late.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW_EMPTY {}"}, review(b, late))
	})

	subtest(t, "S4_60_WhoJoinedAfterItsEndGetsNoReview", runsToday, func(t *testing.T, b *bundle) {
		b.onDay(3, 9)
		before := b.known()
		b.clock.Advance(time.Microsecond)
		after := b.known()
		b.clock.Advance(time.Hour)
		b.works()
		require.Len(t, review(b, before), 1)
		require.Empty(t, review(b, after))
		b.onDay(7, 10)
		b.works()
		require.Equal(t, []string{after.ID + ":weekly_review:2026-W49 ENGAGEMENT_WEEKLY_REVIEW_EMPTY {}"}, review(b, after), "the week after is theirs")
	})
}

func TestPeriodsOfRuns(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_87_AfterDowntimeTheNewestPeriodRunsAndTheOlderAreSuperseded", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 5) // 05:00: yesterday's run is 23 hours late
		b.works()
		all := b.runsOf(rules.Daily)
		require.Len(t, all, 16)
		require.Equal(t, "2026-12-05 completed", all[15])
		require.Equal(t, "2026-12-04 superseded", all[14])
		b.in(p, rules.GoodbyeSent)
		b.onDay(0, 6)
		b.works()
		require.Equal(t, "2026-12-06 completed", b.runsOf(rules.Daily)[16])
	})

	subtest(t, "S4_75_RunIsOncePerPeriodHoweverOftenItIsAskedFor", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 9)
		for range 3 {
			b.works()
			_, err := b.current().people.RunEngagement(asOperator(b), &onboardingv1.RunEngagementRequest{})
			require.NoError(t, err)
		}
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.triggers(p))
		b.sends()
		b.sends()
		require.Len(t, b.got(p), 1)
	})

	subtest(t, "S4_77_TwoReplicasMakeOneRun", runsToday, func(t *testing.T, b *bundle) {
		var people []conversation.Profile
		for range 8 {
			people = append(people, b.known())
		}
		b.onDay(16, 7)
		var working sync.WaitGroup
		for range 3 {
			other := b.start(b.healthy())
			working.Go(func() { worked(t, other) })
		}
		working.Wait()
		for range 3 {
			b.works()
		}
		for _, p := range people {
			require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.triggers(p))
			require.Equal(t, 1, b.count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, p.ID))
		}
		require.Equal(t, 1, b.count(`select count(*) from engagement_runs where period = '2026-12-06' and status = 'completed'`))
	})

	subtest(t, "ReplicaThatLostItsLeaseWritesNothing", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 7)
		b.current().ports.beforeBatch = func() {
			b.exec(`update engagement_runs set lease_token = gen_random_uuid(), fence = fence + 1 where status = 'running' and lease_token is not null`)
		}
		open, err := b.current().people.People.WorkRuns(t.Context(), orgID, time.Minute)
		require.NoError(t, err)
		require.True(t, open)
		b.in(p, rules.Active)
		b.clock.Advance(engagement.RunLease + time.Second)
		b.works()
		b.in(p, rules.GoodbyeSent)
	})

	subtest(t, "RunThatIsWorkedOnIsLeftAlone", runsToday, func(t *testing.T, b *bundle) {
		p := b.known()
		b.onDay(16, 7)
		b.current().ports.beforeBatch = func() {
			worked(t, b.start(b.healthy()))
			b.in(p, rules.Active)
		}
		b.works()
		b.in(p, rules.GoodbyeSent)
	})

	subtest(t, "PeriodIsRecordedOnce", runsToday, func(t *testing.T, b *bundle) {
		b.onDay(1, 7)
		b.works()
		before := b.runsOf(rules.Daily)
		again := rules.DefaultConfig().Newest(rules.Daily, b.clock.Now())
		require.NoError(t, b.store.Engagement().RecordRuns(t.Context(), orgID, &again, nil, "", b.clock.Now()))
		require.Equal(t, before, b.runsOf(rules.Daily))
	})

	subtest(t, "DryRunSaysWhoWouldGetWhatAndWritesNothing", runsToday, func(t *testing.T, b *bundle) {
		first, second, out := b.known(), b.known(), b.known()
		b.exec(`update profiles set opted_out_at = now() where id = $1`, out.ID)
		b.onDay(16, 7)
		before := b.count(`select count(*) from engagement_runs`)
		shown, err := b.current().people.RunEngagement(asOperator(b), &onboardingv1.RunEngagementRequest{DryRun: true, PageSize: 2})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"opted_out": 1}, shown.GetRun().GetSkipped())
		require.Len(t, shown.GetPlanned(), 2)
		rest, err := b.current().people.RunEngagement(asOperator(b), &onboardingv1.RunEngagementRequest{
			DryRun: true, PageSize: 2, PageToken: shown.GetNextPageToken(),
		})
		require.NoError(t, err)
		require.Empty(t, rest.GetNextPageToken())
		var who []string
		for _, p := range append(shown.GetPlanned(), rest.GetPlanned()...) {
			require.Equal(t, "goodbye", p.GetType())
			who = append(who, p.GetProfileId())
		}
		require.Subset(t, who, []string{first.ID, second.ID})
		require.Len(t, who, 3)
		b.in(first, rules.Active)
		require.Equal(t, before, b.count(`select count(*) from engagement_runs`))
	})
}

// TestCrashOfRuns is the crash matrix of a run: whichever call fails, the rest is done, and no person gets two goodbyes.
//
// Also: S4-76.
func TestCrashOfRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := runsToday(t)
	b.everyMishap(8, func(p *ports) {
		idle, asked := b.known(), b.asked()
		b.exec(`delete from engagement_outreach where event_type = 'welcome'`)
		b.last(idle, b.clock.Now().Add(-14*day))
		b.onDay(4, 7)
		dying := b.start(p)
		for range 3 {
			_, _ = dying.people.People.WorkRuns(t.Context(), orgID, time.Minute) // it fails or dies, as the mishap says
		}
		b.clock.Advance(engagement.RunLease + time.Second)
		b.works()
		b.in(idle, rules.GoodbyeSent)
		b.in(asked, rules.Dormant)
		require.Equal(t, 1, b.count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, idle.ID))
		require.Zero(t, b.count(`select count(*) from engagement_runs where status = 'running'`))
	})
}

// TestRunsOnAClockThatMoves is about the time that passes while a batch is decided.
func TestRunsOnAClockThatMoves(t *testing.T) {
	t.Parallel()
	moving := func(b *bundle) *engagement.Service {
		p := b.healthy()
		return engagement.New(engagement.Config{
			Store: people{p}, Carrier: p, Rules: b.rules, Texts: catalog.DefaultEngagement(), Log: slog.New(slog.DiscardHandler),
			Transient: func(err error) bool { return errors.Is(err, errMishap) },
			Now:       func() time.Time { b.clock.Advance(time.Microsecond); return b.clock.Now() },
		})
	}

	subtest(t, "EveryGoodbyeIsRecognisedByItsPerson", runsToday, func(t *testing.T, b *bundle) {
		for range 5 {
			b.known()
		}
		b.onDay(16, 9)
		_, err := moving(b).WorkRuns(t.Context(), orgID, time.Minute)
		require.NoError(t, err)
		require.Equal(t, 6, b.count(`select count(*) from engagement_outreach o join user_engagement_states u using (profile_id)
			where o.event_type = 'goodbye' and o.transition_id = u.transition_id and o.created_at = u.goodbye_sent_at`))
		b.sends()
		require.Equal(t, 6, b.count(`select count(*) from user_engagement_states where goodbye_expires_at is not null`))
	})
}

func TestBatchThatIsHalved(t *testing.T) {
	t.Parallel()

	subtest(t, "AnOutageInTheFirstHalfDoesNotPassItOver", runsToday, func(t *testing.T, b *bundle) {
		var idle []conversation.Profile
		for range 4 {
			idle = append(idle, b.known())
		}
		b.exec(fmt.Sprintf(`alter table engagement_state_transitions add constraint broken check (profile_id <> '%s' or trigger = 'user_message')`, idle[3].ID))
		b.onDay(16, 7)
		p := b.current().ports
		p.beforeBatch = func() { p.beforeBatch = func() { p.failBatch = true } } // the batch meets its bad person, and its first half an outage
		_, err := b.current().people.People.WorkRuns(t.Context(), orgID, time.Minute)
		require.ErrorIs(t, err, errMishap)
		b.clock.Advance(engagement.RunLease + time.Second)
		b.works()
		for _, p := range idle[:3] {
			b.in(p, rules.GoodbyeSent)
		}
		require.Equal(t, int64(1), b.newestRun(rules.Daily).GetFailed())
	})
}
