package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// TestReplyToAMessageThatWasTakenUnnoticed is about replies between the time Twilio took a message and the time we learnt of it.
func TestReplyToAMessageThatWasTakenUnnoticed(t *testing.T) {
	t.Parallel()

	// unlearnt is a person who has got message 4 just now, which the service does not know.
	unlearnt := func(b *bundle) (conversation.Profile, session.Record) {
		p, r := b.failedAtLast(messagingtest.UnknownTaken)
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

	subtest(t, "S0_67_HeldOneIsTheAnswerToTheLastMessage", setup, func(t *testing.T, b *bundle) {
		p, r := unlearnt(b)
		b.reply(p, "yes")
		learns(b, r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	subtest(t, "S0_67_HeldOneFromBeforeItWasAskedForIsNot", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(4)
		b.reply(p, "yes")
		b.clock.Advance(time.Second)
		b.fails(r, messagingtest.UnknownTaken)
		learns(b, r)
		b.quiet()
		b.at(r.ID, session.AwaitingInterviewStart, "")
	})

	subtest(t, "S0_67_OneThatIsProcessedLateIsTheAnswerToo", setup, func(t *testing.T, b *bundle) {
		p, r := unlearnt(b)
		b.unrecorded(p, "yes")
		learns(b, r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	subtest(t, "S0_67_OneUnderAHoldIsTheAnswerToTheExplanation", setup, func(t *testing.T, b *bundle) {
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

	subtest(t, "S0_36_SpacingCountsFromWhenItWasLearnt", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		b.fails(r, messagingtest.UnknownTaken)
		b.clock.Advance(5 * time.Second)
		b.messaging.Settle()
		b.executes(r)
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
			string(step(2)), b.clock.Now().Add(8*time.Second)))
	})
}

// slowly has Twilio answer 0.9 s after it was asked, and a person do something after half of that.
func (b *bundle) slowly(do func()) {
	done := false
	b.messaging.Gate(func(*messagingv1.SendRequest) {
		if done {
			return
		}
		done = true
		b.clock.Advance(450 * time.Millisecond)
		do()
		b.clock.Advance(450 * time.Millisecond)
	})
}

func TestReplyWhileTwilioIsSlow(t *testing.T) {
	t.Parallel()

	for _, skew := range []struct {
		name string
		by   time.Duration
	}{
		{name: "R_09_IsTheAnswerToTheLastMessage"},
		{name: "R_09_IsTheAnswerToTheLastMessageWhenMessagingsClockIsAhead", by: 3 * time.Second},
		{name: "R_09_IsTheAnswerToTheLastMessageWhenMessagingsClockIsBehind", by: -3 * time.Second},
	} {
		subtest(t, skew.name, setup, func(t *testing.T, b *bundle) {
			b.skew.Store(int64(skew.by))
			p, r := b.inBurst(4)
			b.clock.Advance(time.Second)
			b.slowly(func() { b.reply(p, "yes") })
			b.executes(r)
			b.quiet()
			b.at(r.ID, session.InterviewActivity01, "")
			require.Equal(t, whole, b.sequence(p))
		})
	}

	subtest(t, "R_09_IsTheAnswerWhenTheAnswerOfMessagingWasLostToo", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.slowly(func() { b.reply(p, "yes") })
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.clock.Advance(10 * time.Second)
		b.executes(r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	subtest(t, "R_09_IsTheAnswerWhenItsJobIsDoneAfterTheBurst", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.slowly(func() {
			b.unrecorded(p, "yes")
		})
		b.executes(r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	subtest(t, "R_09_OneFromBeforeTheAttemptThatTwilioTookAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.failedAtLast(messagingtest.Throttle, messagingtest.AcceptLost)
		b.clock.Advance(time.Second)
		b.reply(p, "no") // to message 3
		b.clock.Advance(time.Second)
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.executes(r)
		b.quiet()
		require.False(t, b.at(r.ID, session.AwaitingInterviewStart, "").Paused)
	})

	subtest(t, "R_09_IsTheAnswerToAnOpeningThatIsSlow", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.slowly(func() { b.reply(p, "yes") })
		r := b.activate(p)
		b.quiet()
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})
}

func TestReplyThatTwilioDatesInWholeSeconds(t *testing.T) {
	t.Parallel()

	subtest(t, "R_09_InTheSecondOfTheSessionsCreationIsAnAnswer", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.clock.Advance(300 * time.Millisecond)
		r := b.activate(p)
		b.clock.Advance(500 * time.Millisecond)
		b.unheard(p, "yes")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		b.quiet()
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "R_09_HeldInTheSecondOfTheLastMessageIsTheAnswerToIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(4)
		b.clock.Advance(1300 * time.Millisecond)
		b.fails(r, messagingtest.UnknownTaken)
		b.clock.Advance(500 * time.Millisecond)
		b.unheard(p, "yes")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		b.messaging.Settle()
		b.executes(r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})
}

// TestReplyBesideTheOpening is about a reply that reaches us while another process is still learning that the opening was taken.
func TestReplyBesideTheOpening(t *testing.T) {
	t.Parallel()
	subtest(t, "S0_33_IsAnsweredOnce", setup, func(t *testing.T, b *bundle) {
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		p, r := b.activated()
		job := b.job()
		b.clock.Advance(time.Minute) // the opening is due to be asked for again
		b.messaging.Settle()
		require.Zero(t, b.session(r.ID).Turn)
		b.current().ports.whileRecording = func() {
			service := b.current().service
			require.NoError(t, service.Jobs.Try(t.Context(), job, service.Handlers()[conversation.EventOpening]))
			require.Equal(t, 1, b.session(r.ID).Turn)
		}
		b.reply(p, "Sure")
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})
}
