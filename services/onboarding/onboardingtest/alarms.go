package onboardingtest

import (
	"log/slog"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/alarms"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/alarmclock"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
)

// Own returns the engine of alarms in our own database.
func (b *Bundle) Own() *alarms.Engine {
	return &alarms.Engine{DB: b.Pool, Intake: queue.NewIntake(alarms.NewQueue(b.Pool)), Now: b.Clock.Now}
}

// The engines of alarms.
const (
	QStash   = "qstash"
	Postgres = "postgres"
	Both     = "qstash,postgres"
)

// Ring has this engine ring the alarms that are published from now on.
func (b *Bundle) Ring(engine string) {
	own := b.Own()
	b.alarms = map[string]outbox.Publisher{
		QStash: b.publisher, Postgres: own,
		Both: &alarms.Takeover{QStash: b.publisher, Own: own, Log: slog.New(slog.NewJSONHandler(b.Log, nil)), Now: b.Clock.Now},
	}[engine]
	b.ringsOwn = engine == Postgres
	b.Serve(b.Start(b.Healthy()))
}

// rings lets the alarms of our database ring that are due.
func (b *Bundle) rings(p *Running) {
	if !p.Ports.Dead() {
		p.Timer.Drain(b.T.Context())
		_, _ = p.Alarms.Drain(b.T.Context())
	}
	b.Idle()
}

// clocks returns what rings the alarms that a process keeps, and those of our database.
func (b *Bundle) clocks(p *Ports, c *conversation.Service, g *goals.Service, log *slog.Logger) (*alarmclock.Timer, *queue.Runner) {
	clock := &alarmclock.Clock{
		Conversations: c, Goals: g, Letters: b.Store.Conversations(), Answer: onboarding.Answer, Now: b.Clock.Now,
	}
	timer := alarmclock.NewTimer(outboxRows{p}, log, b.Clock.Now)
	timer.Clock = clock
	if b.ringsOwn {
		c.Timer = timer
		timer.Drain(b.T.Context()) // it takes alarms from now on
	}
	return timer, queue.NewRunner(queue.Config{
		Name: alarms.Table, Store: alarms.NewQueue(b.Pool), Handlers: clock.Handlers(), GiveUp: clock.GiveUp, Backoff: alarms.Backoff, Log: log,
		Now: b.Clock.Now,
	})
}

// nextAlarm returns when the next alarm of our database is due.
func (b *Bundle) nextAlarm() (time.Time, bool) {
	var next *time.Time
	require.NoError(b.T, b.Pool.QueryRow(b.T.Context(), `select min(next_retry_at) from alarm_jobs where status = 'pending'`).Scan(&next))
	at, set := b.Current().Timer.NextDue()
	if next == nil || set && at.Before(*next) {
		return at, set
	}
	return *next, true
}
