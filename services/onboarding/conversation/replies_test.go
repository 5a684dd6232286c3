package conversation_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/queue"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

func TestHeldReplyIsForItsPlace(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_67_OneWhosePlaceAnotherReplyAnsweredFirstIsOvertaken", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Hold(p)
		b.Reply(p, "yes") // to the opening
		b.Clock.Advance(time.Second)
		b.Unrecorded(p, "yes!")
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p), "the explanation is not answered yet")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, "overtaken", b.Entry(r.ID, session.KindReplied).Detail)
	})

	onboardingtest.Subtest(t, "OneThatIsHeldAgainStillCountsFromWhenItReachedUs", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Activated()
		b.Hold(p)
		b.Reply(p, "yes")
		reached := b.Clock.Now()
		for range 2 {
			b.Clock.Advance(time.Second)
			b.Release(p)
			b.Hold(p)
			b.Work()
		}
		require.Equal(t, 3, b.Count(`select count(*) from held_replies where received_at = $1`, reached))
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})
}

func TestReply(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "ReactionsQuotesAndAutomaticRepliesAnswerNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		for _, body := range []string{
			"Liked “" + onboardingtest.Opening + "”", "“Hi Ana, it's the welcome team. Ready? Reply STOP to opt out.”", "I'm driving with Focus turned on.",
		} {
			b.Reply(p, body)
			b.Quiet()
			require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p), body)
			b.At(r.ID, session.AwaitingOpeningResponse, "")
			require.Equal(t, "no_answer", b.Entry(r.ID, session.KindReplied).Detail)
		}
		b.Reply(p, "Disliked “"+onboardingtest.Opening+"”")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Later}, b.Sequence(p), "a negative one is a no")
	})

	onboardingtest.Subtest(t, "S0_33_S0_08_AffirmativeToTheOpeningSendsTheExplanationDirectly", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "Yes!")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.Count(`select count(*) from step_alarms`))
		require.Empty(t, b.QStash.Record())
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced}, b.Story(r.ID))
	})

	onboardingtest.Subtest(t, "S0_34_NegativeToTheOpeningSendsLaterAndStays", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "not now")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Later}, b.Sequence(p))
		require.True(t, b.At(r.ID, session.AwaitingOpeningResponse, "").Paused)
		b.Reply(p, "Later")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Later, onboardingtest.Later}, b.Sequence(p), "each no is answered")
		b.Reply(p, "ok then")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Later, onboardingtest.Later, onboardingtest.Explanation}, b.Sequence(p))
		require.False(t, b.At(r.ID, session.AwaitingExplanationResponse, "").Paused)
		require.Zero(t, b.Count(`select count(*) from step_alarms`))
	})

	onboardingtest.Subtest(t, "S0_35_S0_36_S0_44_AffirmativeToTheExplanationSetsOneAlarmAndSendsNothing", setup, func(t *testing.T, b *bundle) {
		b.Mute()
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.Idle()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`, string(onboardingtest.Step(1)), b.Clock.Now()))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms`))
		require.Len(t, b.QStash.Record().Of(emulator.Published), 1)
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status <> 'completed'`), "no message of the burst waits in a queue")
	})

	onboardingtest.Subtest(t, "S0_37_NegativeToTheExplanationGoesBackToTheOpening", setup, func(t *testing.T, b *bundle) {
		p, r := b.Explained()
		b.Reply(p, "nah")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.Later}, b.Sequence(p))
		require.True(t, b.At(r.ID, session.AwaitingOpeningResponse, "").Paused)
		b.Reply(p, "yes")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.Later, onboardingtest.Explanation}, b.Sequence(p), "the second explanation has a key of its own")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.Count(`select count(*) from step_alarms`))
	})

	onboardingtest.Subtest(t, "S0_42_ReplyToTheLastStepBeginsTheInterview", setup, func(t *testing.T, b *bundle) {
		p, r := b.Finished()
		b.Reply(p, "no")
		require.True(t, b.At(r.ID, session.AwaitingInterviewStart, "").Paused)
		require.Equal(t, onboardingtest.Later, b.Sequence(p)[6])
		b.Reply(p, "yes")
		done := b.At(r.ID, session.InterviewActivity01, "")
		require.Equal(t, session.Interviewing, done.Mode)
		require.False(t, done.Paused)
		b.Reply(p, "my first answer")
		require.Equal(t, done, b.Session(r.ID), "the interview is not ours")
		require.Len(t, b.Sequence(p), 7)
	})

	for _, tt := range []struct {
		name string
		body string
		want session.Token
	}{
		{name: "S0_43_ExplicitNegativePauses", body: "Não, obrigada!", want: session.AwaitingOpeningResponse},
		{name: "S0_43_NeutralMessageAdvances", body: "what is this about?", want: session.AwaitingExplanationResponse},
		{name: "S0_43_AmbiguousMessageAdvances", body: "no problem", want: session.AwaitingExplanationResponse},
		{name: "S0_43_EmptyMessageAdvances", body: "", want: session.AwaitingExplanationResponse},
		{name: "NoLogShowsWhatAPersonWrote", body: onboardingtest.SecretWords, want: session.AwaitingExplanationResponse},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.Activated()
			b.Reply(p, tt.body)
			b.At(r.ID, tt.want, "")
			require.Len(t, b.Sequence(p), 2)
		})
	}
}

func TestReplyTakesEffectOnce(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_45_RepeatedCallbackTakesEffectOnce", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		m := b.Message(p, "yes")
		require.False(t, b.Receives(m))
		moved := b.Session(r.ID)
		require.True(t, b.Receives(m))
		require.Equal(t, moved, b.Session(r.ID))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "SameSIDWithAnotherMessageIsRefused", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		m := b.Message(p, "yes")
		b.Receives(m)
		m.Body = "no"
		_, err := b.Current().Server.ReceiveMessage(t.Context(), m)
		onboardingtest.Refused(t, err, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "S0_45_TwoRepliesAtOnceAreAnsweredOneAfterTheOther", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		var calls sync.WaitGroup
		b.Mute()
		for range 2 {
			m := b.Message(p, "yes")
			calls.Go(func() { _, _ = b.Current().Server.ReceiveMessage(t.Context(), m) })
		}
		calls.Wait()
		b.Until(func() bool { return b.Count(`select count(*) from webhook_jobs where status <> 'completed'`) == 0 })
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		require.Equal(t, 2, b.Count(`select count(*) from session_transitions where kind = 'replied'`))
	})

	onboardingtest.Subtest(t, "JobThatTookEffectOnItsLastAttemptParksNoSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "yes")
		var stored queue.Job
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select id::text, org_id::text, subject, event_type, created_at from webhook_jobs where event_type = $1`,
			conversation.EventMessage).Scan(&stored.ID, &stored.OrgID, &stored.Subject, &stored.EventType, &stored.CreatedAt))
		stored.LeaseToken = onboardingtest.NewID()
		require.NoError(t, b.Current().Inbound.GiveUp(t.Context(), stored, onboardingtest.ErrMishap))
		require.Equal(t, session.Active, b.Session(r.ID).Status)
	})
}

func TestReplyWithoutAnAnswer(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_38_TokenThatIsNotRegisteredIsAnErrorAndIsParked", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Exec(`update conversation_sessions set state_token = 'onboarding:awaiting_nothing' where id = $1`, r.ID)
		b.Reply(p, "yes")
		b.Quiet()
		parked := b.Session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "unknown state token")
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status = 'failed' and attempts = 3 and error_message like '%unknown state token%'`))
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "RefusedAnswerParksTheSessionAndRecordsTheReply", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		b.Reply(p, "yes")
		require.Equal(t, session.Undeliverable, b.Session(r.ID).Status)
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindParked}, b.Story(r.ID))
	})

	onboardingtest.Subtest(t, "AnswerWithAnUnknownOutcomeIsFinishedLater", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Reply(p, "yes")
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		b.Pass(time.Minute)
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		b.Messaging.Settle()
		b.Quiet()
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		require.Zero(t, b.Count(`select sum(attempts) from webhook_jobs`), "waiting is not a failure")
	})

	onboardingtest.Subtest(t, "MessageFromBeforeTheSessionAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.SetDown(true)
		_, err := b.Current().Server.ReceiveMessage(t.Context(), b.Message(p, "hello?"))
		require.Error(t, err)
		b.Clock.Advance(time.Second)
		b.Messaging.SetDown(false)
		r := b.Activate(p)
		b.Quiet()
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_61_MessageOfAStrangerIsKeptAndAnswersNothing", setup, func(t *testing.T, b *bundle) {
		m := b.Message(b.Person(), "yes")
		m.From, m.Segments, m.Media, m.OptOutType = "+5511955555555", 3, 1, "HELP"
		b.Receives(m)
		require.Equal(t, 1, b.Messaging.Recorded())
		recorded := b.Messaging.Inbound(m.GetTwilioSid())
		require.Empty(t, recorded.GetProfileId())
		require.Equal(t, []any{int32(3), int32(1), "HELP"}, []any{recorded.GetSegments(), recorded.GetMedia(), recorded.GetOptOutType()})
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status = 'completed' and payload -> 'media' = '1'`))
		require.Zero(t, b.Count(`select count(*) from conversation_sessions`))
		require.Empty(t, b.Messaging.Attempts())
	})

	// Also: S2-38
	onboardingtest.Subtest(t, "S2_36_MessageToANumberThatIsNotOursParksNoSessionAndIsTakenUpOnceItIs", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		m := b.Message(p, "yes")
		m.To = "+14155550999"
		said := b.Clock.Now()
		_, err := b.Current().Server.ReceiveMessage(t.Context(), m)
		onboardingtest.Refused(t, err, codes.NotFound, onboardingv1.Reason_REASON_UNKNOWN_SENDER)
		b.Quiet()
		var failed string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select id::text from webhook_jobs where status = 'failed' and attempts = 1
			and error_message = 'record message: no organisation owns the number that this was sent to' and payload ->> 'body' = 'yes'`).Scan(&failed))
		require.Equal(t, session.Active, b.Session(r.ID).Status)

		b.Messaging.Own(m.GetTo())
		b.Clock.Advance(time.Hour)
		_, err = b.Store.RetryJob(t.Context(), onboardingtest.OrgID, failed, b.Clock.Now())
		require.NoError(t, err)
		b.Quiet()
		require.Equal(t, 1, b.Messaging.Recorded())
		require.Equal(t, said, b.Messaging.Inbound(m.GetTwilioSid()).GetReceivedAt().AsTime(), "from when it was said")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "S2_36_MessageOfNoPhoneNumberFailsAtOnce", setup, func(t *testing.T, b *bundle) {
		m := b.Message(b.Person(), "Your code is 123456")
		m.From = "ACMEBANK"
		_, err := b.Current().Server.ReceiveMessage(t.Context(), m)
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		b.Quiet()
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status = 'failed' and attempts = 1 and payload ->> 'from' = 'ACMEBANK'`))
	})

	onboardingtest.Subtest(t, "IncompleteCallbackIsRefused", setup, func(t *testing.T, b *bundle) {
		_, err := b.Current().Server.ReceiveMessage(t.Context(), &onboardingv1.ReceiveMessageRequest{From: "+5511900000000", To: onboardingtest.Ours})
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		require.Zero(t, b.Count(`select count(*) from webhook_jobs`))
	})
}

func TestReplyDuringTheBurst(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_39_IsHeldAndAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		before := b.Session(r.ID)
		b.Reply(p, "tell me more")
		require.Equal(t, before, b.Session(r.ID))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		require.Equal(t, session.KindHeld, b.Story(r.ID)[len(b.Story(r.ID))-1])
		require.Equal(t, 1, b.Count(`select count(*) from held_replies`))
	})

	for _, tt := range []struct {
		name        string
		first, last string
		want        session.Token
		answers     []string
	}{
		{name: "S0_67_LastOneAfterTheLastMessageIsTheAnswerToIt", first: "not now", last: "yes please", want: session.InterviewActivity01},
		{name: "S0_67_LastOneAfterTheLastMessagePauses", first: "yes please", last: "not now", want: session.AwaitingInterviewStart, answers: []string{onboardingtest.Later}},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.InBurst(4)
			b.Reply(p, "no") // before message 4: answers nothing
			b.Clock.Advance(time.Second)
			b.Fails(r, messagingtest.AcceptLost)
			b.Clock.Advance(time.Second)
			b.Reply(p, tt.first)
			b.Clock.Advance(time.Second)
			b.Reply(p, tt.last)
			b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(4))
			require.Equal(t, 3, b.Count(`select count(*) from session_transitions where kind = 'held'`))
			b.Executes(r)
			b.At(r.ID, session.AwaitingInterviewStart, "")
			b.Quiet()
			require.Equal(t, tt.answers != nil, b.At(r.ID, tt.want, "").Paused)
			require.Equal(t, slices.Concat(onboardingtest.Whole, tt.answers), b.Sequence(p))
		})
	}

	for _, tt := range []struct {
		name string
		due  int
	}{
		{name: "S0_67_OneBeforeTheLastMessageAnswersNothing", due: 4},
		{name: "S0_67_OneBeforeAnEarlierMessageAnswersNothing", due: 3},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.InBurst(tt.due)
			b.Reply(p, "yes")
			for b.Session(r.ID).NextStep != "" {
				b.Clock.Advance(time.Second)
				b.Executes(b.Session(r.ID))
			}
			b.Quiet()
			b.At(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	onboardingtest.Subtest(t, "OneHeldBeforeAnEarlierStepIsTheAnswerIfItCameAfterTheLastMessage", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Clock.Advance(time.Second)
		b.Fails(r, messagingtest.AcceptLost)
		b.Clock.Advance(time.Second)
		b.Reply(p, "not now")
		b.Exec(`update held_replies set turn = turn - 1`) // a database that lost two moves had it delivered again
		b.Executes(r)
		b.Quiet()
		require.True(t, b.At(r.ID, session.AwaitingInterviewStart, "").Paused)
		require.Equal(t, slices.Concat(onboardingtest.Whole, []string{onboardingtest.Later}), b.Sequence(p))
	})

	onboardingtest.Subtest(t, "OneHeldBeforeAnEarlierStepThatWasUsedAnswersNothingAgain", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Clock.Advance(time.Second)
		b.Fails(r, messagingtest.AcceptLost)
		b.Clock.Advance(time.Second)
		b.Reply(p, "not now")
		b.Exec(`update held_replies set turn = turn - 1`)
		b.Exec(`update webhook_jobs j set idempotency_key = 'held:' || h.job_id || ':' || h.turn + 1
			from held_replies h where j.id <> h.job_id and j.status = 'completed'
			and j.id = (select id from webhook_jobs where id <> h.job_id limit 1)`)
		b.Executes(r)
		b.Quiet()
		require.False(t, b.At(r.ID, session.AwaitingInterviewStart, "").Paused)
	})

	onboardingtest.Subtest(t, "S0_67_OneThatIsProcessedLateAnswersNothingLater", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Unrecorded(p, "no")
		b.Clock.Advance(time.Second)
		b.Executes(b.Session(r.ID))
		b.At(r.ID, session.AwaitingInterviewStart, "")
		b.Clock.Advance(time.Minute)
		b.Quiet()
		b.At(r.ID, session.AwaitingInterviewStart, "")
		require.False(t, b.Session(r.ID).Paused, "it was no answer to message 4")
		b.Reply(p, "yes")
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
	})
}
