package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/session"
)

// TestMessagingOfTheReleaseBefore reads no preferences: to it, and so to us, such a message is what it was before. The other way round
// is TestRemindersContract of messaging: a caller of the release before sees none of the new answers.
func TestMessagingOfTheReleaseBefore(t *testing.T) {
	t.Parallel()

	subtest(t, "WordsAboutRemindersAreAnOrdinaryMessage", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		quiet := b.known()
		b.messaging.SetOlder(true)
		b.clock.Advance(time.Second)
		b.reply(p, "parar lembretes")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		m := b.message(quiet, "stop reminders")
		require.False(t, b.receives(m))
		b.messaging.SetOlder(false)
		require.True(t, b.receives(m), "a repeat that a replica of this release answers is answered the same")
		b.quiet()
		require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`))
		require.False(t, b.in(quiet, rules.Active).RemindersOff)
		require.False(t, b.messaging.RemindersOff(quiet.Phone))
		b.clock.Advance(time.Second)
		b.reply(quiet, "stop reminders")
		require.True(t, b.in(quiet, rules.Active).RemindersOff)
	})

	subtest(t, "AmbiguousWordsAboutRemindersWaitForAnOperator", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.SetOlder(true)
		b.reply(p, "stop sending me reminders")
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		require.Contains(t, b.session(r.ID).Reason, "may want no more texts")
		b.resumed(r) // the older messaging holds no person for such words
	})

	subtest(t, "SwitchOnTheWebIsAskedForAgain", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.messaging.SetOlder(true)
		refusedFor(t, b.switches(rpc.RoleUser, p, "off"), codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.False(t, b.engaged(p).RemindersOff)
		b.messaging.SetOlder(false)
		require.NoError(t, b.switches(rpc.RoleUser, p, "off"))
		require.True(t, b.messaging.RemindersOff(p.Phone))
	})
}
