package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
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
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			if tt.file != "" {
				b.follows(tt.file)
			}
			p, _ := b.activated()
			b.reply(p, "no")
			b.reply(p, "yes")
			b.reply(p, "yes")
			b.quiet()
			require.Len(t, b.messaging.Attempts(), 7)
			for _, attempt := range b.messaging.Attempts() {
				require.Equal(t, tt.want, attempt.GetUnknownPolicy(), attempt.GetIdempotencyKey())
			}
		})
	}
}

// overLimit is longer than a direct message is waited for.
const overLimit = 31 * time.Minute

// asking is a person who has answered the opening, while every attempt at the explanation meets an outcome.
func (b *bundle) asking(outcome messagingtest.Outcome) (conversation.Profile, session.Record) {
	b.t.Helper()
	p, r := b.activated()
	b.messaging.Script(func(int, *sendRequest) messagingtest.Outcome { return outcome })
	b.reply(p, "yes")
	return p, b.at(r.ID, session.AwaitingOpeningResponse, "")
}

func explanationKey(r session.Record) string {
	return session.DirectKey(r.ProfileID, r.ID, session.TextExplanation, 1)
}

func TestDirectMessageThatIsNotTaken(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_65_OneThatIsInDoubtAgainAfterItWasResumedIsWaitedForAgain", setup, func(t *testing.T, b *bundle) {
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
		reason  string
	}{
		{name: "S0_65_OneThatOurOwnAccountMayNotSendIsVisiblyStuck", outcome: messagingtest.Misconfigured, reason: "Twilio 20003: Twilio does not know our account; to do: "},
		{name: "S0_65_OneThatTwilioNeverTakesIsVisiblyStuck", outcome: messagingtest.Throttle, reason: "asked too much at once"},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.asking(tt.outcome)
			b.clock.Advance(overLimit - 2*time.Minute)
			b.work()
			require.Equal(t, session.Active, b.session(r.ID).Status)
			b.clock.Advance(2 * time.Minute)
			b.work()
			require.Equal(t, "stuck", b.shown(r.ID).GetStatus())
			require.Contains(t, b.shown(r.ID).GetReason(), tt.reason)
			require.Contains(t, b.shown(r.ID).GetReason(), "POST /v1/sessions/"+r.ID+":resume")
			require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`), "nothing waits behind it")
			b.messaging.Script(nil)
			b.resumed(r)
			b.quiet()
			require.Equal(t, []string{opening, explanation}, b.sequence(p))
		})
	}

	subtest(t, "S0_65_OneThatAnotherCallNeverEndsIsVisiblyStuck", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
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

	subtest(t, "OutageOfMessagingParksNoSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.asking(messagingtest.Unavailable)
		for range 3 {
			b.clock.Advance(overLimit)
			b.work()
		}
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.messaging.Script(messagingtest.First(messagingtest.Throttle)) // the job is old by now, and the message is not
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})
}
