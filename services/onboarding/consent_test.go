package onboarding_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/queue"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// TestAmbiguousWords: whether "leave me alone" is an opt-out is for an operator to say, and nothing is sent before they have.
func TestAmbiguousWords(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_40_BurstWaitsForAnOperatorAndGoesOnWhenTheyResumeIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		said := len(b.sequence(p))
		b.reply(p, "leave me alone")
		parked := b.session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "may want no more texts")
		require.Contains(t, parked.Reason, "/v1/sessions/"+r.ID+":resume")
		require.NotContains(t, parked.Reason, p.Phone)
		require.NotContains(t, parked.Reason, "leave me")
		require.Equal(t, parked.Reason, b.entry(r.ID, session.KindParked).Detail)
		require.NotEmpty(t, b.entry(r.ID, session.KindParked).MessageID)
		require.Equal(t, "may be an opt-out", b.entry(r.ID, session.KindReplied).Detail)
		b.executes(r)
		require.Len(t, b.sequence(p), said, "nothing is sent")

		b.reply(p, "leave me alone") // which changes nothing more
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		b.resumed(r)
		b.work()
		require.Equal(t, session.Active, b.session(r.ID).Status, "the operator has judged the words")
		b.executes(b.session(r.ID))
		require.Len(t, b.sequence(p), said+1)
	})

	// Messaging asks them whether the texts are to stop; that is TestQuestionOfAHold there.
	subtest(t, "YesGoesOnWithTheBurst", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.reply(p, "leave me alone")
		b.unmute()
		b.reply(p, "yes")
		require.Equal(t, session.TriggerReply, b.entry(r.ID, session.KindResumed).Trigger)
		b.completes(p)
	})

	subtest(t, "YesAtAGateIsItsAnswer", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "leave me alone")
		b.reply(p, "yes")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		b.reply(p, "ok")
		b.completes(p)
	})

	// Messaging holds the person from the words on; that is TestWordsThatMayBeAnOptOut there.
	subtest(t, "ResumingTheSessionJudgesThemAndEndsTheirHold", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "leave me alone")
		service := b.current().service
		_, err := service.Release(t.Context(), orgID, p.ID)
		require.NoError(t, err)
		require.True(t, b.messaging.Held(p.Phone), "a release of the profile is no judgement while the session waits for one")
		b.messaging.SetDown(true)
		_, err = service.Resume(t.Context(), orgID, r.ID)
		require.ErrorIs(t, err, conversation.ErrUnavailable)
		require.Equal(t, session.Stuck, b.session(r.ID).Status, "asked again, it is resumed")
		b.messaging.SetDown(false)
		b.resumed(r)
		require.False(t, b.messaging.Held(p.Phone))
	})

	subtest(t, "NothingJudgesThemForWhoLeavesThemUnjudged", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "leave me alone")
		bulk := &onboardingv1.ResumeSessionsRequest{ReasonContains: "read", LeaveUnjudged: true}
		out, err := asks(b, b.current().server.ResumeSessions, bulk)
		require.NoError(t, err)
		require.Zero(t, out.GetMatched())
		_, left, err := b.current().service.ResumeAll(t.Context(), orgID, []string{r.ID}, true)
		require.NoError(t, err)
		require.ErrorIs(t, left[0].Cause, conversation.ErrAwaitsOperator, "also when it was parked for them after the list was made")
		release := func() error {
			_, err := asks(b, b.current().server.ReleaseProfile, &onboardingv1.ReleaseProfileRequest{ProfileId: p.ID, LeaveUnjudged: true})
			return err
		}
		refuses(t, release(), codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		b.resets(r)
		refuses(t, release(), codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		require.True(t, b.messaging.Held(p.Phone))
		_, err = b.current().service.Release(t.Context(), orgID, p.ID)
		require.NoError(t, err)
		require.NoError(t, release(), "they are judged")
	})

	subtest(t, "ResettingTheSessionJudgesNothingAndTheProfileIsReleased", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "leave me alone")
		b.resets(r)
		_, err := b.activates(p, nil)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		require.ErrorContains(t, err, ":release")
		_, err = b.current().service.Release(t.Context(), orgID, p.ID)
		require.NoError(t, err)
		b.activate(p)
	})
}

// TestAmbiguousWordsWithoutASession: where no session can wait for an operator, a job asks them, once.
func TestAmbiguousWordsWithoutASession(t *testing.T) {
	t.Parallel()
	// asked is the one job that asks an operator.
	asked := func(b *bundle) (failure string) {
		b.t.Helper()
		require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `select error_message from webhook_jobs where status = 'failed' and attempts = 1`).Scan(&failure))
		require.Contains(b.t, failure, "needs an operator: the person may want no more texts; read GET /v1/messages/")
		return failure
	}

	subtest(t, "AStrangerIsOneQuestion", setup, func(t *testing.T, b *bundle) {
		stranger := conversation.Profile{Phone: "+5511987651234"}
		for range 4 {
			b.reply(stranger, "leave me alone")
		}
		b.quiet()
		require.NotContains(t, asked(b), stranger.Phone)
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'failed'`))
		require.Equal(t, 3, b.count(`select count(*) from webhook_jobs where status = 'completed'`))
		require.Empty(t, b.messaging.Attempts())
		require.True(t, b.messaging.Held(stranger.Phone))
		var job string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select id from webhook_jobs where status = 'failed'`).Scan(&job))
		require.NoError(t, b.cancels(job))
		require.False(t, b.messaging.Held(stranger.Phone), "cancelling it judges the words")
	})

	for _, word := range []string{"yes", "STOP"} {
		subtest(t, "TheirAnswerLeavesNothingToAsk_"+word, setup, func(t *testing.T, b *bundle) {
			stranger := conversation.Profile{Phone: "+5511987651234"}
			b.reply(stranger, "leave me alone")
			b.quiet()
			asked(b)
			b.reply(stranger, word)
			b.quiet()
			require.Zero(t, b.count(`select count(*) from webhook_jobs where status = 'failed'`))
			require.False(t, b.messaging.Held(stranger.Phone))
		})
	}

	subtest(t, "SoIsAPersonWhoseSessionHasEnded", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.resets(r)
		b.reply(p, "leave me alone")
		b.quiet()
		asked(b)
		require.Equal(t, "may be an opt-out", b.entry(r.ID, session.KindReplied).Detail)
		require.Equal(t, session.Closed, b.session(r.ID).Status)
	})
}

// leave stores a message of a person as a job that no process works yet, with its words about consent applied, and returns its id.
func (b *bundle) leave(p conversation.Profile, body string) string {
	b.t.Helper()
	in := b.message(p, body)
	m := conversation.Inbound{SID: in.GetTwilioSid(), From: in.GetFrom(), To: in.GetTo(), Body: in.GetBody(), Segments: 1}
	payload, err := json.Marshal(m)
	require.NoError(b.t, err)
	job := conversation.NewJob(orgID, conversation.SourceTwilio, conversation.EventMessage, m.SID, m.From, payload, b.clock.Now())
	job.DueAt = job.At.Add(3 * time.Second)
	kept, err := b.store.Enqueue(b.t.Context(), job)
	require.NoError(b.t, err)
	_, err = b.carrier.Record(b.t.Context(), m, conversation.View{Session: session.Record{ProfileID: p.ID}}, b.clock.Now())
	require.NoError(b.t, err)
	b.clock.Advance(time.Second)
	return kept.ID
}

// TestConsentThatIsWorkedLate: a word or a failure is about the session that there was when it came.
func TestConsentThatIsWorkedLate(t *testing.T) {
	t.Parallel()

	// again closes a session and opens the next one, whose opening waits its turn behind what the person wrote.
	again := func(b *bundle, p conversation.Profile, r session.Record) session.Record {
		b.t.Helper()
		b.resets(r)
		b.clock.Advance(time.Second)
		opened := b.activate(p)
		require.NotEqual(b.t, r.ID, opened.ID)
		b.clock.Advance(10 * time.Second)
		return opened
	}

	subtest(t, "R_05_AnOldSTOPDoesNotEndANewSessionOfAPersonWhoHasOptedInSince", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.leave(p, "STOP")
		b.leave(p, "START")
		opened := again(b, p, r)
		b.quiet()
		require.Equal(t, session.Active, b.session(opened.ID).Status)
		require.Equal(t, session.Closed, b.session(r.ID).Status)
		require.Equal(t, []string{opening, opening}, b.sequence(p))
	})

	subtest(t, "R_05_AnOldSTOPThatSTARTHasUndoneStillEndsTheSessionThatThereWas", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.leave(p, "STOP")
		b.leave(p, "START")
		b.clock.Advance(10 * time.Second)
		b.quiet()
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})

	subtest(t, "R_05_ASTOPInForceStopsAlsoASessionThatWasOpenedAfterIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.leave(p, "STOP")
		b.messaging.SetOlder(true) // which does not say at an activation that the person has opted out
		opened := again(b, p, r)
		b.messaging.SetOlder(false)
		b.quiet()
		require.Equal(t, session.Stopped, b.session(opened.ID).Status)
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "R_05_OldWordsThatMayBeAnOptOutParkNoNewSessionAndAreLeftToAnOperator", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.SetOlder(true) // which holds no person for such words: otherwise the activation would be refused
		job := b.leave(p, "leave me alone")
		opened := again(b, p, r)
		b.messaging.SetOlder(false)
		b.quiet()
		require.Equal(t, session.Active, b.session(opened.ID).Status)
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where id = $1 and status = 'failed' and error_message like 'needs an operator%'`, job))
	})

	subtest(t, "R_05_AFailingJobParksNoSessionThatWasOpenedAfterIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		job := b.leave(p, "Sure")
		opened := again(b, p, r)
		now := b.clock.Now()
		claimed, err := b.store.Jobs().Claim(t.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, claimed.Jobs, 1)
		require.Equal(t, job, claimed.Jobs[0].ID)
		require.NoError(t, b.current().service.GiveUp(t.Context(), claimed.Jobs[0], errMishap))
		require.Equal(t, session.Active, b.session(opened.ID).Status)
		require.Equal(t, session.Closed, b.session(r.ID).Status)
	})
}

// TestConsentBesideAnActivation is about a session that is opened while a message is being recorded.
func TestConsentBesideAnActivation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.person()
	first := b.activate(p)
	_, err := b.current().service.Reset(t.Context(), orgID, first.ID)
	require.NoError(t, err)
	b.clock.Advance(time.Second)
	var opened session.Record
	b.current().ports.whileRecording = func() { opened = b.activate(p) }
	b.reply(p, "STOP")
	require.NotEqual(t, first.ID, opened.ID)
	require.Equal(t, session.Stopped, b.session(opened.ID).Status, "the session that was open when the STOP counted")
}

func TestConsentDuringTheBurst(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_40_HelpPassesTheHold", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.reply(p, "HELP")
		require.Zero(t, b.count(`select count(*) from held_replies`))
		require.Equal(t, session.KindReplied, b.story(r.ID)[len(b.story(r.ID))-1])
		b.executes(r)
		b.at(r.ID, session.AwaitingBurst, step(3))
	})

	subtest(t, "S0_40_S0_41_StopEndsTheSequence", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.skips(session.SkipOptedOut, payload(r))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.KindStopped, b.story(r.ID)[len(b.story(r.ID))-1])
		b.reply(p, "are you there?")
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	subtest(t, "S0_41_StopWhileAStepIsBeingSentLetsNothingFollow", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		var once sync.Once
		b.messaging.Gate(func(*messagingv1.SendRequest) { once.Do(func() { b.reply(p, "STOP") }) })
		out, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome(), "it was claimed before the STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.quiet()
		require.Equal(t, []string{opening, explanation, first, second}, b.sequence(p))
		require.Zero(t, b.count(`select count(*) from step_alarms where step_id = $1`, string(step(3))))
	})

	subtest(t, "S0_69_StartRestoresConsentAndStopOutlivesTheEpisode", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.reply(p, "STOP")
		_, err := b.current().service.Activate(t.Context(), orgID, p.ID, nil)
		require.ErrorContains(t, err, "opted out")
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.reply(p, "START")
		require.Equal(t, session.Stopped, b.session(r.ID).Status, "START alone begins nothing again")
		again := b.activate(p)
		require.NotEqual(t, r.ID, again.ID)
		require.Equal(t, []string{opening, explanation, first, opening}, b.sequence(p))
	})

	subtest(t, "StopIsCommittedBeforeTheAnswerEvenIfTheJobWaits", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, processed_at = null where id in (select id from webhook_jobs order by id desc limit 1)`,
			b.clock.Now().Add(time.Hour)) // an older message of this person is not worked yet
		b.reply(p, "STOP")
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.skips(session.SkipOptedOut, payload(r))
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})
}
