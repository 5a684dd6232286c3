package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
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
	b.T.Helper()
	var err error
	b.Flow, err = session.ParseFlow([]byte(file))
	require.NoError(b.T, err)
	b.Serve(b.Start(b.Healthy()))
}

// beforeLast is a person to whom message 4 is due and message 3 was sent just now, while QStash is mute.
func (b *bundle) beforeLast() (people.Profile, session.Record) {
	b.T.Helper()
	b.follows(waitingFlow)
	return b.InBurst(4)
}

func TestAfterDelivery(t *testing.T) {
	t.Parallel()
	all := onboardingtest.Whole

	onboardingtest.Subtest(t, "S0_62_WaitsForTheReceiptByItsAlarmAndNeverLonger", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		begin := b.Clock.Now()
		b.Unmute()
		b.Skips(session.SkipAwaitingDelivery, onboardingtest.Payload(r))
		b.Until(func() bool { return b.Session(r.ID).NextStep == "" })
		require.Equal(t, 20*time.Second, b.Messaging.Taken(p.Phone)[5].At.Sub(begin), "it goes on without the receipt")
		require.Equal(t, all, b.Sequence(p))
		require.Equal(t, 5, b.Count(`select count(*) from step_alarms where cause = 'delivery'`), "after 1, 3, 7, 15 and 20 seconds")
		require.Equal(t, 1, b.Count(`select count(*) from session_transitions where kind = 'waiting' and step_id = $1`, string(onboardingtest.Step(4))))
		for _, line := range b.Log.Of(t, "onboarding.step_skipped") {
			require.Equal(t, []any{"onboarding_message_4", "awaiting_delivery"}, []any{line["step_id"], line["reason"]})
		}
		require.Len(t, b.Log.Of(t, "onboarding.step_skipped"), 5)
	})

	for _, status := range []string{"delivered", "undelivered", "failed"} {
		onboardingtest.Subtest(t, "S0_62_GoesOnOnceItIs_"+status, setup, func(t *testing.T, b *bundle) {
			p, r := b.beforeLast()
			b.Unmute()
			for _, early := range []string{"accepted", "queued", "sent"} {
				b.Messaging.Report(onboardingtest.StepKey(r, 3), early)
				b.Skips(session.SkipAwaitingDelivery, onboardingtest.Payload(r))
			}
			b.Pass(2 * time.Second)
			require.Len(t, b.Sequence(p), 5)
			b.Messaging.Report(onboardingtest.StepKey(r, 3), status)
			b.Pass(time.Second)
			require.Equal(t, all, b.Sequence(p))
			require.Equal(t, 3*time.Second, b.Clock.Now().Sub(b.Messaging.Taken(p.Phone)[4].At))
		})
	}

	onboardingtest.Subtest(t, "SpacingStillCountsFromTheAcceptance", setup, func(t *testing.T, b *bundle) {
		b.follows(`{"version": "test", "steps": [
			{"id": "onboarding_message_1", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
			{"id": "onboarding_message_2", "text": "ONBOARDING_MESSAGE_2", "delay_ms": 8000, "after_delivery": "20s"},
			{"id": "onboarding_message_3", "text": "ONBOARDING_MESSAGE_3", "delay_ms": 8000}]}`)
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.Idle()
		b.Messaging.Report(onboardingtest.StepKey(r, 1), "delivered")
		b.Quiet()
		taken := b.Messaging.Taken(p.Phone)
		require.Equal(t, 8*time.Second, taken[3].At.Sub(taken[2].At), "the delay is kept although the receipt came early")
		require.Equal(t, 8*time.Second, taken[4].At.Sub(taken[3].At))
		require.Zero(t, b.Count(`select count(*) from step_alarms where cause <> 'due'`))
	})

	onboardingtest.Subtest(t, "ManyAtOnceSetOneAlarm", setup, func(t *testing.T, b *bundle) {
		_, r := b.beforeLast()
		require.NoError(t, onboardingtest.AtOnce(8, func() error {
			_, err := b.Execute(onboardingtest.Payload(r))
			return err
		}))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where cause = 'delivery'`))
		require.Equal(t, 1, b.Count(`select count(*) from session_transitions where kind = 'waiting'`))
	})

	onboardingtest.Subtest(t, "AnAlarmThatIsLostIsSetAgainBySweeper", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		b.Skips(session.SkipAwaitingDelivery, onboardingtest.Payload(r)) // QStash is mute
		b.Clock.Advance(onboardingtest.Grace + time.Second)
		b.Unmute()
		b.Quiet()
		require.Equal(t, all, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "UnreachableMessagingComesBack", setup, func(t *testing.T, b *bundle) {
		_, r := b.beforeLast()
		b.Messaging.SetDown(true)
		_, err := b.Execute(onboardingtest.Payload(r))
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.Zero(t, b.Count(`select count(*) from step_alarms where cause = 'delivery'`))
	})

	onboardingtest.Subtest(t, "S0_65_MessageThatTheFlowDidNotHaveThenIsNotWaitedFor", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Flow, _ = session.ParseFlow([]byte(`{"version": "other", "steps": [
			{"id": "another", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
			{"id": "onboarding_message_4", "text": "ONBOARDING_MESSAGE_4", "delay_ms": 0, "after_delivery": "20s"}]}`))
		b.Serve(b.Start(b.Healthy()))
		b.Executes(r)
		require.Equal(t, all, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "StopWhileItWaitsLetsNothingFollow", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		b.Unmute()
		b.Skips(session.SkipAwaitingDelivery, onboardingtest.Payload(r))
		b.Reply(p, "STOP")
		b.Quiet()
		require.Equal(t, all[:5], b.Sequence(p))
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})
}
