package alarmclock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/outbox"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

const sqlOpenAlarms = `select count(*) from step_alarms where published_at is null`

func TestTimer(t *testing.T) {
	t.Parallel()
	type bundle = onboardingtest.Bundle

	onboardingtest.Subtest(t, "PacesTheBurst", setup, func(t *testing.T, b *bundle) {
		countRings(b)
		ports := b.Healthy()
		b.Serve(b.Start(ports))
		p, _ := b.Explained()
		b.Reply(p, "ok")
		b.Completes(p)
		b.KeepsPace(p)
		require.Empty(t, b.QStash.Record().Of(emulator.Published))
		require.Zero(t, b.Count(sqlRung), "nothing went through alarm_jobs")
		require.Zero(t, b.Count(`select count(*) from step_alarms`), "each was deleted by the move of its step")
		for _, call := range []string{"Publish", "AlarmPublished", "AlarmReleased"} {
			require.NotContains(t, ports.Calls, call)
		}
	})

	onboardingtest.Subtest(t, "OfAProcessThatDies", setup, func(t *testing.T, b *bundle) {
		countRings(b)
		p, _ := b.Explained()
		b.Reply(p, "ok")
		b.Pass(time.Second)
		b.Serve(b.Start(b.Healthy())) // what the process before had in its memory is lost
		b.Pass(8 * time.Second)
		require.Equal(t, 1, b.Count(sqlOpenAlarms), "it is under the lease of the process that died")
		b.Completes(p)
		b.KeepsPace(p)
		require.Equal(t, 1, b.Count(sqlRung))
	})

	onboardingtest.Subtest(t, "OfAProcessThatStops", setup, func(t *testing.T, b *bundle) {
		countRings(b)
		p, _ := b.Explained()
		b.Reply(p, "ok")
		b.Pass(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		stopped := b.Current().Timer
		loop := stopped.Loop(func(ctx context.Context, _ time.Duration, _ <-chan struct{}) bool { return ctx.Err() == nil })
		require.NoError(t, loop.Run(ctx))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where lease_token is null and lease_until <= $1`, b.Clock.Now()))
		require.False(t, stopped.Set(session.Alarm{ID: "x", DueAt: b.Clock.Now(), LeaseUntil: b.Clock.Now().Add(time.Minute)}))
		b.Serve(b.Start(b.Healthy()))
		before := b.Clock.Now()
		b.Until(func() bool { return len(b.Sequence(p)) == 4 })
		require.Less(t, b.Clock.Now().Sub(before), 8*time.Second, "another process rings it in time")
		b.Completes(p)
		require.Equal(t, 1, b.Count(sqlRung))
	})

	onboardingtest.Subtest(t, "OfAProcessThatStoodStill", setup, func(t *testing.T, b *bundle) {
		countRings(b)
		p, _ := b.Explained()
		b.Reply(p, "ok")
		b.Pass(time.Second)
		frozen := b.Current()
		b.Serve(b.Start(b.Healthy()))
		b.Clock.Advance(8*time.Second + outbox.PublishLease)
		frozen.Timer.Drain(t.Context())
		require.Len(t, b.Sequence(p), 3, "its lease is over, and the relay has it")
		b.Work()
		b.Work()
		require.Len(t, b.Sequence(p), 4)
		require.Equal(t, 1, b.Count(sqlRung))
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "DeletesOnlyWhatIsUnderItsLease", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Explained()
		b.Reply(p, "ok")
		b.Pass(time.Second)
		b.Exec(`update step_alarms set lease_token = gen_random_uuid()`) // the relay of another process claims it
		b.Pass(8 * time.Second)
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where step_id = 'onboarding_message_2'`), "only its owner deletes it")
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "OfAStepThatIsParkedBecomesADeadLetter", setup, func(t *testing.T, b *bundle) {
		p, r := b.Explained()
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		b.Reply(p, "ok")
		b.Quiet()
		require.Equal(t, 1, b.Count(`select count(*) from dead_letters where session_id = $1 and step_id = 'onboarding_message_1'`, r.ID))
		require.Zero(t, b.Count(sqlOpenAlarms))
		require.Equal(t, "undeliverable", b.Shown(r.ID).GetStatus())
	})

	onboardingtest.Subtest(t, "OfAStepThatWasDoneEarlier", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Finished() // by calls
		b.Completes(p)
		require.Zero(t, b.Count(sqlOpenAlarms))
	})

	onboardingtest.Subtest(t, "OfAStepThatPanics", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Explained()
		b.Reply(p, "ok")
		timer := b.Current().Timer
		healthy := timer.Clock.Conversations
		timer.Clock.Conversations = nil
		b.Work()
		timer.Clock.Conversations = healthy
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where lease_token is null and last_error <> ''`))
		b.Completes(p)
	})
}
