package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

// TestMessagingOfTheReleaseBefore reads no preferences: to it, and so to us, such a message means the same as before. The other way round
// is TestContract of messaging: a caller of the release before sees none of the new answers.
func TestMessagingOfTheReleaseBefore(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "WordsAboutRemindersAreAnOrdinaryMessage", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		quiet := b.Known()
		b.Messaging.SetOlder(true)
		b.Clock.Advance(time.Second)
		b.Reply(p, "parar lembretes")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		m := b.Message(quiet, "stop reminders")
		require.False(t, b.Receives(m))
		b.Messaging.SetOlder(false)
		require.True(t, b.Receives(m), "a repeat that a replica of this release answers is answered the same")
		b.Quiet()
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status <> 'completed'`))
		require.False(t, b.In(quiet, rules.Active).RemindersOff)
		require.False(t, b.Messaging.RemindersOff(quiet.Phone))
		b.Clock.Advance(time.Second)
		b.Reply(quiet, "stop reminders")
		require.True(t, b.In(quiet, rules.Active).RemindersOff)
	})

	onboardingtest.Subtest(t, "AmbiguousWordsAboutRemindersWaitForAnOperator", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.SetOlder(true)
		b.Reply(p, "stop sending me reminders")
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		require.Contains(t, b.Session(r.ID).Reason, "may want no more texts")
		b.Resumed(r) // the older messaging holds no person for such words
	})

	onboardingtest.Subtest(t, "SwitchOnTheWebIsAskedForAgain", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Messaging.SetOlder(true)
		onboardingtest.Refused(t, b.Switches(rpc.RoleUser, p, "off"), codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.False(t, b.Engaged(p).RemindersOff)
		b.Messaging.SetOlder(false)
		require.NoError(t, b.Switches(rpc.RoleUser, p, "off"))
		require.True(t, b.Messaging.RemindersOff(p.Phone))
	})
}
