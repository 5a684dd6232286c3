package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
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
	all := []string{opening, explanation, first, second, third, fourth}

	t.Run("S0_62_WaitsForTheReceiptByItsAlarmAndNeverLonger", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.beforeLast()
		begin := b.clock.Now()
		b.qstash.SetFaults(emulator.Script{})
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
		t.Run("S0_62_GoesOnOnceItIs_"+status, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, r := b.beforeLast()
			b.qstash.SetFaults(emulator.Script{})
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

	t.Run("SpacingStillCountsFromTheAcceptance", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
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

	t.Run("ManyAtOnceSetOneAlarm", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, r := b.beforeLast()
		answers := make(chan error, 8)
		for range cap(answers) {
			go func() {
				_, err := b.execute(payload(r))
				answers <- err
			}()
		}
		for range cap(answers) {
			require.NoError(t, <-answers)
		}
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where cause = 'delivery'`))
		require.Equal(t, 1, b.count(`select count(*) from session_transitions where kind = 'waiting'`))
	})

	t.Run("AnAlarmThatIsLostIsSetAgainBySweeper", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.beforeLast()
		b.skips(session.SkipAwaitingDelivery, payload(r)) // QStash is mute
		b.clock.Advance(grace + time.Second)
		b.qstash.SetFaults(emulator.Script{})
		b.quiet()
		require.Equal(t, all, b.sequence(p))
	})

	t.Run("UnreachableMessagingComesBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, r := b.beforeLast()
		b.messaging.SetDown(true)
		_, err := b.execute(payload(r))
		refuses(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.Zero(t, b.count(`select count(*) from step_alarms where cause = 'delivery'`))
	})

	t.Run("S0_65_MessageThatTheFlowDidNotHaveThenIsNotWaitedFor", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.flow, _ = session.ParseFlow([]byte(`{"version": "other", "steps": [
			{"id": "another", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
			{"id": "onboarding_message_4", "text": "ONBOARDING_MESSAGE_4", "delay_ms": 0, "after_delivery": "20s"}]}`))
		b.serve(b.start(b.healthy()))
		_, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, all, b.sequence(p))
	})

	t.Run("StopWhileItWaitsLetsNothingFollow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.beforeLast()
		b.qstash.SetFaults(emulator.Script{})
		b.skips(session.SkipAwaitingDelivery, payload(r))
		b.reply(p, "STOP")
		b.quiet()
		require.Equal(t, all[:5], b.sequence(p))
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})
}

func TestUnknownSends(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		file string
		want messagingv1.UnknownPolicy
	}{
		{name: "S0_65_AbsentTextsAreSentAgainByDefault", want: messagingv1.UnknownPolicy_UNKNOWN_POLICY_CONFIRM_ABSENT_THEN_RESEND},
		{name: "S0_65_NeverDuplicateIsAskedForEveryText", file: waitingFlow, want: messagingv1.UnknownPolicy_UNKNOWN_POLICY_NEVER_DUPLICATE},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if tt.file != "" {
				b.follows(tt.file)
			}
			p := b.person()
			b.activate(p)
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

func TestSweeperCounts(t *testing.T) {
	t.Parallel()

	t.Run("OnlyAlarmsThatBroughtNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		for range 2 * generations { // each hold is lifted with an alarm of its own
			b.hold(p)
			b.clock.Advance(10 * time.Second)
			b.release(p)
			b.pass(time.Second)
		}
		require.Equal(t, 2*generations+1, b.count(`select max(generation) from step_alarms where step_id = $1`, string(step(2))))
		begin := b.clock.Now()
		b.until(func() bool { return b.session(r.ID).Status == session.Stuck })
		took := b.clock.Now().Sub(begin)
		require.GreaterOrEqual(t, took, 7*grace-10*time.Second, "three alarms in a row, each given twice as long")
		require.Less(t, took, 8*grace)

		b.resumed(b.session(r.ID)) // and a resume begins the count again
		begin = b.clock.Now()
		b.until(func() bool { return b.session(r.ID).Status == session.Stuck })
		require.GreaterOrEqual(t, b.clock.Now().Sub(begin), 7*grace)
		require.Equal(t, generations-1, b.count(`select count(*) from step_alarms where step_id = $1 and cause = 'overdue'
			and generation > (select max(generation) from step_alarms where cause = 'resumed')`, string(step(2))))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	t.Run("NoLookForAReceipt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.beforeLast()
		b.qstash.SetFaults(emulator.Script{})
		b.messaging.Script(messagingtest.First(messagingtest.Throttle))
		b.skips(session.SkipAwaitingDelivery, payload(r))
		b.quiet()
		require.Equal(t, []string{opening, explanation, first, second, third, fourth}, b.sequence(p))
		require.Zero(t, b.count(`select count(*) from step_alarms where cause = 'overdue'`))
		require.Greater(t, b.count(`select max(generation) from step_alarms where step_id = $1`, string(step(4))), generations)
	})
}
