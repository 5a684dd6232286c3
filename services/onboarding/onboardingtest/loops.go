package onboardingtest

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/services/onboarding/goals"
)

// Unmute lets QStash deliver everything from now on.
func (b *Bundle) Unmute() { b.QStash.SetFaults(emulator.Script{}) }

// Mute has QStash lose every message, so that a test can execute the steps itself.
func (b *Bundle) Mute() {
	b.QStash.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Lose: true})})
}

// Idle waits until QStash has delivered all that is due.
func (b *Bundle) Idle() {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	require.NoError(b.T, b.QStash.Idle(ctx))
}

// Work lets every loop of the service pass once.
func (b *Bundle) Work() {
	b.T.Helper()
	b.Idle()
	p := b.Current()
	for {
		n, err := p.Runner.Drain(b.T.Context())
		if n == 0 || err != nil {
			break
		}
	}
	b.rings(p)
	_, _ = p.Goals.Alarms.Relay(b.T.Context())
	_, _ = p.Relay.Relay(b.T.Context()) // a mishap of the ports; the next pass mends it
	_, _ = p.Sweeper.Sweep(b.T.Context())
	_, _ = p.Persons.ForwardHolds(b.T.Context())
	_, _ = p.Persons.TellSettings(b.T.Context())
	_ = p.Runs.Revive(b.T.Context())
	_ = p.Service.ReviveTickets(b.T.Context())
	b.Idle()
}

// Sweeps lets the sweeper pass once, and returns how many alarms it found.
func (b *Bundle) Sweeps() int {
	b.T.Helper()
	n, err := b.Current().Sweeper.Sweep(b.T.Context())
	require.NoError(b.T, err)
	return n
}

// Relays lets the relay pass once, and returns how many alarms it found.
func (b *Bundle) Relays() int {
	b.T.Helper()
	n, err := b.Current().Relay.Relay(b.T.Context())
	require.NoError(b.T, err)
	return n
}

// pause is the longest time between two passes of the loops. Of a long time they make so many passes.
const (
	pause  = 5 * time.Second
	passes = 200
)

// Pass lets the clock run for d while all loops work.
func (b *Bundle) Pass(d time.Duration) {
	b.T.Helper()
	b.Work()
	for end := b.Clock.Now().Add(d); b.Clock.Now().Before(end); b.Work() {
		b.jump(max(pause, d/passes), end)
	}
}

// jump moves the clock to its next timer, by at most d and not past end.
func (b *Bundle) jump(d time.Duration, end time.Time) {
	now := b.Clock.Now()
	d = min(d, end.Sub(now))
	if next, ok := b.Clock.Next(); ok {
		d = max(time.Millisecond, min(d, next.Sub(now)))
	}
	if next, ok := b.nextAlarm(); ok {
		d = max(time.Millisecond, min(d, next.Sub(now)))
	}
	b.Clock.Advance(d)
}

// Until lets the clock run until done, at most half an hour.
func (b *Bundle) Until(done func() bool) {
	b.T.Helper()
	end := b.Clock.Now().Add(30 * time.Minute)
	for b.Work(); !done(); b.Work() {
		b.jump(pause, end)
		require.True(b.T, b.Clock.Now().Before(end), "it has not come to rest:\n%s", b.Log)
	}
}

// Waiting counts open work: jobs, unpublished alarms, and messages at QStash. The alarms of goals at QStash do not count: they may be due
// much later.
func (b *Bundle) Waiting() int {
	b.T.Helper()
	record := b.QStash.Record()
	at := 0
	for _, e := range record.Of(emulator.Published, emulator.Delivered, emulator.DeadLettered, emulator.Cancelled, emulator.Lost) {
		switch {
		case strings.Contains(e.URL, goals.Route.Path):
		case e.Kind == emulator.Published:
			at++
		default:
			at--
		}
	}
	return at + b.Count(`select (select count(*) from webhook_jobs where status in ('pending', 'processing'))
		+ (select count(*) from alarm_jobs where status in ('pending', 'processing') and event_type = 'onboarding-step')
		+ (select count(*) from step_alarms where published_at is null) + (select count(*) from goal_alarms where published_at is null)`)
}

// Quiet lets the clock run until no work is open.
func (b *Bundle) Quiet() {
	b.T.Helper()
	b.Until(func() bool { return b.Waiting() == 0 })
}
