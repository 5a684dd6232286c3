package inbound_test

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
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// TestAmbiguousWords: whether "leave me alone" is an opt-out is for an operator to say, and nothing is sent before they have.
func TestAmbiguousWords(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_40_BurstWaitsForAnOperatorAndGoesOnWhenTheyResumeIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		said := len(b.Sequence(p))
		b.Reply(p, "leave me alone")
		parked := b.Session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "may want no more texts")
		require.Contains(t, parked.Reason, "/v1/sessions/"+r.ID+":resume")
		require.NotContains(t, parked.Reason, p.Phone)
		require.NotContains(t, parked.Reason, "leave me")
		require.Equal(t, parked.Reason, b.Entry(r.ID, session.KindParked).Detail)
		require.NotEmpty(t, b.Entry(r.ID, session.KindParked).MessageID)
		require.Equal(t, "may be an opt-out", b.Entry(r.ID, session.KindReplied).Detail)
		b.Executes(r)
		require.Len(t, b.Sequence(p), said, "nothing is sent")

		b.Reply(p, "leave me alone") // which changes nothing more
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		b.Resumed(r)
		b.Work()
		require.Equal(t, session.Active, b.Session(r.ID).Status, "the operator has judged the words")
		b.Executes(b.Session(r.ID))
		require.Len(t, b.Sequence(p), said+1)
	})

	onboardingtest.Subtest(t, "TextBeforeThemInTheSameCallbackDoesNotKeepThemFromAnOperator", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.leave(p, "sure")
		b.leave(p, "leave me alone")
		b.Pass(time.Minute)
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		require.Contains(t, b.Session(r.ID).Reason, "read GET /v1/messages/"+b.Entry(r.ID, session.KindReplied).MessageID)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		b.Resumed(r)
		b.Pass(time.Minute)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p), "the other one was an answer")
	})

	onboardingtest.Subtest(t, "NeitherDoesAnOpening", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.SetFull(true)
		r := b.Activate(p)
		b.leave(p, "leave me alone")
		b.Messaging.SetFull(false)
		b.Pass(5 * time.Minute)
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		require.Empty(t, b.Sequence(p))
	})

	// Messaging asks them whether the texts are to stop; that is TestQuestionOfAHold there.
	onboardingtest.Subtest(t, "YesGoesOnWithTheBurst", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Reply(p, "leave me alone")
		b.Unmute()
		b.Reply(p, "yes")
		require.Equal(t, session.TriggerReply, b.Entry(r.ID, session.KindResumed).Trigger)
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "YesAtAGateIsItsAnswer", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "leave me alone")
		b.Reply(p, "yes")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		b.Reply(p, "ok")
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "YesAtAQuestionIsNotItsAnswer", setup, func(t *testing.T, b *bundle) {
		p, r := b.Visited()
		b.Reply(p, "sure")
		b.Pass(time.Second)
		b.Reply(p, "leave me alone")
		b.Reply(p, "yes")
		b.Pass(time.Second)
		const hello, ask = "Hi Ana, may we come by?", "Which day suits you, Monday or Tuesday?"
		require.Equal(t, []string{hello, ask, ask}, b.Said(p), "it is asked again, not called unclear")
		require.Equal(t, session.Token("visit:day"), b.Session(r.ID).Token)
		b.Reply(p, "Monday")
		b.Pass(time.Second)
		require.NotEqual(t, session.Token("visit:day"), b.Session(r.ID).Token)
	})

	// Messaging holds the person from the words on; that is TestWordsThatMayBeAnOptOut there.
	onboardingtest.Subtest(t, "ResumingTheSessionJudgesThemAndEndsTheirHold", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "leave me alone")
		service := b.Current().Service
		_, err := b.Current().Persons.Release(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.True(t, b.Messaging.Held(p.Phone), "a release of the profile is no judgement while the session waits for one")
		b.Messaging.SetDown(true)
		_, err = service.Resume(t.Context(), onboardingtest.OrgID, r.ID)
		require.ErrorIs(t, err, people.ErrUnavailable)
		require.Equal(t, session.Stuck, b.Session(r.ID).Status, "asked again, it is resumed")
		b.Messaging.SetDown(false)
		b.Resumed(r)
		require.False(t, b.Messaging.Held(p.Phone))
	})

	onboardingtest.Subtest(t, "NothingJudgesThemForWhoLeavesThemUnjudged", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "leave me alone")
		bulk := &onboardingv1.ResumeSessionsRequest{ReasonContains: "read", LeaveUnjudged: true}
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ResumeSessions, bulk)
		require.NoError(t, err)
		require.Zero(t, out.GetMatched())
		_, left, err := b.Current().Service.ResumeAll(t.Context(), onboardingtest.OrgID, []string{r.ID}, true)
		require.NoError(t, err)
		require.ErrorIs(t, left[0].Cause, people.ErrAwaitsOperator, "also when it was parked for them after the list was made")
		release := func() error {
			_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ReleaseProfile, &onboardingv1.ReleaseProfileRequest{ProfileId: p.ID, LeaveUnjudged: true})
			return err
		}
		onboardingtest.Refused(t, release(), codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		b.Resets(r)
		onboardingtest.Refused(t, release(), codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		require.True(t, b.Messaging.Held(p.Phone))
		_, err = b.Current().Persons.Release(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.NoError(t, release(), "they are judged")
	})

	onboardingtest.Subtest(t, "ResettingTheSessionJudgesNothingAndTheProfileIsReleased", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "leave me alone")
		b.Resets(r)
		_, err := b.Activates(p, nil)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		require.ErrorContains(t, err, ":release")
		_, err = b.Current().Persons.Release(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		b.Activate(p)
	})
}

// TestAmbiguousWordsWithoutASession: where no session can wait for an operator, a job asks them, once.
func TestAmbiguousWordsWithoutASession(t *testing.T) {
	t.Parallel()
	// asked is the one job that asks an operator.
	asked := func(b *bundle) (failure string) {
		b.T.Helper()
		require.NoError(b.T, b.Pool.QueryRow(b.T.Context(), `select error_message from webhook_jobs where status = 'failed' and attempts = 1`).Scan(&failure))
		require.Contains(b.T, failure, "needs an operator: the person may want no more texts; read GET /v1/messages/")
		return failure
	}

	onboardingtest.Subtest(t, "AStrangerIsOneQuestion", setup, func(t *testing.T, b *bundle) {
		stranger := people.Profile{Phone: "+5511987651234"}
		for range 4 {
			b.Reply(stranger, "leave me alone")
		}
		b.Quiet()
		require.NotContains(t, asked(b), stranger.Phone)
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
		require.Equal(t, 3, b.Count(`select count(*) from webhook_jobs where status = 'completed'`))
		require.Empty(t, b.Messaging.Attempts())
		require.True(t, b.Messaging.Held(stranger.Phone))
		var job string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select id from webhook_jobs where status = 'failed'`).Scan(&job))
		require.NoError(t, b.Cancels(job))
		require.False(t, b.Messaging.Held(stranger.Phone), "cancelling it judges the words")
	})

	for _, word := range []string{"yes", "STOP"} {
		onboardingtest.Subtest(t, "TheirAnswerLeavesNothingToAsk_"+word, setup, func(t *testing.T, b *bundle) {
			stranger := people.Profile{Phone: "+5511987651234"}
			b.Reply(stranger, "leave me alone")
			b.Quiet()
			asked(b)
			b.Reply(stranger, word)
			b.Quiet()
			require.Zero(t, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
			require.False(t, b.Messaging.Held(stranger.Phone))
		})
	}

	onboardingtest.Subtest(t, "SoIsAPersonWhoseSessionHasEnded", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Resets(r)
		b.Reply(p, "leave me alone")
		b.Quiet()
		asked(b)
		require.Equal(t, "may be an opt-out", b.Entry(r.ID, session.KindReplied).Detail)
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
	})
}

// leave stores a message of a person as a job that no process works yet, with its words about consent applied, and returns its id.
func (b *bundle) leave(p people.Profile, body string) string {
	b.T.Helper()
	in := b.Message(p, body)
	m := inbound.Message{SID: in.GetTwilioSid(), From: in.GetFrom(), To: in.GetTo(), Body: in.GetBody(), Segments: 1}
	payload, err := json.Marshal(m)
	require.NoError(b.T, err)
	job := conversation.NewJob(onboardingtest.OrgID, conversation.SourceTwilio, conversation.EventMessage, m.SID, m.From, payload, b.Clock.Now())
	job.DueAt = job.At.Add(3 * time.Second)
	kept, err := b.Store.Enqueue(b.T.Context(), job)
	require.NoError(b.T, err)
	_, err = b.Carrier.Record(b.T.Context(), m, conversation.View{Session: session.Record{ProfileID: p.ID}}, b.Clock.Now())
	require.NoError(b.T, err)
	b.Clock.Advance(time.Second)
	return kept.ID
}

// TestConsentThatIsWorkedLate: a word or a failure is about the session that there was when it came.
func TestConsentThatIsWorkedLate(t *testing.T) {
	t.Parallel()

	// again closes a session and opens the next one; its opening waits its turn behind what the person wrote.
	again := func(b *bundle, p people.Profile, r session.Record) session.Record {
		b.T.Helper()
		b.Resets(r)
		b.Clock.Advance(time.Second)
		opened := b.Activate(p)
		require.NotEqual(b.T, r.ID, opened.ID)
		b.Clock.Advance(10 * time.Second)
		return opened
	}

	onboardingtest.Subtest(t, "R_05_AnOldSTOPDoesNotEndANewSessionOfAPersonWhoHasOptedInSince", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.leave(p, "STOP")
		b.leave(p, "START")
		opened := again(b, p, r)
		b.Quiet()
		require.Equal(t, session.Active, b.Session(opened.ID).Status)
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "R_05_AnOldSTOPThatSTARTHasUndoneStillEndsTheSessionThatThereWas", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.leave(p, "STOP")
		b.leave(p, "START")
		b.Clock.Advance(10 * time.Second)
		b.Quiet()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "R_05_ASTOPInForceStopsAlsoASessionThatWasOpenedAfterIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.leave(p, "STOP")
		b.Messaging.SetOlder(true) // which does not say at an activation that the person has opted out
		opened := again(b, p, r)
		b.Messaging.SetOlder(false)
		b.Quiet()
		require.Equal(t, session.Stopped, b.Session(opened.ID).Status)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "R_05_OldWordsThatMayBeAnOptOutParkNoNewSessionAndAreLeftToAnOperator", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.SetOlder(true) // which holds no person for such words: otherwise the activation would be refused
		job := b.leave(p, "leave me alone")
		opened := again(b, p, r)
		b.Messaging.SetOlder(false)
		b.Quiet()
		require.Equal(t, session.Active, b.Session(opened.ID).Status)
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where id = $1 and status = 'failed' and error_message like 'needs an operator%'`, job))
	})

	onboardingtest.Subtest(t, "R_05_AFailingJobParksNoSessionThatWasOpenedAfterIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		job := b.leave(p, "Sure")
		opened := again(b, p, r)
		now := b.Clock.Now()
		claimed, err := b.Store.Jobs().Claim(t.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, claimed.Jobs, 1)
		require.Equal(t, job, claimed.Jobs[0].ID)
		require.NoError(t, b.Current().Inbound.GiveUp(t.Context(), claimed.Jobs[0], onboardingtest.ErrMishap))
		require.Equal(t, session.Active, b.Session(opened.ID).Status)
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
	})
}

// TestConsentBesideAnActivation is about a session that is opened while a message is being recorded.
func TestConsentBesideAnActivation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Person()
	first := b.Activate(p)
	_, err := b.Current().Service.Reset(t.Context(), onboardingtest.OrgID, first.ID)
	require.NoError(t, err)
	b.Clock.Advance(time.Second)
	var opened session.Record
	b.Current().Ports.WhileRecording = func() { opened = b.Activate(p) }
	b.Reply(p, "STOP")
	require.NotEqual(t, first.ID, opened.ID)
	require.Equal(t, session.Stopped, b.Session(opened.ID).Status, "the session that was open when the STOP counted")
}

func TestConsentDuringTheBurst(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_40_HelpPassesTheHold", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Reply(p, "HELP")
		require.Zero(t, b.Count(`select count(*) from held_replies`))
		require.Equal(t, session.KindReplied, b.Story(r.ID)[len(b.Story(r.ID))-1])
		b.Executes(r)
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(3))
	})

	onboardingtest.Subtest(t, "S0_40_S0_41_StopEndsTheSequence", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Skips(session.SkipOptedOut, onboardingtest.Payload(r))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		require.Equal(t, session.KindStopped, b.Story(r.ID)[len(b.Story(r.ID))-1])
		b.Reply(p, "are you there?")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_41_StopWhileAStepIsBeingSentLetsNothingFollow", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		var once sync.Once
		b.Messaging.Gate(func(*messagingv1.SendRequest) { once.Do(func() { b.Reply(p, "STOP") }) })
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome(), "it was claimed before the STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First, onboardingtest.Second}, b.Sequence(p))
		require.Zero(t, b.Count(`select count(*) from step_alarms where step_id = $1`, string(onboardingtest.Step(3))))
	})

	onboardingtest.Subtest(t, "S0_69_StartRestoresConsentAndStopOutlivesTheEpisode", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Reply(p, "STOP")
		_, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
		require.ErrorContains(t, err, "opted out")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		b.Reply(p, "START")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status, "START alone begins nothing again")
		again := b.Activate(p)
		require.NotEqual(t, r.ID, again.ID)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First, onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "StopIsCommittedBeforeTheAnswerEvenIfTheJobWaits", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, processed_at = null where id in (select id from webhook_jobs order by id desc limit 1)`,
			b.Clock.Now().Add(time.Hour)) // an older message of this person is not worked yet
		b.Reply(p, "STOP")
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Skips(session.SkipOptedOut, onboardingtest.Payload(r))
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
	})
}
