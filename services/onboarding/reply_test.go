package onboarding_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/queue"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

func TestReply(t *testing.T) {
	t.Parallel()

	t.Run("S0_33_S0_08_AffirmativeToTheOpeningSendsTheExplanationDirectly", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.reply(p, "Yes!")
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.count(`select count(*) from step_alarms`))
		require.Empty(t, b.qstash.Record())
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced}, b.story(r.ID))
	})

	t.Run("S0_34_NegativeToTheOpeningSendsLaterAndStays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.reply(p, "not now")
		require.Equal(t, []string{opening, later}, b.sequence(p))
		require.True(t, b.at(r.ID, session.AwaitingOpeningResponse, "").Paused)
		b.reply(p, "Later")
		require.Equal(t, []string{opening, later, later}, b.sequence(p), "each no is answered")
		b.reply(p, "ok then")
		require.Equal(t, []string{opening, later, later, explanation}, b.sequence(p))
		require.False(t, b.at(r.ID, session.AwaitingExplanationResponse, "").Paused)
		require.Zero(t, b.count(`select count(*) from step_alarms`))
	})

	t.Run("S0_35_S0_36_S0_44_AffirmativeToTheExplanationSetsOneAlarmAndSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.mute()
		p, r := b.explained()
		b.reply(p, "yes")
		b.idle()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingBurst, step(1))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`, string(step(1)), b.clock.Now()))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms`))
		require.Len(t, b.qstash.Record().Of(emulator.Published), 1)
		require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`), "no text of the burst waits in a queue")
	})

	t.Run("ExplanationOfWhichNothingIsEverLearntIsVisiblyStuck", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownForever))
		b.reply(p, "yes")
		b.pass(35 * time.Minute)
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		require.Equal(t, []string{opening, explanation}, b.sequence(p), "it was taken, which nobody knows")
		require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`))
	})

	t.Run("S0_37_NegativeToTheExplanationGoesBackToTheOpening", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.explained()
		b.reply(p, "nah")
		require.Equal(t, []string{opening, explanation, later}, b.sequence(p))
		require.True(t, b.at(r.ID, session.AwaitingOpeningResponse, "").Paused)
		b.reply(p, "yes")
		require.Equal(t, []string{opening, explanation, later, explanation}, b.sequence(p), "the second explanation has a key of its own")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.count(`select count(*) from step_alarms`))
	})

	t.Run("S0_42_ReplyToTheLastStepBeginsTheInterview", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.finished()
		b.reply(p, "no")
		require.True(t, b.at(r.ID, session.AwaitingInterviewStart, "").Paused)
		require.Equal(t, later, b.sequence(p)[6])
		b.reply(p, "yes")
		done := b.at(r.ID, session.InterviewActivity01, "")
		require.Equal(t, session.Interviewing, done.Mode)
		require.False(t, done.Paused)
		b.reply(p, "my first answer")
		require.Equal(t, done, b.session(r.ID), "the interview is not ours")
		require.Len(t, b.sequence(p), 7)
	})

	for _, tt := range []struct {
		name string
		body string
		want session.Token
	}{
		{name: "S0_43_ExplicitNegativePauses", body: "Não, obrigada!", want: session.AwaitingOpeningResponse},
		{name: "S0_43_NeutralTextAdvances", body: "what is this about?", want: session.AwaitingExplanationResponse},
		{name: "S0_43_AmbiguousTextAdvances", body: "no problem", want: session.AwaitingExplanationResponse},
		{name: "S0_43_EmptyTextAdvances", body: "", want: session.AwaitingExplanationResponse},
		{name: "NoLogShowsWhatAPersonWrote", body: secretWords, want: session.AwaitingExplanationResponse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.person()
			r := b.activate(p)
			b.reply(p, tt.body)
			b.at(r.ID, tt.want, "")
			require.Len(t, b.sequence(p), 2)
		})
	}

	t.Run("S0_38_TokenThatIsNotRegisteredIsAnErrorAndIsParked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.exec(`update conversation_sessions set state_token = 'onboarding:awaiting_nothing' where id = $1`, r.ID)
		b.reply(p, "yes")
		b.quiet()
		parked := b.session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "unknown state token")
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'failed' and attempts = 3 and error_message like '%unknown state token%'`))
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	t.Run("S0_45_RepeatedCallbackTakesEffectOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		m := b.message(p, "yes")
		out, err := b.current().server.ReceiveMessage(t.Context(), m)
		require.NoError(t, err)
		require.False(t, out.GetDuplicate())
		moved := b.session(r.ID)
		out, err = b.current().server.ReceiveMessage(t.Context(), m)
		require.NoError(t, err)
		require.True(t, out.GetDuplicate())
		require.Equal(t, moved, b.session(r.ID))
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	t.Run("S0_45_ConcurrentCallbacksHaveOneWinner", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		m := b.message(p, "yes")
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() { _, _ = b.current().server.ReceiveMessage(t.Context(), m) })
		}
		calls.Wait()
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, 1, b.messaging.Recorded())
	})

	t.Run("SameSIDWithAnotherTextIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		m := b.message(p, "yes")
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		require.NoError(t, err)
		m.Body = "no"
		_, err = b.current().server.ReceiveMessage(t.Context(), m)
		refuses(t, err, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	t.Run("TwoRepliesAtOnceAreAnsweredOneAfterTheOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		var calls sync.WaitGroup
		b.mute()
		for range 2 {
			m := b.message(p, "yes")
			calls.Go(func() { _, _ = b.current().server.ReceiveMessage(t.Context(), m) })
		}
		calls.Wait()
		b.until(func() bool { return b.count(`select count(*) from webhook_jobs where status <> 'completed'`) == 0 })
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingBurst, step(1))
	})

	t.Run("RefusedAnswerParksTheSessionAndTellsTheReply", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		b.reply(p, "yes")
		require.Equal(t, session.Undeliverable, b.session(r.ID).Status)
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindParked}, b.story(r.ID))
	})

	t.Run("AnswerWithAnUnknownOutcomeIsFinishedLater", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.reply(p, "yes")
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		b.pass(time.Minute)
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		b.messaging.Settle()
		b.quiet()
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		require.Zero(t, b.count(`select sum(attempts) from webhook_jobs`), "waiting is not a failure")
	})

	t.Run("TextFromBeforeTheSessionAnswersNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.messaging.SetDown(true)
		_, err := b.current().server.ReceiveMessage(t.Context(), b.message(p, "hello?"))
		require.Error(t, err)
		b.clock.Advance(time.Second)
		b.messaging.SetDown(false)
		r := b.activate(p)
		b.quiet()
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	t.Run("TextOfAStrangerIsKeptAndAnswersNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.message(b.person(), "yes")
		m.From = "+5511955555555"
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, 1, b.messaging.Recorded())
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'completed'`))
	})

	t.Run("TextToANumberThatIsNotOursParksNobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		m := b.message(p, "yes")
		m.To = "+14155550999"
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		refuses(t, err, codes.NotFound, onboardingv1.Reason_REASON_UNKNOWN_SENDER)
		b.quiet()
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'failed' and attempts = 1`))
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	t.Run("IncompleteCallbackIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.current().server.ReceiveMessage(t.Context(), &onboardingv1.ReceiveMessageRequest{From: "+5511900000000", To: ours})
		refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		require.Zero(t, b.count(`select count(*) from webhook_jobs`))
	})

	t.Run("JobThatTookEffectOnItsLastAttemptParksNobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.reply(p, "yes")
		var stored queue.Job
		require.NoError(t, b.pool.QueryRow(t.Context(), `select id::text, org_id::text, subject, event_type, created_at from webhook_jobs where event_type = $1`,
			conversation.EventMessage).Scan(&stored.ID, &stored.OrgID, &stored.Subject, &stored.EventType, &stored.CreatedAt))
		stored.LeaseToken = newID()
		require.NoError(t, b.current().service.GiveUp(t.Context(), stored, errMishap))
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})
}

func TestReplyDuringTheBurst(t *testing.T) {
	t.Parallel()

	t.Run("S0_39_IsHeldAndAnswersNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		before := b.session(r.ID)
		b.reply(p, "tell me more")
		require.Equal(t, before, b.session(r.ID))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.KindHeld, b.story(r.ID)[len(b.story(r.ID))-1])
		require.Equal(t, 1, b.count(`select count(*) from held_replies`))
	})

	t.Run("S0_67_LastOneAfterTheLastTextIsTheAnswerToIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.reply(p, "no") // before message 4: answers nothing
		b.clock.Advance(time.Second)
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.clock.Advance(time.Second)
		b.reply(p, "not now")
		b.clock.Advance(time.Second)
		b.reply(p, "yes please")
		b.at(r.ID, session.AwaitingBurst, step(4))
		_, err = b.execute(payload(r))
		require.NoError(t, err)
		b.at(r.ID, session.AwaitingInterviewStart, "")
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
		require.Equal(t, []string{opening, explanation, first, second, third, fourth}, b.sequence(p))
	})

	for _, tt := range []struct {
		name string
		due  int
	}{
		{name: "S0_67_OneBeforeTheLastTextAnswersNothing", due: 4},
		{name: "S0_67_OneBeforeAnEarlierTextAnswersNothing", due: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, r := b.inBurst(tt.due)
			b.reply(p, "yes")
			for b.session(r.ID).NextStep != "" {
				b.clock.Advance(time.Second)
				_, err := b.execute(payload(b.session(r.ID)))
				require.NoError(t, err)
			}
			b.quiet()
			b.at(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	t.Run("S0_67_OneThatIsProcessedLateAnswersNothingLater", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.messaging.SetDown(true) // so that the reply cannot be recorded, and stays a job
		_, err := b.current().server.ReceiveMessage(t.Context(), b.message(p, "no"))
		require.Error(t, err)
		b.messaging.SetDown(false)
		b.clock.Advance(time.Second)
		_, err = b.execute(payload(b.session(r.ID)))
		require.NoError(t, err)
		b.at(r.ID, session.AwaitingInterviewStart, "")
		b.clock.Advance(time.Minute)
		b.quiet()
		b.at(r.ID, session.AwaitingInterviewStart, "")
		require.False(t, b.session(r.ID).Paused, "it was no answer to message 4")
		b.reply(p, "yes")
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})
	t.Run("S0_40_HelpPassesTheHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		b.reply(p, "HELP")
		require.Zero(t, b.count(`select count(*) from held_replies`))
		require.Equal(t, session.KindReplied, b.story(r.ID)[len(b.story(r.ID))-1])
		_, err := b.execute(payload(r))
		require.NoError(t, err)
		b.at(r.ID, session.AwaitingBurst, step(3))
	})

	t.Run("S0_40_S0_41_StopEndsTheSequence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.skips(session.SkipOptedOut, payload(r))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.KindStopped, b.story(r.ID)[len(b.story(r.ID))-1])
		b.reply(p, "are you there?")
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	t.Run("S0_41_StopWhileAStepIsBeingSentLetsNothingFollow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
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

	t.Run("S0_69_StartRestoresConsentAndStopOutlivesTheEpisode", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
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

	t.Run("StopIsCommittedBeforeTheAnswerEvenIfTheJobWaits", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		b.exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, processed_at = null where id in (select id from webhook_jobs order by id desc limit 1)`,
			b.clock.Now().Add(time.Hour)) // an older text of this person is not through yet
		b.reply(p, "STOP")
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.skips(session.SkipOptedOut, payload(r))
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})
}
