package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// overLimit is longer than a direct text is waited for.
const overLimit = 31 * time.Minute

// asking is a person who has answered the opening, while every attempt at the explanation meets an outcome.
func (b *bundle) asking(outcome messagingtest.Outcome) (conversation.Profile, session.Record) {
	b.t.Helper()
	p := b.person()
	r := b.activate(p)
	b.messaging.Script(func(int, *sendRequest) messagingtest.Outcome { return outcome })
	b.reply(p, "yes")
	return p, b.at(r.ID, session.AwaitingOpeningResponse, "")
}

func explanationKey(r session.Record) string {
	return session.DirectKey(r.ProfileID, r.ID, session.TextExplanation, 1)
}

func TestPatienceWithADirectText(t *testing.T) {
	t.Parallel()

	t.Run("S0_65_OneThatIsInDoubtAgainAfterItWasResumedIsWaitedForAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.asking(messagingtest.UnknownMissed)
		b.clock.Advance(overLimit)
		b.work()
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		require.True(t, b.messaging.Resolve(explanationKey(r), wasNotSent))
		b.resumed(r)
		b.work()
		require.Equal(t, session.Active, b.session(r.ID).Status, "the attempt has only just been made")
		b.clock.Advance(overLimit - 2*time.Minute)
		b.work()
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.messaging.Script(nil)
		b.messaging.Settle()
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	for _, tt := range []struct {
		name    string
		outcome messagingtest.Outcome
		told    string
	}{
		{name: "S0_65_OneThatOurOwnAccountMayNotSendIsVisiblyStuck", outcome: messagingtest.Misconfigured, told: "Twilio 20003: Twilio does not know our account; to do: "},
		{name: "S0_65_OneThatTwilioNeverTakesIsVisiblyStuck", outcome: messagingtest.Throttle, told: "asked too much at once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, r := b.asking(tt.outcome)
			b.clock.Advance(overLimit - 2*time.Minute)
			b.work()
			require.Equal(t, session.Active, b.session(r.ID).Status)
			b.clock.Advance(2 * time.Minute)
			b.work()
			require.Equal(t, "stuck", b.shown(r.ID).GetStatus())
			require.Contains(t, b.shown(r.ID).GetReason(), tt.told)
			require.Contains(t, b.shown(r.ID).GetReason(), "POST /v1/sessions/"+r.ID+":resume")
			require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`), "nothing waits behind it")
			b.messaging.Script(nil)
			b.resumed(r)
			b.quiet()
			require.Equal(t, []string{opening, explanation}, b.sequence(p))
		})
	}

	t.Run("S0_65_OneThatAnotherCallNeverEndsIsVisiblyStuck", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		body, err := catalog.Default().Render(r.CopyVersion, p.Locale, explanation, p.FirstName)
		require.NoError(t, err)
		begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		b.messaging.Gate(func(*messagingv1.SendRequest) { close(begun); <-end })
		go func() {
			_, err := b.messaging.Send(t.Context(), &sendRequest{OrgId: orgID, To: p.Phone, Body: body, IdempotencyKey: explanationKey(r)})
			ended <- err
		}()
		<-begun
		b.reply(p, "yes")
		b.clock.Advance(overLimit)
		b.work()
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		require.Contains(t, b.session(r.ID).Reason, "another call has been sending message")
		close(end)
		require.NoError(t, <-ended)
		b.messaging.Gate(nil)
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	t.Run("OutageOfMessagingParksNobodyHoweverLong", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.asking(messagingtest.Unavailable)
		for range 3 {
			b.clock.Advance(overLimit)
			b.work()
		}
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.messaging.Script(messagingtest.First(messagingtest.Throttle)) // the job is old by now, and the text is not
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})
}

func TestHeldReplyIsForItsPlace(t *testing.T) {
	t.Parallel()

	t.Run("S0_67_OneWhosePlaceAnotherReplyAnsweredFirstIsOvertaken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.hold(p)
		b.reply(p, "yes") // to the opening
		b.clock.Advance(time.Second)
		b.messaging.SetDown(true) // so that the next one cannot be recorded, and stays a job
		_, err := b.current().server.ReceiveMessage(t.Context(), b.message(p, "yes!"))
		require.Error(t, err)
		b.messaging.SetDown(false)
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p), "nobody has answered the explanation yet")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, "overtaken", b.entry(r.ID, session.KindReplied).Detail)
	})

	t.Run("OneThatIsHeldAgainStillCountsFromWhenItReachedUs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.activate(p)
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

// TestReplyToATextThatWasLearntLate is about replies between the taking of a text and the time at which we learnt of it.
func TestReplyToATextThatWasLearntLate(t *testing.T) {
	t.Parallel()

	// unlearnt is a person who has got message 4 just now, which nobody knows.
	unlearnt := func(b *bundle) (conversation.Profile, session.Record) {
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		_, err := b.execute(payload(r))
		require.Error(b.t, err)
		b.clock.Advance(2 * time.Second)
		return p, r
	}
	// learns ends the burst, 5 seconds later.
	learns := func(b *bundle, r session.Record) {
		b.clock.Advance(5 * time.Second)
		b.messaging.Settle()
		out, err := b.execute(payload(r))
		require.NoError(b.t, err)
		require.Equal(b.t, onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED, out.GetOutcome())
		b.at(r.ID, session.AwaitingInterviewStart, "")
	}

	t.Run("S0_67_HeldOneIsTheAnswerToTheLastText", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := unlearnt(b)
		b.reply(p, "yes")
		learns(b, r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	t.Run("S0_67_HeldOneFromBeforeItWasAskedForIsNot", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.reply(p, "yes")
		b.clock.Advance(time.Second)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		_, err := b.execute(payload(r))
		require.Error(t, err)
		learns(b, r)
		b.quiet()
		b.at(r.ID, session.AwaitingInterviewStart, "")
	})

	t.Run("S0_67_OneThatIsProcessedLateIsTheAnswerToo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := unlearnt(b)
		b.messaging.SetDown(true)
		_, err := b.current().server.ReceiveMessage(t.Context(), b.message(p, "yes"))
		require.Error(t, err)
		b.messaging.SetDown(false)
		learns(b, r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	t.Run("S0_67_OneUnderAHoldIsTheAnswerToTheExplanation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.mute()
		p, r := b.asking(messagingtest.UnknownTaken)
		b.clock.Advance(time.Second)
		b.hold(p)
		b.quiet()
		b.reply(p, "go ahead")
		b.clock.Advance(5 * time.Second)
		b.messaging.Settle()
		b.release(p)
		b.until(func() bool { return b.count(`select count(*) from webhook_jobs where status <> 'completed'`) == 0 })
		b.at(r.ID, session.AwaitingBurst, step(1))
	})

	t.Run("S0_36_SpacingCountsFromWhenItWasLearnt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, r := b.inBurst(1)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.clock.Advance(5 * time.Second)
		b.messaging.Settle()
		_, err = b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
			string(step(2)), b.clock.Now().Add(8*time.Second)))
	})
}
