package onboarding

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"time"

	"paceline.internal/platform/alarms"
	"paceline.internal/platform/config"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/alarmclock"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
)

// The engines of alarms, as ALARMS names them.
const (
	alarmsQStash   = "qstash"
	alarmsPostgres = "postgres"
	alarmsBoth     = "qstash,postgres"
)

const (
	// alarmLease is the time after which the alarms of a process that died ring elsewhere.
	alarmLease = 16 * time.Second
	// alarmMaxLost is after how many leases that ran out an alarm is given up: more than four minutes, which a database that stands still may
	// take.
	alarmMaxLost = 16
	// alarmsKept is the time for which an alarm is kept that failed or was withdrawn; one that has rung is gone.
	alarmsKept = 24 * time.Hour
)

// checkAlarms reports an engine that does not exist, or that lacks its token.
func (c *Config) checkAlarms() error {
	if c.Alarms != alarmsPostgres && c.Alarms != alarmsQStash && c.Alarms != alarmsBoth {
		return &config.Problem{Variable: "ALARMS", Reason: "names no engine of alarms", Help: "qstash, postgres, or qstash,postgres"}
	}
	if c.Alarms != alarmsPostgres && c.QStashToken.IsZero() {
		return &config.Problem{
			Variable: "QSTASH_TOKEN", Reason: "is missing",
			Help: "publishes alarms; console.upstash.com, QStash, Request Builder; or ALARMS=postgres, which needs no QStash",
		}
	}
	return nil
}

// publishing has the engines of alarms.
type publishing struct {
	outbox.Publisher
	alarms.Deleter

	Reach time.Duration     // how far ahead it takes alarms; 0 for any time
	timer *alarmclock.Timer // nil unless the database is the one engine, and rings
	rows  *queue.Queue
	wake  chan struct{}
}

// openAlarms opens the engines that ALARMS names.
func (w *wiring) openAlarms() error {
	wake := make(chan struct{}, 1)
	rows := alarms.NewQueue(w.pool)
	own := &alarms.Engine{DB: w.pool, Intake: queue.NewIntake(rows), Wake: wake, Now: w.deps.Now}
	w.alarms = publishing{Publisher: own, Deleter: own, rows: rows, wake: wake}
	if w.cfg.Alarms == alarmsPostgres {
		if !w.cfg.SchedulingDisabled && w.deps.Beats { // by the machine's clock
			w.alarms.timer = alarmclock.NewTimer(w.store.Alarms(), w.deps.Log, w.deps.Now)
		}
		return nil
	}
	client, publisher, err := w.openQStash()
	if err != nil {
		return err
	}
	w.alarms.Publisher, w.alarms.Deleter, w.alarms.Reach = publisher, client, w.cfg.QStashMaxDelay
	if w.cfg.Alarms == alarmsBoth {
		both := &alarms.Takeover{QStash: publisher, Messages: client, Own: own, Log: w.deps.Log, Now: w.deps.Now}
		w.alarms.Publisher, w.alarms.Deleter = both, both
	}
	return nil
}

// openQStash opens the publisher to QStash, with the policy of the environment.
func (w *wiring) openQStash() (*qstash.Client, *qstash.Publisher, error) {
	client, err := qstash.New(qstash.Config{URL: w.cfg.QStashURL.String(), Token: w.cfg.QStashToken.Reveal()})
	if err != nil {
		return nil, nil, err
	}
	key := hmac.New(sha256.New, w.cfg.keys().Root()) // one secret, another key for every purpose
	key.Write([]byte("qstash dedup id"))
	publisher, err := qstash.NewPublisher(qstash.PublisherConfig{
		Client: client, Origin: w.cfg.PublicBaseURL.String(), Routes: []qstash.Route{conversation.StepRoute, goals.Route},
		Policy:  qstash.Policy{Retries: w.cfg.QStashRetries, RetryDelay: w.cfg.QStashRetryDelay, Timeout: qstash.PolicyTimeout},
		HashKey: key.Sum(nil), Log: w.deps.Log, TracerProvider: w.tel.Tracer, Now: w.deps.Now,
	})
	return client, publisher, err
}

// ringAlarms adds the loop that rings the alarms of our database. It runs with every engine: alarms may be left from before a change.
func (w *wiring) ringAlarms(ctx context.Context, counted *queue.Metrics) error {
	rows := w.alarms.rows
	measured, err := qstash.NewLateness(w.meter)
	if err := errors.Join(err, queue.Observe(ctx, w.meter, alarms.Table, rows, w.deps.Now)); err != nil {
		return err
	}
	clock := &alarmclock.Clock{
		Conversations: w.conversations, Goals: w.goals, Letters: w.store.Conversations(), Answer: Answer, Lateness: measured, Now: w.deps.Now,
	}
	var poll, ahead, linger time.Duration // the runner's own
	if w.cfg.Alarms != alarmsQStash {
		poll = alarms.Poll
	}
	if w.deps.Beats { // by the machine's clock
		ahead, linger = alarms.Ahead, alarms.Linger
	}
	w.ringing = queue.NewRunner(queue.Config{
		Name: alarms.Table, Store: rows, Handlers: clock.Handlers(), GiveUp: clock.GiveUp, Backoff: alarms.Backoff, Transient: transient,
		Wake: w.alarms.wake, Workers: alarmclock.Workers, Timeout: alarmclock.Timeout,
		Lease: alarmLease, Poll: poll, Ahead: ahead, Linger: linger,
		Metrics: counted, MaxLost: alarmMaxLost, Log: w.deps.Log, Now: w.deps.Now,
	})
	ended := &queue.Retention{Queue: rows, For: alarmsKept, Log: w.deps.Log, Now: w.deps.Now}
	if !w.cfg.SchedulingDisabled { // else they ring once it is lifted
		w.components = append(w.components, bounded(w.loops.Loop("alarms", w.ringing.Loop(w.deps.Rest).Run), stopLoops))
	}
	if timer := w.alarms.timer; timer != nil {
		timer.Clock, timer.Transient = clock, transient
		w.components = append(w.components, bounded(w.loops.Loop("timer", timer.Loop(w.deps.Rest).Run), stopLoops))
	}
	w.components = append(w.components,
		w.loops.Loop("alarms-retention", ended.Loop(w.deps.Rest).Run))
	return nil
}
