package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// waitingFlow is the built-in flow, with a wait for the delivery of message 3 before message 4, which follows it at once.
const waitingFlow = `{"version": "test", "unknown_sends": "never_duplicate", "steps": [
	{"id": "onboarding_message_1", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
	{"id": "onboarding_message_2", "text": "ONBOARDING_MESSAGE_2", "delay_ms": 8000},
	{"id": "onboarding_message_3", "text": "ONBOARDING_MESSAGE_3", "delay_ms": 8000},
	{"id": "onboarding_message_4", "text": "ONBOARDING_MESSAGE_4", "delay_ms": 0, "after_delivery": "20s"}]}`

// follows has the service run by another flow from now on.
func (b *bundle) follows(file string) {
	b.t.Helper()
	var err error
	b.flow, err = session.ParseFlow([]byte(file))
	require.NoError(b.t, err)
	b.serve(b.start(b.healthy()))
}

// beforeLast is a person to whom message 4 is due and message 3 was sent just now, while QStash is mute.
func (b *bundle) beforeLast() (conversation.Profile, session.Record) {
	b.t.Helper()
	b.follows(waitingFlow)
	return b.inBurst(4)
}

func TestAfterDelivery(t *testing.T) {
	t.Parallel()
	all := whole

	subtest(t, "S0_62_WaitsForTheReceiptByItsAlarmAndNeverLonger", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		begin := b.clock.Now()
		b.unmute()
		b.skips(session.SkipAwaitingDelivery, payload(r))
		b.until(func() bool { return b.session(r.ID).NextStep == "" })
		require.Equal(t, 20*time.Second, b.messaging.Taken(p.Phone)[5].At.Sub(begin), "it goes on without the receipt")
		require.Equal(t, all, b.sequence(p))
		require.Equal(t, 5, b.count(`select count(*) from step_alarms where cause = 'delivery'`), "after 1, 3, 7, 15 and 20 seconds")
		require.Equal(t, 1, b.count(`select count(*) from session_transitions where kind = 'waiting' and step_id = $1`, string(step(4))))
		for _, line := range b.log.of(t, "onboarding.step_skipped") {
			require.Equal(t, []any{"onboarding_message_4", "awaiting_delivery"}, []any{line["step_id"], line["reason"]})
		}
		require.Len(t, b.log.of(t, "onboarding.step_skipped"), 5)
	})

	for _, status := range []string{"delivered", "undelivered", "failed"} {
		subtest(t, "S0_62_GoesOnOnceItIs_"+status, setup, func(t *testing.T, b *bundle) {
			p, r := b.beforeLast()
			b.unmute()
			for _, early := range []string{"accepted", "queued", "sent"} {
				b.messaging.Report(stepKey(r, 3), early)
				b.skips(session.SkipAwaitingDelivery, payload(r))
			}
			b.pass(2 * time.Second)
			require.Len(t, b.sequence(p), 5)
			b.messaging.Report(stepKey(r, 3), status)
			b.pass(time.Second)
			require.Equal(t, all, b.sequence(p))
			require.Equal(t, 3*time.Second, b.clock.Now().Sub(b.messaging.Taken(p.Phone)[4].At))
		})
	}

	subtest(t, "SpacingStillCountsFromTheAcceptance", setup, func(t *testing.T, b *bundle) {
		b.follows(`{"version": "test", "steps": [
			{"id": "onboarding_message_1", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
			{"id": "onboarding_message_2", "text": "ONBOARDING_MESSAGE_2", "delay_ms": 8000, "after_delivery": "20s"},
			{"id": "onboarding_message_3", "text": "ONBOARDING_MESSAGE_3", "delay_ms": 8000}]}`)
		p, r := b.explained()
		b.reply(p, "yes")
		b.idle()
		b.messaging.Report(stepKey(r, 1), "delivered")
		b.quiet()
		taken := b.messaging.Taken(p.Phone)
		require.Equal(t, 8*time.Second, taken[3].At.Sub(taken[2].At), "the delay is kept although the receipt came early")
		require.Equal(t, 8*time.Second, taken[4].At.Sub(taken[3].At))
		require.Zero(t, b.count(`select count(*) from step_alarms where cause <> 'due'`))
	})

	subtest(t, "ManyAtOnceSetOneAlarm", setup, func(t *testing.T, b *bundle) {
		_, r := b.beforeLast()
		require.NoError(t, atOnce(8, func() error {
			_, err := b.execute(payload(r))
			return err
		}))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where cause = 'delivery'`))
		require.Equal(t, 1, b.count(`select count(*) from session_transitions where kind = 'waiting'`))
	})

	subtest(t, "AnAlarmThatIsLostIsSetAgainBySweeper", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		b.skips(session.SkipAwaitingDelivery, payload(r)) // QStash is mute
		b.clock.Advance(grace + time.Second)
		b.unmute()
		b.quiet()
		require.Equal(t, all, b.sequence(p))
	})

	subtest(t, "UnreachableMessagingComesBack", setup, func(t *testing.T, b *bundle) {
		_, r := b.beforeLast()
		b.messaging.SetDown(true)
		_, err := b.execute(payload(r))
		refuses(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.Zero(t, b.count(`select count(*) from step_alarms where cause = 'delivery'`))
	})

	subtest(t, "S0_65_MessageThatTheFlowDidNotHaveThenIsNotWaitedFor", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(4)
		b.flow, _ = session.ParseFlow([]byte(`{"version": "other", "steps": [
			{"id": "another", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
			{"id": "onboarding_message_4", "text": "ONBOARDING_MESSAGE_4", "delay_ms": 0, "after_delivery": "20s"}]}`))
		b.serve(b.start(b.healthy()))
		b.executes(r)
		require.Equal(t, all, b.sequence(p))
	})

	subtest(t, "StopWhileItWaitsLetsNothingFollow", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		b.unmute()
		b.skips(session.SkipAwaitingDelivery, payload(r))
		b.reply(p, "STOP")
		b.quiet()
		require.Equal(t, all[:5], b.sequence(p))
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})
}
