package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

func TestUnknownSends(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		file string
		want messagingv1.UnknownPolicy
	}{
		{name: "S0_65_AbsentMessagesAreSentAgainByDefault", want: messagingv1.UnknownPolicy_UNKNOWN_POLICY_CONFIRM_ABSENT_THEN_RESEND},
		{name: "S0_65_NeverDuplicateIsAskedForEveryMessage", file: waitingFlow, want: messagingv1.UnknownPolicy_UNKNOWN_POLICY_NEVER_DUPLICATE},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			if tt.file != "" {
				b.follows(tt.file)
			}
			p, _ := b.Activated()
			b.Reply(p, "no")
			b.Reply(p, "yes")
			b.Reply(p, "yes")
			b.Quiet()
			require.Len(t, b.Messaging.Attempts(), 7)
			for _, attempt := range b.Messaging.Attempts() {
				require.Equal(t, tt.want, attempt.GetUnknownPolicy(), attempt.GetIdempotencyKey())
			}
		})
	}
}

// overLimit is longer than a direct message is waited for.
const overLimit = 31 * time.Minute

func explanationKey(r session.Record) string {
	return session.DirectKey(r.ProfileID, r.ID, session.TextExplanation, 1)
}

func TestDirectMessageThatIsNotTaken(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_65_OneThatIsInDoubtAgainAfterItWasResumedIsWaitedForAgain", setup, func(t *testing.T, b *bundle) {
		p, r := b.Asking(messagingtest.UnknownMissed)
		b.Clock.Advance(overLimit)
		b.Work()
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		require.True(t, b.Messaging.Resolve(explanationKey(r), onboardingtest.WasNotSent))
		b.Resumed(r)
		b.Work()
		require.Equal(t, session.Active, b.Session(r.ID).Status, "the attempt has only just been made")
		b.Clock.Advance(overLimit - 2*time.Minute)
		b.Work()
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Messaging.Script(nil)
		b.Messaging.Settle()
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	for _, tt := range []struct {
		name    string
		outcome messagingtest.Outcome
		reason  string
	}{
		{name: "S0_65_OneThatOurOwnAccountMayNotSendIsVisiblyStuck", outcome: messagingtest.Misconfigured, reason: "Twilio 20003: Twilio does not know our account; to do: "},
		{name: "S0_65_OneThatTwilioNeverTakesIsVisiblyStuck", outcome: messagingtest.Throttle, reason: "asked too much at once"},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.Asking(tt.outcome)
			b.Clock.Advance(overLimit - 2*time.Minute)
			b.Work()
			require.Equal(t, session.Active, b.Session(r.ID).Status)
			b.Clock.Advance(2 * time.Minute)
			b.Work()
			require.Equal(t, "stuck", b.Shown(r.ID).GetStatus())
			require.Contains(t, b.Shown(r.ID).GetReason(), tt.reason)
			require.Contains(t, b.Shown(r.ID).GetReason(), "POST /v1/sessions/"+r.ID+":resume")
			require.Zero(t, b.Count(`select count(*) from webhook_jobs where status <> 'completed'`), "nothing waits behind it")
			b.Messaging.Script(nil)
			b.Resumed(r)
			b.Quiet()
			require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		})
	}

	onboardingtest.Subtest(t, "S0_65_OneThatAnotherCallNeverEndsIsVisiblyStuck", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		body, err := catalog.Default().Render(r.CopyVersion, p.Locale, onboardingtest.Explanation, p.FirstName)
		require.NoError(t, err)
		begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		b.Messaging.Gate(func(*messagingv1.SendRequest) { close(begun); <-end })
		go func() {
			_, err := b.Messaging.Send(t.Context(), &messagingv1.SendRequest{OrgId: onboardingtest.OrgID, To: p.Phone, Body: body, IdempotencyKey: explanationKey(r)})
			ended <- err
		}()
		<-begun
		b.Reply(p, "yes")
		b.Clock.Advance(overLimit)
		b.Work()
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		require.Contains(t, b.Session(r.ID).Reason, "another call has been sending message")
		close(end)
		require.NoError(t, <-ended)
		b.Messaging.Gate(nil)
		b.Resumed(r)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "OutageOfMessagingParksNoSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.Asking(messagingtest.Unavailable)
		for range 3 {
			b.Clock.Advance(overLimit)
			b.Work()
		}
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Messaging.Script(messagingtest.First(messagingtest.Throttle)) // the job is old by now, and the message is not
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})
}
