package inbound_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/retention"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestSweepFindsLateMessages(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "MissedStopAppliesAtOnceAndIsReported", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(time.Second)
		stop := b.Unheard(p, "STOP")
		b.Clock.Advance(7*time.Minute + 30*time.Second)
		metrics := b.Sweep()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Equal(t, "late by 7m30s", b.Entry(r.ID, session.KindStopped).Detail)
		reported := b.Log.Of(t, "onboarding.missed_stop")
		require.Len(t, reported, 1)
		require.Equal(t, stop.GetTwilioSid(), reported[0]["twilio_sid"])
		require.InDelta(t, 450_000, reported[0]["late_ms"], 0)
		require.EqualValues(t, 1, onboardingtest.Counted(t, metrics, "paceline_inbound_missed_stops_total", "", ""))
		require.EqualValues(t, 1, onboardingtest.Counted(t, metrics, "paceline_inbound_late_total", "consent_effect", "opt_out"))
		require.EqualValues(t, 1, onboardingtest.Counted(t, metrics, "paceline_inbound_sweeps_total", "outcome", "swept"))
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "MissedStopThatSTARTHasOvertakenEndsNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(time.Second)
		b.Unheard(p, "STOP")
		b.Clock.Advance(time.Minute)
		b.Reply(p, "START")
		b.Clock.Advance(2 * time.Minute)
		b.Sweep()
		require.Equal(t, "overtaken; late by 3m0s", b.Entry(r.ID, session.KindReplied).Detail)
		b.Reply(p, "yes")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "LateRepliesAreAnsweredInTheOrderTheyWereSaid", setup, func(t *testing.T, b *bundle) {
		p, r := b.Explained()
		b.Clock.Advance(time.Minute)
		b.Unheard(p, "not now")
		b.Clock.Advance(time.Minute)
		b.Unheard(p, "ok, yes")
		b.Unheard(b.Person(), "from a person whom we never texted")
		b.Clock.Advance(2 * time.Minute)
		metrics := b.Sweep()
		// No, to the explanation, is answered by LATER now. The yes was said before that: it does not answer it.
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.Later}, b.Sequence(p))
		require.True(t, b.At(r.ID, session.AwaitingOpeningResponse, "").Paused)
		require.Equal(t, "early; late by 2m0s", b.Entry(r.ID, session.KindReplied).Detail)
		require.EqualValues(t, 3, onboardingtest.Counted(t, metrics, "paceline_inbound_late_total", "", ""))
		require.Zero(t, onboardingtest.Counted(t, metrics, "paceline_inbound_missed_stops_total", "", ""))
		require.Equal(t, 4, b.Messaging.Recorded(), "what was said in time included")
	})

	onboardingtest.Subtest(t, "LateReplyDoesNotAnswerALaterQuestion", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(10 * time.Second)
		b.Unheard(p, "yes") // to the opening
		b.Clock.Advance(2 * time.Minute)
		b.Reply(p, "hello? I said yes")
		before := b.At(r.ID, session.AwaitingExplanationResponse, "")
		b.Sweep()
		require.Equal(t, before, b.Session(r.ID), "it is no answer to the explanation")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		require.Equal(t, "early; late by 2m0s", b.Entry(r.ID, session.KindReplied).Detail)
	})

	onboardingtest.Subtest(t, "LateReplyOfTheBurstIsHeldByWhenItWasSaid", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Clock.Advance(time.Second)
		b.Unheard(p, "my answer to the first message")
		b.Clock.Advance(2 * time.Minute)
		b.Sweep()
		require.Equal(t, "burst; late by 2m0s", b.Entry(r.ID, session.KindHeld).Detail)
		require.Equal(t, 1, b.Count(`select count(*) from held_replies where session_id = $1 and received_at = $2`, r.ID, b.Clock.Now().Add(-2*time.Minute)))
		for range 3 {
			b.Clock.Advance(8 * time.Second)
			b.Executes(b.Session(r.ID))
		}
		b.Work()
		b.At(r.ID, session.AwaitingInterviewStart, "")
	})

	onboardingtest.Subtest(t, "OneAccountThatRefusesKeepsNoOtherFromBeingSearched", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Sweep()
		var swept time.Time
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select swept_until from inbound_sweeps`).Scan(&swept))
		b.Messaging.SetRefused(true)
		b.Clock.Advance(2 * onboardingtest.Day) // longer than a sweep goes through
		b.Unheard(p, "STOP")
		b.Clock.Advance(2 * time.Minute)
		metrics := b.Measured(b.Current())
		b.Unheard(b.Person(), "too new to be searched")
		_, err := b.Current().Inbound.SweepInbound(t.Context(), onboardingtest.SweepEvery)
		require.ErrorIs(t, err, people.ErrUnavailable)
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where swept_until = $1 and lease_token is null`, swept), "nothing of it is skipped")
		require.EqualValues(t, 1, onboardingtest.Counted(t, metrics, "paceline_inbound_sweeps_total", "outcome", "failed"))
		b.Messaging.SetRefused(false)
		b.Clock.Advance(onboardingtest.SweepEvery)
		b.Sweep()
		require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where swept_until > $1`, swept))
	})

	onboardingtest.Subtest(t, "SoDoDisabledSenders", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.SetDisabled(true)
		b.Clock.Advance(time.Second)
		b.Unheard(p, "STOP")
		b.Clock.Advance(2 * time.Minute)
		b.Sweep()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "WhatADatabaseThatWentBackHasLostIsDeliveredAgain", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(time.Minute)
		b.Sweep()
		b.Clock.Advance(10 * time.Minute)
		kept := b.Unheard(p, "hello?")
		lost := b.Unheard(p, "yes")
		for _, heard := range []*messagingv1.InboundText{kept, lost} {
			_, err := b.Messaging.RecordInbound(t.Context(), &messagingv1.RecordInboundRequest{
				TwilioSid: heard.GetTwilioSid(), From: p.Phone, To: onboardingtest.Ours, Body: heard.GetBody(), ReceivedAt: heard.GetSentAt(),
			})
			require.NoError(t, err)
		}
		b.Clock.Advance(10 * time.Second)
		back := b.Clock.Now()
		b.Clock.Advance(2 * onboardingtest.SweepEvery)
		b.Sweep()
		b.At(r.ID, session.AwaitingOpeningResponse, "")

		require.NoError(t, postgres.InTx(t.Context(), b.Pool, func(tx pgx.Tx) error {
			return b.Store.SweepAgain(t.Context(), tx, []retention.Part{{But: []string{}}}, back.Add(-time.Minute), back)
		}))
		b.Sweep()
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where again_until is null`), "once")
	})

	onboardingtest.Subtest(t, "EachOrganisationIsSweptAgainAsFarBackAsItKeepsItsJobs", setup, func(t *testing.T, b *bundle) {
		now, usual, shorter := b.Clock.Now().Truncate(time.Second), onboardingtest.NewID(), onboardingtest.NewID()
		for _, org := range []string{usual, shorter} {
			b.Exec(`insert into inbound_sweeps (org_id, sender, swept_until, due_at) values ($1, 'x', $2, $2)`, org, now)
		}
		parts := retention.Own{shorter: {retention.Jobs: 30 * onboardingtest.Day}}.Parts(retention.Jobs, 90*onboardingtest.Day, now)
		require.NoError(t, postgres.InTx(t.Context(), b.Pool, func(tx pgx.Tx) error {
			return b.Store.SweepAgain(t.Context(), tx, parts, now.Add(-60*onboardingtest.Day), now)
		}))
		for org, back := range map[string]time.Duration{usual: 60 * onboardingtest.Day, shorter: 30 * onboardingtest.Day} {
			require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where org_id = $1 and swept_until = $2 and again_until = $3`,
				org, now.Add(-back), now), back)
		}
	})

	onboardingtest.Subtest(t, "MessageOfAnEpisodeThatIsOverAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		old := b.Activate(p)
		b.Clock.Advance(10 * time.Second)
		b.Unheard(p, "yes")
		b.Clock.Advance(time.Minute)
		_, err := b.Store.CloseSession(t.Context(), onboardingtest.OrgID, old.ID, b.Clock.Now())
		require.NoError(t, err)
		r := b.Activate(p)
		b.Clock.Advance(time.Minute)
		b.Sweep()
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, "before_session; late by 2m0s", b.Entry(r.ID, session.KindReplied).Detail)
	})

	onboardingtest.Subtest(t, "MessageThatCannotBeTakenDoesNotStandInTheWayOfOthers", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(time.Second)
		b.Messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMshort", From: "32665", To: onboardingtest.Ours, Body: "a short code"}, b.Clock.Now())
		b.Messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMforeign", From: p.Phone, To: "+14155550999", Body: "to no number of ours"}, b.Clock.Now())
		b.Unheard(p, "STOP")
		b.Clock.Advance(2 * time.Minute)
		b.Sweep()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Quiet()
		require.Equal(t, 2, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})
}

func TestSweepLeavesMessagesToTheirWebhook(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "MessagesThatCameAreLeftAlone", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		m := b.Message(p, "yes")
		b.Receives(m)
		b.Messaging.Hear(&messagingv1.InboundText{TwilioSid: m.GetTwilioSid(), From: p.Phone, To: onboardingtest.Ours, Body: "yes"}, b.Clock.Now())
		before := b.Session(r.ID)
		b.Clock.Advance(2 * time.Minute)
		metrics := b.Sweep()
		require.Equal(t, before, b.Session(r.ID))
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where event_type = 'twilio.message.received'`))
		require.Zero(t, onboardingtest.Counted(t, metrics, "paceline_inbound_late_total", "", ""))
		require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where listed = 1 and found = 0`))
	})

	onboardingtest.Subtest(t, "MessageWhoseOwnJobIsStillOpenIsLeftToIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		m := b.Message(p, "halt") // a keyword that is set at Twilio; the list does not say so
		m.OptOutType = "STOP"
		b.Messaging.SetDown(true)
		_, err := b.Current().Server.ReceiveMessage(t.Context(), m)
		require.Error(t, err, "Twilio comes again, and gives up")
		b.Messaging.Hear(&messagingv1.InboundText{TwilioSid: m.GetTwilioSid(), From: p.Phone, To: onboardingtest.Ours, Body: "halt"}, b.Clock.Now())
		b.Messaging.SetDown(false)
		b.Clock.Advance(2 * time.Minute)
		metrics := b.Sweep()
		require.Zero(t, onboardingtest.Counted(t, metrics, "paceline_inbound_late_total", "", ""))
		b.Quiet()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where idempotency_key = $1`, m.GetTwilioSid()))
	})

	onboardingtest.Subtest(t, "WebhookThatComesAfterAllChangesNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(time.Second)
		missed := b.Unheard(p, "yes")
		b.Clock.Advance(2 * time.Minute)
		b.Sweep()
		before := b.Session(r.ID)
		m := b.Message(p, "yes")
		m.TwilioSid = missed.GetTwilioSid()
		_, err := b.Current().Server.ReceiveMessage(t.Context(), m)
		require.Error(t, err, "the gateway acknowledges this refusal")
		require.Equal(t, before, b.Session(r.ID))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "FreshMessagesAreLeftToTheirWebhook", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(time.Minute)
		b.Unheard(p, "STOP")
		b.Clock.Advance(59 * time.Second)
		b.Sweep()
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Clock.Advance(onboardingtest.SweepEvery)
		b.Sweep()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})
}

func TestSweepMark(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "SweepsOverlapAndTheMarkNeverPassesWhatWasNotStored", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Activated()
		b.Sweep()
		mark := func(at time.Time) int {
			return b.Count(`select count(*) from inbound_sweeps where sender = $1 and swept_until = $2 and lease_token is null`, onboardingtest.Ours, at)
		}
		require.Equal(t, 1, mark(b.Clock.Now().Add(-time.Minute)))
		swept := b.Clock.Now().Add(-time.Minute)
		b.Clock.Advance(onboardingtest.SweepEvery)
		// Twilio's list had not had it when its time was swept.
		lagged := b.Messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMlagged", From: p.Phone, To: onboardingtest.Ours, Body: "hi"}, swept.Add(-9*time.Minute))
		sweeper := b.Current().Inbound
		b.Messaging.SetDown(true)
		_, err := sweeper.SweepInbound(t.Context(), onboardingtest.SweepEvery)
		require.Error(t, err)
		require.Equal(t, 0, b.Messaging.Recorded())
		require.Equal(t, 1, mark(swept))
		b.Messaging.SetDown(false)
		b.Sweep()
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where idempotency_key = $1`, lagged.GetTwilioSid()))
		require.Equal(t, 1, mark(b.Clock.Now().Add(-time.Minute)))
	})

	onboardingtest.Subtest(t, "FirstSweepLooksBackADay", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMold", From: p.Phone, To: onboardingtest.Ours, Body: "STOP"}, b.Clock.Now().Add(-25*time.Hour))
		b.Messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMnew", From: p.Phone, To: onboardingtest.Ours, Body: "STOP"}, b.Clock.Now().Add(-23*time.Hour))
		b.Sweep()
		require.Equal(t, 1, b.Messaging.Recorded())
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where idempotency_key = 'SMold'`))
	})

	onboardingtest.Subtest(t, "LongOutageIsSweptDayByDayTheOldestFirst", setup, func(t *testing.T, b *bundle) {
		b.Sweep()
		p := b.Person()
		for range 4 {
			b.Clock.Advance(20 * time.Hour)
			b.Unheard(p, "are you there?")
		}
		b.Clock.Advance(10 * time.Minute)
		sweeper := b.Current().Inbound
		var found []int
		for more := true; more; {
			var err error
			more, err = sweeper.SweepInbound(t.Context(), onboardingtest.SweepEvery)
			require.NoError(t, err)
			found = append(found, b.Count(`select count(*) from webhook_jobs`))
		}
		require.Equal(t, []int{1, 2, 3, 4}, found)
		require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where found_total = 4 and swept_until = $1`, b.Clock.Now().Add(-time.Minute)))
	})

	onboardingtest.Subtest(t, "OneProcessSweepsAtATime", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Clock.Advance(time.Second)
		b.Unheard(p, "STOP")
		b.Clock.Advance(2 * time.Minute)
		var sweeps sync.WaitGroup
		for range 8 {
			sweeper := b.Start(b.Healthy()).Inbound
			sweeps.Go(func() {
				_, err := sweeper.SweepInbound(t.Context(), onboardingtest.SweepEvery)
				require.NoError(t, err)
			})
		}
		sweeps.Wait()
		require.Equal(t, 1, b.Messaging.Listed())
		require.Len(t, b.Log.Of(t, "onboarding.missed_stop"), 1)
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "SweepThatWasTakenOverDoesNotMoveTheMark", setup, func(t *testing.T, b *bundle) {
		of := inbound.Sender{OrgID: onboardingtest.OrgID, Name: onboardingtest.Ours}
		now := b.Clock.Now()
		slow, ok, err := b.Store.ClaimSweep(t.Context(), of, now.Add(-time.Hour), now, now.Add(time.Minute))
		require.NoError(t, err)
		require.True(t, ok)
		_, ok, err = b.Store.ClaimSweep(t.Context(), of, now, now, now.Add(time.Minute))
		require.NoError(t, err)
		require.False(t, ok)
		b.Clock.Advance(time.Minute)
		later := b.Clock.Now()
		quick, ok, err := b.Store.ClaimSweep(t.Context(), of, later, later, later.Add(time.Minute))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, now.Add(-time.Hour), quick.SweptUntil.UTC())
		require.ErrorIs(t, b.Store.ExtendSweep(t.Context(), slow, later.Add(time.Hour)), inbound.ErrSweepLost)
		require.ErrorIs(t, b.Store.ReleaseSweep(t.Context(), slow), inbound.ErrSweepLost)
		require.ErrorIs(t, b.Store.FinishSweep(t.Context(), slow, inbound.SweepEnd{SweptUntil: later, At: later, DueAt: later}), inbound.ErrSweepLost)
		require.NoError(t, b.Store.FinishSweep(t.Context(), quick, inbound.SweepEnd{SweptUntil: now.Add(-2 * time.Hour), At: later, DueAt: later}))
		require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where swept_until = $1`, now.Add(-time.Hour)), "never back")
	})

	onboardingtest.Subtest(t, "OrganisationWithoutASenderHasNothingToSweep", setup, func(t *testing.T, b *bundle) {
		sweeper := b.Current().Inbound
		sweeper.OrgID = "00000000-0000-7000-8000-000000000002"
		more, err := sweeper.SweepInbound(t.Context(), onboardingtest.SweepEvery)
		require.NoError(t, err)
		require.False(t, more)
		require.Zero(t, b.Count(`select count(*) from inbound_sweeps where listed > 0`))
	})
}

// TestSweepSurvivesAnyMishap fails or ends the process at every call that a sweep makes, and sweeps again.
func TestSweepSurvivesAnyMishap(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	total := func() int { return b.Count(`select coalesce(sum(found_total), 0) from inbound_sweeps`) }
	b.EveryMishap(12, func(struck *onboardingtest.Ports) {
		recorded, stops, found := b.Messaging.Recorded(), len(b.Log.Of(t, "onboarding.missed_stop")), total()
		ana, bea := b.Person(), b.Person()
		first, second := b.Activate(ana), b.Activate(bea)
		b.Clock.Advance(time.Second)
		b.Unheard(ana, "STOP")
		b.Unheard(bea, "yes")
		b.Unheard(bea, "a second message")
		b.Clock.Advance(onboardingtest.SweepEvery)
		b.Measured(b.Current()) // its loop may come to report it
		_, err := b.Start(struck).Inbound.SweepInbound(t.Context(), onboardingtest.SweepEvery)
		require.True(t, struck.Happened() || err == nil, "%v", err)
		b.Clock.Advance(onboardingtest.SweepEvery) // leases end
		b.Sweep()
		b.Quiet()
		require.Equal(t, session.Stopped, b.Session(first.ID).Status)
		b.At(second.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(bea))
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(ana))
		require.Equal(t, 3, b.Messaging.Recorded()-recorded)
		require.Greater(t, len(b.Log.Of(t, "onboarding.missed_stop")), stops)
		require.LessOrEqual(t, total()-found, 3)
		require.Equal(t, 1, b.Count(`select count(*) from inbound_sweeps where lease_token is null`))
	})
}
