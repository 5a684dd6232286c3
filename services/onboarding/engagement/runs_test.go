package engagement_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/roster"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

// last is a person's last activity.
func (b *bundle) last(p people.Profile, at time.Time) {
	b.T.Helper()
	b.Exec(`update user_engagement_states set last_activity_at = $2 where profile_id = $1`, p.ID, at)
}

// runsOf are the runs of a job: period and status, oldest first.
func (b *bundle) runsOf(job rules.Job) []string {
	b.T.Helper()
	return onboardingtest.List[string](b.Bundle, `select period || ' ' || status from engagement_runs where job = $1 order by period`, string(job))
}

// runsToday is an organisation with runs of today, so that the next runs are tomorrow's.
func runsToday(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	b.Known()
	b.Works()
	b.Sends()
	return b
}

func TestDailyRun(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_59_ExactlyFourteenDaysAreEnoughAndAMomentLessIsNot", runsToday, func(t *testing.T, b *bundle) {
		exactly, nearly := b.Known(), b.Known()
		b.OnDay(20, 6)
		b.last(exactly, b.Clock.Now().Add(-14*onboardingtest.Day))
		b.last(nearly, b.Clock.Now().Add(-14*onboardingtest.Day+time.Microsecond))
		b.Clock.Advance(5 * time.Hour) // everything is computed from 06:00
		b.Works()
		b.In(exactly, rules.GoodbyeSent)
		b.In(nearly, rules.Active)
	})

	onboardingtest.Subtest(t, "S4_59_ExactlyFortyEightHoursAreEnoughAndAMomentLessIsNot", runsToday, func(t *testing.T, b *bundle) {
		exactly, nearly := b.asked(), b.asked()
		b.OnDay(3, 6)
		for p, expires := range map[people.Profile]time.Time{exactly: b.Clock.Now(), nearly: b.Clock.Now().Add(time.Microsecond)} {
			b.Exec(`update user_engagement_states set goodbye_expires_at = $2 where profile_id = $1`, p.ID, expires)
		}
		b.Works()
		b.In(exactly, rules.Dormant)
		b.In(nearly, rules.GoodbyeSent)
	})

	onboardingtest.Subtest(t, "S4_79_TransitionAuditOutreachAndEventAreOneBatch", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 7)
		b.Works()
		v := b.In(p, rules.GoodbyeSent)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.Triggers(p))
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "pending", ""))
		require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach where transition_id = $1 and created_at = $2`,
			v.TransitionID, v.Person.GoodbyeSentAt))
		b.Tells(p, engagement.EventStateChanged, "to", "active", "goodbye_sent")
	})

	onboardingtest.Subtest(t, "S4_53_SilenceAfterTheGoodbyeIsDormantAndSilentOnce", runsToday, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.OnDay(4, 7)
		b.Works()
		b.Works()
		b.In(p, rules.Dormant)
		require.Equal(t, rules.ResponseTimeout, b.metadata(p).ResponseType)
		require.True(t, *b.metadata(p).Accepted)
		b.Tells(p, engagement.EventGoodbyeResponse, "response_type", "timeout")
		require.Zero(t, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and status = 'pending' and event_type <> 'welcome'`, p.ID))
	})

	onboardingtest.Subtest(t, "S4_53_GoodbyeThatWasNeverAcceptedEndsWithoutAWait", runsToday, func(t *testing.T, b *bundle) {
		p := b.GoodbyeQueued()
		b.Exec(`update engagement_outreach set status = 'failed', outcome = 'rejected', next_retry_at = null, processed_at = $2
			where profile_id = $1 and event_type = 'goodbye'`, p.ID, b.Clock.Now())
		b.OnDay(1, 7)
		b.Works()
		b.In(p, rules.Dormant)
		require.False(t, *b.metadata(p).Accepted)
	})

	onboardingtest.Subtest(t, "S4_54_PromisedReminderIsSentAndThenThePersonIsDormant", runsToday, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "2")
		b.In(p, rules.RemindLater)
		b.OnDay(15, 8)
		b.Works()
		b.In(p, rules.Dormant)
		b.Sends()
		require.Equal(t, 1, b.Outreach(p, rules.Reminder, "completed", "sent"))
	})

	onboardingtest.Subtest(t, "S4_58_SkipsAreCountedByReasonAndMoveNobody", runsToday, func(t *testing.T, b *bundle) {
		out, silent, held, onboarding := b.Known(), b.Known(), b.Known(), b.Known()
		b.Exec(`update profiles set opted_out_at = now() where id = $1`, out.ID)
		b.Exec(`update profiles set reengagement_opt_out = true where id = $1`, silent.ID)
		b.Hold(held)
		b.Activate(onboarding)
		b.OnDay(16, 7)
		b.Works()
		for _, p := range []people.Profile{out, silent, held, onboarding} {
			b.In(p, rules.Active)
		}
		r := b.newestRun(rules.Daily)
		require.Equal(t, map[string]int64{"opted_out": 1, "reminders_off": 1, "held": 1, "onboarding": 1}, r.GetSkipped())
		require.Equal(t, int64(5), r.GetProcessed())
		require.Equal(t, int64(1), r.GetSucceeded())
	})

	onboardingtest.Subtest(t, "S4_82_PersonWhoWritesBetweenTheDecisionAndItsWriteStaysActive", runsToday, func(t *testing.T, b *bundle) {
		writes, waits := b.Known(), b.Known()
		b.OnDay(16, 7)
		b.Current().Ports.BeforeBatch = func() {
			b.Reply(writes, "coffee 5")
			b.Unrecorded(waits, "tea 3")
		}
		b.Works()
		b.In(writes, rules.Active)
		b.In(waits, rules.Active)
		require.Equal(t, int64(2), b.newestRun(rules.Daily).GetSkipped()["changed"])
		require.Zero(t, b.Count(`select count(*) from engagement_outreach where event_type = 'goodbye' and profile_id in ($1, $2)`, writes.ID, waits.ID))
	})

	onboardingtest.Subtest(t, "PersonWhoCameBackToWhereTheyWereReadHasMovedAllTheSame", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 7)
		b.Current().Ports.BeforeBatch = func() {
			b.Standing(p, rules.Inactivity14d)
			b.Exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		}
		b.Works()
		b.In(p, rules.Active)
		require.Len(t, b.Triggers(p), 2)
	})

	onboardingtest.Subtest(t, "S4_47_EpisodeHasOneGoodbyeHoweverManyRuns", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 9)
		b.Works()
		b.Sends()
		for range 40 { // it is sent, times out, and they are dormant
			b.OnDay(1, 9)
			b.Works()
			b.Sends()
		}
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, p.ID))
	})

	onboardingtest.Subtest(t, "S4_47_DayHasOneGoodbyeAlsoOfTwoEpisodes", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 9)
		b.Works()
		b.Exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		b.Standing(p, rules.Inactivity14d)
		require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, p.ID))
	})

	onboardingtest.Subtest(t, "S4_47_SecondRunOfADayMovesNobodyWhoseGoodbyeIsQueuedAndSaysSo", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 9)
		b.Works()
		b.In(p, rules.GoodbyeSent)
		b.Exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		b.Exec(`delete from engagement_runs where job = 'daily'`)
		b.Works()
		b.In(p, rules.Active)
		require.Equal(t, int64(1), b.newestRun(rules.Daily).GetSkipped()["already_queued"])
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.Triggers(p), "the second run writes no transition")
	})

	onboardingtest.Subtest(t, "OrganisationWithoutANumberMovesNoPerson", setup, func(t *testing.T, b *bundle) {
		elsewhere := onboardingtest.NewID()
		p, _, err := b.Current().Persons.Enrol(t.Context(), elsewhere, roster.Person{Phone: "+5511987659999", FirstName: "Ana"})
		require.NoError(t, err)
		at := b.Clock.Now()
		m, err := rules.Begin(rules.Event{Trigger: rules.UserMessage, At: at, Now: at})
		require.NoError(t, err)
		require.NoError(t, b.Store.Engagement().Apply(t.Context(), engagement.Change{
			View: engagement.View{OrgID: elsewhere, ProfileID: p.ID}, Cause: "message:" + onboardingtest.NewID(), Moves: []rules.Move{m}, At: at,
		}))
		b.OnDay(16, 7)
		_, err = b.Current().People.People.WorkRuns(t.Context(), elsewhere, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []string{"active"}, onboardingtest.List[string](b.Bundle, `select state from user_engagement_states where profile_id = $1`, p.ID))
		require.Equal(t, []string{"1"}, onboardingtest.List[string](b.Bundle, `select skipped ->> 'no_sender' from engagement_runs where status = 'completed' and job = 'daily'`))
	})

	// Also: S4-35.
	onboardingtest.Subtest(t, "S4_58_PersonWhoCannotBeWrittenIsCountedAndSpoilsNobodyElse", runsToday, func(t *testing.T, b *bundle) {
		people := []people.Profile{b.Known(), b.Known(), b.Known()}
		b.Exec(fmt.Sprintf(`alter table engagement_state_transitions add constraint broken check (profile_id <> '%s' or trigger = 'user_message')`, people[1].ID))
		b.OnDay(16, 7)
		b.Works()
		b.In(people[0], rules.GoodbyeSent)
		b.In(people[1], rules.Active)
		b.In(people[2], rules.GoodbyeSent)
		r := b.newestRun(rules.Daily)
		require.Equal(t, []int64{4, 3, 1}, []int64{r.GetProcessed(), r.GetSucceeded(), r.GetFailed()})
		require.Equal(t, people[1].ID, b.Log.Of(t, "engagement.run_person_failed")[0]["profile_id"])
	})
}

// newestRun is the newest run of a job, as an operator sees it.
func (b *bundle) newestRun(job rules.Job) *onboardingv1.EngagementRun {
	b.T.Helper()
	page, err := b.Current().People.ListEngagementRuns(asOperator(b), &onboardingv1.ListEngagementRunsRequest{Job: string(job), PageSize: 1})
	require.NoError(b.T, err)
	require.Len(b.T, page.GetRuns(), 1)
	return page.GetRuns()[0]
}

func asOperator(b *bundle) context.Context {
	return rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "operator", Role: rpc.RoleOperator, OrgID: onboardingtest.OrgID})
}

func TestWeeklyRun(t *testing.T) {
	t.Parallel()
	review := func(b *bundle, p people.Profile) []string {
		return onboardingtest.List[string](b.Bundle, `select idempotency_key || ' ' || message_key || ' ' || payload::text from engagement_outreach
			where profile_id = $1 and event_type = 'weekly_review' order by id`, p.ID)
	}

	onboardingtest.Subtest(t, "S4_60_CountsTheWeekAndAnswersSilenceWithSilence", runsToday, func(t *testing.T, b *bundle) { // it is a Friday
		busy, idle, silent := b.Known(), b.Known(), b.Known()
		b.OnDay(2, 12)
		b.Reports(busy, "add_expense")
		b.Reports(busy, "set_budget")
		b.Reply(idle, "hello")
		b.last(silent, b.Clock.Now().Add(-8*onboardingtest.Day))
		b.OnDay(1, 10)
		b.Works()
		require.Equal(t, []string{busy.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW " + `{"count": 2}`}, review(b, busy))
		require.Equal(t, []string{idle.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW_EMPTY {}"}, review(b, idle))
		require.Empty(t, review(b, silent))
		b.Works()
		require.Len(t, review(b, busy), 1)
		require.Equal(t, []string{"2026-W47 superseded", "2026-W48 completed"}, b.runsOf(rules.Weekly))
	})

	onboardingtest.Subtest(t, "S4_60_WhatIsDoneAfterItsEndIsNotOfTheWeek", runsToday, func(t *testing.T, b *bundle) {
		busy, late := b.Known(), b.Known()
		b.OnDay(3, 8) // Monday
		b.Reports(busy, "add_expense")
		b.Reply(late, "hello")
		b.OnDay(0, 9)
		b.Clock.Advance(time.Microsecond) // the week is over, and its run comes later
		b.Reports(busy, "set_budget")
		b.Reports(late, "add_expense")
		b.Clock.Advance(time.Hour)
		b.Works()
		require.Equal(t, []string{busy.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW " + `{"count": 1}`}, review(b, busy))
		require.Equal(t, []string{late.ID + ":weekly_review:2026-W48 ENGAGEMENT_WEEKLY_REVIEW_EMPTY {}"}, review(b, late))
	})

	onboardingtest.Subtest(t, "S4_60_WhoJoinedAfterItsEndGetsNoReview", runsToday, func(t *testing.T, b *bundle) {
		b.OnDay(3, 9)
		before := b.Known()
		b.Clock.Advance(time.Microsecond)
		after := b.Known()
		b.Clock.Advance(time.Hour)
		b.Works()
		require.Len(t, review(b, before), 1)
		require.Empty(t, review(b, after))
		b.OnDay(7, 10)
		b.Works()
		require.Equal(t, []string{after.ID + ":weekly_review:2026-W49 ENGAGEMENT_WEEKLY_REVIEW_EMPTY {}"}, review(b, after), "the week after is theirs")
	})
}

func TestPeriodsOfRuns(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_87_AfterDowntimeTheNewestPeriodRunsAndTheOlderAreSuperseded", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 5) // 05:00: yesterday's run is 23 hours late
		b.Works()
		all := b.runsOf(rules.Daily)
		require.Len(t, all, 16)
		require.Equal(t, "2026-12-05 completed", all[15])
		require.Equal(t, "2026-12-04 superseded", all[14])
		b.In(p, rules.GoodbyeSent)
		b.OnDay(0, 6)
		b.Works()
		require.Equal(t, "2026-12-06 completed", b.runsOf(rules.Daily)[16])
	})

	onboardingtest.Subtest(t, "S4_75_RunIsOncePerPeriodHoweverOftenItIsAskedFor", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 9)
		for range 3 {
			b.Works()
			_, err := b.Current().People.RunEngagement(asOperator(b), &onboardingv1.RunEngagementRequest{})
			require.NoError(t, err)
		}
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.Triggers(p))
		b.Sends()
		b.Sends()
		require.Len(t, b.got(p), 1)
	})

	onboardingtest.Subtest(t, "S4_77_TwoReplicasMakeOneRun", runsToday, func(t *testing.T, b *bundle) {
		var people []people.Profile
		for range 8 {
			people = append(people, b.Known())
		}
		b.OnDay(16, 7)
		var working sync.WaitGroup
		for range 3 {
			other := b.Start(b.Healthy())
			working.Go(func() { onboardingtest.Worked(t, other) })
		}
		working.Wait()
		for range 3 {
			b.Works()
		}
		for _, p := range people {
			require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d}, b.Triggers(p))
			require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, p.ID))
		}
		require.Equal(t, 1, b.Count(`select count(*) from engagement_runs where period = '2026-12-06' and status = 'completed'`))
	})

	onboardingtest.Subtest(t, "ReplicaThatLostItsLeaseWritesNothing", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 7)
		b.Current().Ports.BeforeBatch = func() {
			b.Exec(`update engagement_runs set lease_token = gen_random_uuid(), fence = fence + 1 where status = 'running' and lease_token is not null`)
		}
		open, err := b.Current().People.People.WorkRuns(t.Context(), onboardingtest.OrgID, time.Minute)
		require.NoError(t, err)
		require.True(t, open)
		b.In(p, rules.Active)
		b.Clock.Advance(engagement.RunLease + time.Second)
		b.Works()
		b.In(p, rules.GoodbyeSent)
	})

	onboardingtest.Subtest(t, "RunThatIsWorkedOnIsLeftAlone", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.OnDay(16, 7)
		b.Current().Ports.BeforeBatch = func() {
			onboardingtest.Worked(t, b.Start(b.Healthy()))
			b.In(p, rules.Active)
		}
		b.Works()
		b.In(p, rules.GoodbyeSent)
	})

	onboardingtest.Subtest(t, "PeriodIsRecordedOnce", runsToday, func(t *testing.T, b *bundle) {
		b.OnDay(1, 7)
		b.Works()
		before := b.runsOf(rules.Daily)
		again := rules.DefaultConfig().Newest(rules.Daily, b.Clock.Now())
		require.NoError(t, b.Store.Engagement().RecordRuns(t.Context(), onboardingtest.OrgID, &again, nil, "", b.Clock.Now()))
		require.Equal(t, before, b.runsOf(rules.Daily))
	})

	onboardingtest.Subtest(t, "DryRunSaysWhoWouldGetWhatAndWritesNothing", runsToday, func(t *testing.T, b *bundle) {
		first, second, out := b.Known(), b.Known(), b.Known()
		b.Exec(`update profiles set opted_out_at = now() where id = $1`, out.ID)
		b.OnDay(16, 7)
		before := b.Count(`select count(*) from engagement_runs`)
		shown, err := b.Current().People.RunEngagement(asOperator(b), &onboardingv1.RunEngagementRequest{DryRun: true, PageSize: 2})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"opted_out": 1}, shown.GetRun().GetSkipped())
		require.Len(t, shown.GetPlanned(), 2)
		rest, err := b.Current().People.RunEngagement(asOperator(b), &onboardingv1.RunEngagementRequest{
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
		b.In(first, rules.Active)
		require.Equal(t, before, b.Count(`select count(*) from engagement_runs`))
	})
}

// meanwhile does something between the reads of a run: after its rules, before its people.
type meanwhile struct {
	onboardingtest.People

	do func()
}

func (m meanwhile) Candidates(ctx context.Context, of engagement.Run, times engagement.RunTimes, limit int) ([]engagement.Candidate, error) {
	m.do()
	return m.People.Candidates(ctx, of, times, limit)
}

// TestRulesOfAnOrganisation is about two organisations in one deployment, one with its own rules.
func TestRulesOfAnOrganisation(t *testing.T) {
	t.Parallel()
	own := `{"version": "acme-1", "inactivity_days": 3, "goodbye_timeout_hours": 5, "remind_later_days": 2, "weekly_window_days": 7,
		"daily_at": "10:00", "weekly_on": "monday", "weekly_at": "09:00", "recogniser": true, "uncounted_actions": [],
		"tiers": [["book_visit"], ["add_expense"], ["review"]]}`
	decides := func(b *bundle, org, file string) {
		b.Exec(`insert into organisation_settings (org_id, engagement, version, updated_at) values ($1, $2, 1, $3)
			on conflict (org_id) do update set engagement = excluded.engagement`, org, file, b.Clock.Now())
	}

	onboardingtest.Subtest(t, "AreNotReadForEachPerson", runsToday, func(t *testing.T, b *bundle) {
		b.Known()
		decides(b, onboardingtest.OrgID, own)
		b.Exec(`update organisation_settings set engagement_texts = '{"en": {"ENGAGEMENT_TIER_3": "Nice."}}'`)
		found, err := b.Store.Engagement().Candidates(t.Context(), engagement.Run{
			OrgID: onboardingtest.OrgID, Stage: engagement.StageInactivity, Period: rules.Period{Nominal: b.Clock.Now()},
		}, engagement.RunTimes{Idle: b.Clock.Now()}, 2)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, c := range found {
			require.Nil(t, c.View.Decided)
			require.Empty(t, c.View.Texts)
		}
	})

	onboardingtest.Subtest(t, "HoldForIt", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Sends()
		decides(b, onboardingtest.OrgID, own)
		service := b.Current().People.People
		b.OnDay(3, 9)
		b.last(p, b.Clock.Now().Add(-3*onboardingtest.Day))
		b.Works()
		b.In(p, rules.Active)
		b.Clock.Advance(2 * time.Hour)
		b.Works()
		b.In(p, rules.GoodbyeSent)
		b.Exec(`delete from engagement_outreach where event_type = 'weekly_review'`) // two nudges a week are too many
		b.Clock.Advance(8 * time.Hour)                                               // it is day where they live
		b.Sends()
		v := b.In(p, rules.GoodbyeSent)
		require.InDelta(t, 5*time.Hour, v.Person.GoodbyeExpiresAt.Sub(b.Clock.Now()), float64(time.Minute))
		_, _, err := service.Report(t.Context(), engagement.Report{
			OrgID: onboardingtest.OrgID, ProfileID: p.ID, Key: "1", Action: rules.Action{Name: "view_report", OccurredAt: b.Clock.Now(), Source: rules.SourceWeb},
		})
		require.ErrorIs(t, err, rules.ErrAction, "an action of the deployment alone")
		answer, _, err := service.Report(t.Context(), engagement.Report{
			OrgID: onboardingtest.OrgID, ProfileID: p.ID, Key: "1", Action: rules.Action{Name: "book_visit", OccurredAt: b.Clock.Now(), Source: rules.SourceWeb},
		})
		require.NoError(t, err)
		require.Equal(t, 1, answer.Tier)
	})

	onboardingtest.Subtest(t, "HoldForTheSliceThatReadThem", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		decides(b, onboardingtest.OrgID, own)
		b.OnDay(3, 11)
		b.last(p, b.Clock.Now().Add(-4*onboardingtest.Day))
		ports := b.Healthy()
		service := engagement.New(engagement.Config{
			Store:    meanwhile{onboardingtest.People{Ports: ports}, func() { decides(b, onboardingtest.OrgID, `{"version": "of a later release"}`) }},
			Settings: b.Store.People(), Carrier: ports, Rules: b.Rules, Texts: catalog.DefaultEngagement(), Log: slog.New(slog.DiscardHandler), Now: b.Clock.Now,
		})
		_, err := service.WorkRuns(t.Context(), onboardingtest.OrgID, time.Minute)
		require.NoError(t, err)
		b.In(p, rules.GoodbyeSent)
	})

	onboardingtest.Subtest(t, "AreToldToThePersonWhoIsReminded", runsToday, func(t *testing.T, b *bundle) {
		p := b.asked()
		decides(b, onboardingtest.OrgID, own)
		b.Reply(p, "2")
		b.In(p, rules.RemindLater)
		decides(b, onboardingtest.OrgID, strings.Replace(own, `"remind_later_days": 2`, `"remind_later_days": 5`, 1)) // it was promised before
		b.OnDay(3, 11)
		b.Works()
		b.In(p, rules.Dormant)
		b.Clock.Advance(8 * time.Hour) // it is day where they live
		b.Sends()
		got := b.got(p)
		require.Contains(t, got[len(got)-2], "in 2 days")
		require.Contains(t, got[len(got)-1], "2 days ago")
	})

	onboardingtest.Subtest(t, "HoldForNoOther", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		decides(b, onboardingtest.NewID(), own)
		b.OnDay(5, 11)
		b.Works()
		b.In(p, rules.Active)
	})

	onboardingtest.Subtest(t, "OfALaterReleaseSendNothing", runsToday, func(t *testing.T, b *bundle) {
		p := b.Known()
		decides(b, onboardingtest.OrgID, `{"version": "of a later release"}`)
		b.OnDay(16, 11)
		_, err := b.Current().People.People.WorkRuns(t.Context(), onboardingtest.OrgID, time.Minute)
		require.ErrorIs(t, err, rules.ErrConfig)
		logged := func() int { return strings.Count(b.Log.String(), "engagement.rules_unread") }
		works := b.Current().People.People.RunLoop(nil).Once
		for changes, file := range []string{`{"version": "of a later release"}`, `{"version": "of a still later release", "inactivity_days": 0}`} {
			decides(b, onboardingtest.OrgID, file)
			for range 3 {
				_, err := works(t.Context())
				require.NoError(t, err, "no other organisation waits for it")
			}
			require.Equal(t, 1+changes, logged(), "once for each change")
		}
		b.In(p, rules.Active)
		require.Zero(t, b.Count(`select count(*) from engagement_outreach where event_type <> 'welcome'`))
		b.Reply(p, "hello")
		require.Equal(t, b.Clock.Now().UTC(), b.In(p, rules.Active).Person.LastActivityAt.UTC(), "a text is followed all the same")
	})

	onboardingtest.Subtest(t, "OfALaterReleaseHaveTheCallerTryAgain", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		decides(b, onboardingtest.OrgID, `{"version": "of a later release"}`)
		b.refused(b.Did(p, "add_expense"), codes.Unavailable, "later release")
		for _, dry := range []bool{false, true} {
			_, err := b.Current().People.RunEngagement(asOperator(b), &onboardingv1.RunEngagementRequest{DryRun: dry})
			refusal, known := rpc.ErrorFrom(onboarding.Answer(err))
			require.True(t, known, "%v", err)
			require.Equal(t, codes.Unavailable, refusal.Code)
		}
	})

	onboardingtest.Subtest(t, "AreReadOnceForAReport", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		decides(b, onboardingtest.OrgID, own)
		ports := b.Healthy()
		answer, _, err := b.Start(ports).People.People.Report(t.Context(), engagement.Report{
			OrgID: onboardingtest.OrgID, ProfileID: p.ID, Key: "1", Action: rules.Action{Name: "book_visit", OccurredAt: b.Clock.Now(), Source: rules.SourceWeb},
		})
		require.NoError(t, err)
		require.Equal(t, 1, answer.Tier)
		require.Equal(t, []string{"PersonByID", "Apply"}, ports.Calls)
	})

	late := func(b *bundle, reader *sdkmetric.ManualReader, job rules.Job) time.Duration {
		lag := onboardingtest.Gauge(b.T, reader, "paceline_engagement_run_lag_seconds", attribute.String("job", string(job)))
		return time.Duration(lag) * time.Second
	}
	for name, file := range map[string]string{
		"AreLateByTheirOwnTime": own, "OfALaterReleaseAreLateByTheirOwnTime": strings.Replace(own, "{", `{"colour": "red", `, 1),
	} {
		onboardingtest.Subtest(t, name, runsToday, func(t *testing.T, b *bundle) {
			decides(b, onboardingtest.OrgID, file)
			reader := b.observed()
			b.OnDay(1, 9)
			require.Zero(t, late(b, reader, rules.Daily), "06:00 is not its time")
			b.Clock.Advance(2 * time.Hour)
			require.Equal(t, time.Hour, late(b, reader, rules.Daily))
			decides(b, onboardingtest.OrgID, own)
			b.Works()
			require.Zero(t, late(b, reader, rules.Daily))
		})
	}

	onboardingtest.Subtest(t, "AreNotLateForAPeriodBeforeTheNewestThatIsRecorded", setup, func(t *testing.T, b *bundle) {
		reader := b.observed()
		b.Known() // on a Friday at noon
		b.Works()
		b.Exec(`delete from engagement_runs where period not in ('2026-11-20', '2026-W47')`)
		later := strings.NewReplacer(`"10:00"`, `"13:00"`, `"monday"`, `"sunday"`).Replace(own)
		decides(b, onboardingtest.OrgID, later)
		b.Works()
		require.Equal(t, []string{"2026-11-20 completed"}, b.runsOf(rules.Daily), "there is nothing to run")
		require.Equal(t, []string{"2026-W47 superseded"}, b.runsOf(rules.Weekly))
		for _, job := range rules.Jobs() {
			require.Zero(t, late(b, reader, job), job)
		}
		b.Clock.Advance(2 * onboardingtest.Day)
		require.Equal(t, 23*time.Hour, late(b, reader, rules.Daily))
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
	b.EveryMishap(8, func(p *onboardingtest.Ports) {
		idle, asked := b.Known(), b.asked()
		b.Exec(`delete from engagement_outreach where event_type = 'welcome'`)
		b.last(idle, b.Clock.Now().Add(-14*onboardingtest.Day))
		b.OnDay(4, 7)
		dying := b.Start(p)
		for range 3 {
			_, _ = dying.People.People.WorkRuns(t.Context(), onboardingtest.OrgID, time.Minute) // it fails or dies, as the mishap says
		}
		b.Clock.Advance(engagement.RunLease + time.Second)
		b.Works()
		b.In(idle, rules.GoodbyeSent)
		b.In(asked, rules.Dormant)
		require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`, idle.ID))
		require.Zero(t, b.Count(`select count(*) from engagement_runs where status = 'running'`))
	})
}

// TestRunsOnAClockThatMoves is about the time that passes while a batch is decided.
func TestRunsOnAClockThatMoves(t *testing.T) {
	t.Parallel()
	moving := func(b *bundle) *engagement.Service {
		p := b.Healthy()
		return engagement.New(engagement.Config{
			Store: onboardingtest.People{Ports: p}, Settings: b.Store.People(), Carrier: p, Rules: b.Rules, Texts: catalog.DefaultEngagement(), Log: slog.New(slog.DiscardHandler),
			Transient: func(err error) bool { return errors.Is(err, onboardingtest.ErrMishap) },
			Now:       func() time.Time { b.Clock.Advance(time.Microsecond); return b.Clock.Now() },
		})
	}

	onboardingtest.Subtest(t, "EveryGoodbyeIsRecognisedByItsPerson", runsToday, func(t *testing.T, b *bundle) {
		for range 5 {
			b.Known()
		}
		b.OnDay(16, 9)
		_, err := moving(b).WorkRuns(t.Context(), onboardingtest.OrgID, time.Minute)
		require.NoError(t, err)
		require.Equal(t, 6, b.Count(`select count(*) from engagement_outreach o join user_engagement_states u using (profile_id)
			where o.event_type = 'goodbye' and o.transition_id = u.transition_id and o.created_at = u.goodbye_sent_at`))
		b.Sends()
		require.Equal(t, 6, b.Count(`select count(*) from user_engagement_states where goodbye_expires_at is not null`))
	})
}

func TestBatchThatIsHalved(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "AnOutageInTheFirstHalfDoesNotPassItOver", runsToday, func(t *testing.T, b *bundle) {
		var idle []people.Profile
		for range 4 {
			idle = append(idle, b.Known())
		}
		b.Exec(fmt.Sprintf(`alter table engagement_state_transitions add constraint broken check (profile_id <> '%s' or trigger = 'user_message')`, idle[3].ID))
		b.OnDay(16, 7)
		p := b.Current().Ports
		p.BeforeBatch = func() { p.BeforeBatch = func() { p.FailBatch = true } } // the batch meets its bad person, and its first half an outage
		_, err := b.Current().People.People.WorkRuns(t.Context(), onboardingtest.OrgID, time.Minute)
		require.ErrorIs(t, err, onboardingtest.ErrMishap)
		b.Clock.Advance(engagement.RunLease + time.Second)
		b.Works()
		for _, p := range idle[:3] {
			b.In(p, rules.GoodbyeSent)
		}
		require.Equal(t, int64(1), b.newestRun(rules.Daily).GetFailed())
	})
}
