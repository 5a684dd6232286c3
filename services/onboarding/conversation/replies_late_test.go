package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// TestReplyToAMessageThatWasTakenUnnoticed is about replies between the time Twilio took a message and the time we learnt of it.
func TestReplyToAMessageThatWasTakenUnnoticed(t *testing.T) {
	t.Parallel()

	// unlearnt is a person who has got message 4 just now, which the service does not know.
	unlearnt := func(b *bundle) (people.Profile, session.Record) {
		p, r := b.FailedAtLast(messagingtest.UnknownTaken)
		b.Clock.Advance(2 * time.Second)
		return p, r
	}
	// learns ends the burst, 5 seconds later.
	learns := func(b *bundle, r session.Record) {
		b.Clock.Advance(5 * time.Second)
		b.Messaging.Settle()
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(b.T, err)
		require.Equal(b.T, onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED, out.GetOutcome())
		b.At(r.ID, session.AwaitingInterviewStart, "")
	}

	onboardingtest.Subtest(t, "S0_67_HeldOneIsTheAnswerToTheLastMessage", setup, func(t *testing.T, b *bundle) {
		p, r := unlearnt(b)
		b.Reply(p, "yes")
		learns(b, r)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
	})

	onboardingtest.Subtest(t, "S0_67_HeldOneFromBeforeItWasAskedForIsNot", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Reply(p, "yes")
		b.Clock.Advance(time.Second)
		b.Fails(r, messagingtest.UnknownTaken)
		learns(b, r)
		b.Quiet()
		b.At(r.ID, session.AwaitingInterviewStart, "")
	})

	onboardingtest.Subtest(t, "S0_67_OneThatIsProcessedLateIsTheAnswerToo", setup, func(t *testing.T, b *bundle) {
		p, r := unlearnt(b)
		b.Unrecorded(p, "yes")
		learns(b, r)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
	})

	onboardingtest.Subtest(t, "S0_67_OneUnderAHoldIsTheAnswerToTheExplanation", setup, func(t *testing.T, b *bundle) {
		b.Mute()
		p, r := b.Asking(messagingtest.UnknownTaken)
		b.Clock.Advance(time.Second)
		b.Hold(p)
		b.Quiet()
		b.Reply(p, "go ahead")
		b.Clock.Advance(5 * time.Second)
		b.Messaging.Settle()
		b.Release(p)
		b.Until(func() bool { return b.Count(`select count(*) from webhook_jobs where status <> 'completed'`) == 0 })
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
	})

	onboardingtest.Subtest(t, "S0_36_SpacingCountsFromWhenItWasLearnt", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		b.Fails(r, messagingtest.UnknownTaken)
		b.Clock.Advance(5 * time.Second)
		b.Messaging.Settle()
		b.Executes(r)
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
			string(onboardingtest.Step(2)), b.Clock.Now().Add(8*time.Second)))
	})
}

// slowly has Twilio answer 0.9 s after it was asked, and a person do something after half of that.
func (b *bundle) slowly(do func()) {
	done := false
	b.Messaging.Gate(func(*messagingv1.SendRequest) {
		if done {
			return
		}
		done = true
		b.Clock.Advance(450 * time.Millisecond)
		do()
		b.Clock.Advance(450 * time.Millisecond)
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
		onboardingtest.Subtest(t, skew.name, setup, func(t *testing.T, b *bundle) {
			b.Skew.Store(int64(skew.by))
			p, r := b.InBurst(4)
			b.Clock.Advance(time.Second)
			b.slowly(func() { b.Reply(p, "yes") })
			b.Executes(r)
			b.Quiet()
			b.At(r.ID, session.InterviewActivity01, "")
			require.Equal(t, onboardingtest.Whole, b.Sequence(p))
		})
	}

	onboardingtest.Subtest(t, "R_09_IsTheAnswerWhenTheAnswerOfMessagingWasLostToo", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Clock.Advance(time.Second)
		b.Messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.slowly(func() { b.Reply(p, "yes") })
		_, err := b.Execute(onboardingtest.Payload(r))
		require.Error(t, err)
		b.Clock.Advance(10 * time.Second)
		b.Executes(r)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
	})

	onboardingtest.Subtest(t, "R_09_IsTheAnswerWhenItsJobIsDoneAfterTheBurst", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Clock.Advance(time.Second)
		b.slowly(func() {
			b.Unrecorded(p, "yes")
		})
		b.Executes(r)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
	})

	onboardingtest.Subtest(t, "R_09_OneFromBeforeTheAttemptThatTwilioTookAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.FailedAtLast(messagingtest.Throttle, messagingtest.AcceptLost)
		b.Clock.Advance(time.Second)
		b.Reply(p, "no") // to message 3
		b.Clock.Advance(time.Second)
		_, err := b.Execute(onboardingtest.Payload(r))
		require.Error(t, err)
		b.Executes(r)
		b.Quiet()
		require.False(t, b.At(r.ID, session.AwaitingInterviewStart, "").Paused)
	})

	onboardingtest.Subtest(t, "R_09_IsTheAnswerToAnOpeningThatIsSlow", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.slowly(func() { b.Reply(p, "yes") })
		r := b.Activate(p)
		b.Quiet()
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})
}

func TestReplyThatTwilioDatesInWholeSeconds(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_09_InTheSecondOfTheSessionsCreationIsAnAnswer", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Clock.Advance(300 * time.Millisecond)
		r := b.Activate(p)
		b.Clock.Advance(500 * time.Millisecond)
		b.Unheard(p, "yes")
		b.Clock.Advance(2 * time.Minute)
		b.Sweep()
		b.Quiet()
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "R_09_HeldInTheSecondOfTheLastMessageIsTheAnswerToIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Clock.Advance(1300 * time.Millisecond)
		b.Fails(r, messagingtest.UnknownTaken)
		b.Clock.Advance(500 * time.Millisecond)
		b.Unheard(p, "yes")
		b.Clock.Advance(2 * time.Minute)
		b.Sweep()
		b.Messaging.Settle()
		b.Executes(r)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
	})
}

// TestReplyBesideTheOpening is about a reply that reaches us while another process is still learning that the opening was taken.
func TestReplyBesideTheOpening(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "S0_33_IsAnsweredOnce", setup, func(t *testing.T, b *bundle) {
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		p, r := b.Activated()
		job := b.Job()
		b.Clock.Advance(time.Minute) // the opening is due to be asked for again
		b.Messaging.Settle()
		require.Zero(t, b.Session(r.ID).Turn)
		b.Current().Ports.WhileRecording = func() {
			service := b.Current().Service
			require.NoError(t, service.Jobs.Try(t.Context(), job, service.SendOpening))
			require.Equal(t, 1, b.Session(r.ID).Turn)
		}
		b.Reply(p, "Sure")
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})
}
