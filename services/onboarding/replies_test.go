package onboarding_test

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
	"paceline.internal/services/onboarding/session"
)

func TestHeldReplyIsForItsPlace(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_67_OneWhosePlaceAnotherReplyAnsweredFirstIsOvertaken", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.hold(p)
		b.reply(p, "yes") // to the opening
		b.clock.Advance(time.Second)
		b.unrecorded(p, "yes!")
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p), "the explanation is not answered yet")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, "overtaken", b.entry(r.ID, session.KindReplied).Detail)
	})

	subtest(t, "OneThatIsHeldAgainStillCountsFromWhenItReachedUs", setup, func(t *testing.T, b *bundle) {
		p, _ := b.activated()
		b.hold(p)
		b.reply(p, "yes")
		reached := b.clock.Now()
		for range 2 {
			b.clock.Advance(time.Second)
			b.release(p)
			b.hold(p)
			b.work()
		}
		require.Equal(t, 3, b.count(`select count(*) from held_replies where received_at = $1`, reached))
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})
}

func TestReply(t *testing.T) {
	t.Parallel()

	subtest(t, "ReactionsQuotesAndAutomaticRepliesAnswerNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		for _, body := range []string{
			"Liked “" + opening + "”", "“Hi Ana, it's the welcome team. Ready? Reply STOP to opt out.”", "I'm driving with Focus turned on.",
		} {
			b.reply(p, body)
			b.quiet()
			require.Equal(t, []string{opening}, b.sequence(p), body)
			b.at(r.ID, session.AwaitingOpeningResponse, "")
			require.Equal(t, "no_answer", b.entry(r.ID, session.KindReplied).Detail)
		}
		b.reply(p, "Disliked “"+opening+"”")
		require.Equal(t, []string{opening, later}, b.sequence(p), "a negative one is a no")
	})

	subtest(t, "S0_33_S0_08_AffirmativeToTheOpeningSendsTheExplanationDirectly", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "Yes!")
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.count(`select count(*) from step_alarms`))
		require.Empty(t, b.qstash.Record())
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced}, b.story(r.ID))
	})

	subtest(t, "S0_34_NegativeToTheOpeningSendsLaterAndStays", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
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

	subtest(t, "S0_35_S0_36_S0_44_AffirmativeToTheExplanationSetsOneAlarmAndSendsNothing", setup, func(t *testing.T, b *bundle) {
		b.mute()
		p, r := b.explained()
		b.reply(p, "yes")
		b.idle()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingBurst, step(1))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`, string(step(1)), b.clock.Now()))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms`))
		require.Len(t, b.qstash.Record().Of(emulator.Published), 1)
		require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`), "no message of the burst waits in a queue")
	})

	subtest(t, "S0_37_NegativeToTheExplanationGoesBackToTheOpening", setup, func(t *testing.T, b *bundle) {
		p, r := b.explained()
		b.reply(p, "nah")
		require.Equal(t, []string{opening, explanation, later}, b.sequence(p))
		require.True(t, b.at(r.ID, session.AwaitingOpeningResponse, "").Paused)
		b.reply(p, "yes")
		require.Equal(t, []string{opening, explanation, later, explanation}, b.sequence(p), "the second explanation has a key of its own")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.count(`select count(*) from step_alarms`))
	})

	subtest(t, "S0_42_ReplyToTheLastStepBeginsTheInterview", setup, func(t *testing.T, b *bundle) {
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
		{name: "S0_43_NeutralMessageAdvances", body: "what is this about?", want: session.AwaitingExplanationResponse},
		{name: "S0_43_AmbiguousMessageAdvances", body: "no problem", want: session.AwaitingExplanationResponse},
		{name: "S0_43_EmptyMessageAdvances", body: "", want: session.AwaitingExplanationResponse},
		{name: "NoLogShowsWhatAPersonWrote", body: secretWords, want: session.AwaitingExplanationResponse},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.activated()
			b.reply(p, tt.body)
			b.at(r.ID, tt.want, "")
			require.Len(t, b.sequence(p), 2)
		})
	}
}

func TestReplyTakesEffectOnce(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_45_RepeatedCallbackTakesEffectOnce", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		m := b.message(p, "yes")
		require.False(t, b.receives(m))
		moved := b.session(r.ID)
		require.True(t, b.receives(m))
		require.Equal(t, moved, b.session(r.ID))
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	subtest(t, "SameSIDWithAnotherMessageIsRefused", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		m := b.message(p, "yes")
		b.receives(m)
		m.Body = "no"
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		refuses(t, err, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "S0_45_TwoRepliesAtOnceAreAnsweredOneAfterTheOther", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
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
		require.Equal(t, 2, b.count(`select count(*) from session_transitions where kind = 'replied'`))
	})

	subtest(t, "JobThatTookEffectOnItsLastAttemptParksNoSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "yes")
		var stored queue.Job
		require.NoError(t, b.pool.QueryRow(t.Context(), `select id::text, org_id::text, subject, event_type, created_at from webhook_jobs where event_type = $1`,
			conversation.EventMessage).Scan(&stored.ID, &stored.OrgID, &stored.Subject, &stored.EventType, &stored.CreatedAt))
		stored.LeaseToken = newID()
		require.NoError(t, b.current().service.GiveUp(t.Context(), stored, errMishap))
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})
}

func TestReplyWithoutAnAnswer(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_38_TokenThatIsNotRegisteredIsAnErrorAndIsParked", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.exec(`update conversation_sessions set state_token = 'onboarding:awaiting_nothing' where id = $1`, r.ID)
		b.reply(p, "yes")
		b.quiet()
		parked := b.session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "unknown state token")
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'failed' and attempts = 3 and error_message like '%unknown state token%'`))
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "RefusedAnswerParksTheSessionAndRecordsTheReply", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		b.reply(p, "yes")
		require.Equal(t, session.Undeliverable, b.session(r.ID).Status)
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindParked}, b.story(r.ID))
	})

	subtest(t, "AnswerWithAnUnknownOutcomeIsFinishedLater", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
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

	subtest(t, "MessageFromBeforeTheSessionAnswersNothing", setup, func(t *testing.T, b *bundle) {
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

	subtest(t, "S0_61_MessageOfAStrangerIsKeptAndAnswersNothing", setup, func(t *testing.T, b *bundle) {
		m := b.message(b.person(), "yes")
		m.From, m.Segments, m.Media, m.OptOutType = "+5511955555555", 3, 1, "HELP"
		b.receives(m)
		require.Equal(t, 1, b.messaging.Recorded())
		recorded := b.messaging.Inbound(m.GetTwilioSid())
		require.Empty(t, recorded.GetProfileId())
		require.Equal(t, []any{int32(3), int32(1), "HELP"}, []any{recorded.GetSegments(), recorded.GetMedia(), recorded.GetOptOutType()})
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'completed' and payload -> 'media' = '1'`))
		require.Zero(t, b.count(`select count(*) from conversation_sessions`))
		require.Empty(t, b.messaging.Attempts())
	})

	// Also: S2-38
	subtest(t, "S2_36_MessageToANumberThatIsNotOursParksNoSessionAndIsTakenUpOnceItIs", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		m := b.message(p, "yes")
		m.To = "+14155550999"
		said := b.clock.Now()
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		refuses(t, err, codes.NotFound, onboardingv1.Reason_REASON_UNKNOWN_SENDER)
		b.quiet()
		var failed string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select id::text from webhook_jobs where status = 'failed' and attempts = 1
			and error_message = 'record message: no organisation owns the number that this was sent to' and payload ->> 'body' = 'yes'`).Scan(&failed))
		require.Equal(t, session.Active, b.session(r.ID).Status)

		b.messaging.Own(m.GetTo())
		b.clock.Advance(time.Hour)
		_, err = b.store.RetryJob(t.Context(), orgID, failed, b.clock.Now())
		require.NoError(t, err)
		b.quiet()
		require.Equal(t, 1, b.messaging.Recorded())
		require.Equal(t, said, b.messaging.Inbound(m.GetTwilioSid()).GetReceivedAt().AsTime(), "from when it was said")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "S2_36_MessageOfNoPhoneNumberFailsAtOnce", setup, func(t *testing.T, b *bundle) {
		m := b.message(b.person(), "Your code is 123456")
		m.From = "ACMEBANK"
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		b.quiet()
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'failed' and attempts = 1 and payload ->> 'from' = 'ACMEBANK'`))
	})

	subtest(t, "IncompleteCallbackIsRefused", setup, func(t *testing.T, b *bundle) {
		_, err := b.current().server.ReceiveMessage(t.Context(), &onboardingv1.ReceiveMessageRequest{From: "+5511900000000", To: ours})
		refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		require.Zero(t, b.count(`select count(*) from webhook_jobs`))
	})
}

func TestReplyDuringTheBurst(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_39_IsHeldAndAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		before := b.session(r.ID)
		b.reply(p, "tell me more")
		require.Equal(t, before, b.session(r.ID))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.KindHeld, b.story(r.ID)[len(b.story(r.ID))-1])
		require.Equal(t, 1, b.count(`select count(*) from held_replies`))
	})

	for _, tt := range []struct {
		name        string
		first, last string
		want        session.Token
		answers     []string
	}{
		{name: "S0_67_LastOneAfterTheLastMessageIsTheAnswerToIt", first: "not now", last: "yes please", want: session.InterviewActivity01},
		{name: "S0_67_LastOneAfterTheLastMessagePauses", first: "yes please", last: "not now", want: session.AwaitingInterviewStart, answers: []string{later}},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.inBurst(4)
			b.reply(p, "no") // before message 4: answers nothing
			b.clock.Advance(time.Second)
			b.fails(r, messagingtest.AcceptLost)
			b.clock.Advance(time.Second)
			b.reply(p, tt.first)
			b.clock.Advance(time.Second)
			b.reply(p, tt.last)
			b.at(r.ID, session.AwaitingBurst, step(4))
			require.Equal(t, 3, b.count(`select count(*) from session_transitions where kind = 'held'`))
			b.executes(r)
			b.at(r.ID, session.AwaitingInterviewStart, "")
			b.quiet()
			require.Equal(t, tt.answers != nil, b.at(r.ID, tt.want, "").Paused)
			require.Equal(t, slices.Concat(whole, tt.answers), b.sequence(p))
		})
	}

	for _, tt := range []struct {
		name string
		due  int
	}{
		{name: "S0_67_OneBeforeTheLastMessageAnswersNothing", due: 4},
		{name: "S0_67_OneBeforeAnEarlierMessageAnswersNothing", due: 3},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.inBurst(tt.due)
			b.reply(p, "yes")
			for b.session(r.ID).NextStep != "" {
				b.clock.Advance(time.Second)
				b.executes(b.session(r.ID))
			}
			b.quiet()
			b.at(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	subtest(t, "S0_67_OneThatIsProcessedLateAnswersNothingLater", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(4)
		b.unrecorded(p, "no")
		b.clock.Advance(time.Second)
		b.executes(b.session(r.ID))
		b.at(r.ID, session.AwaitingInterviewStart, "")
		b.clock.Advance(time.Minute)
		b.quiet()
		b.at(r.ID, session.AwaitingInterviewStart, "")
		require.False(t, b.session(r.ID).Paused, "it was no answer to message 4")
		b.reply(p, "yes")
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})
}
