package onboardingtest

import (
	"context"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/session"
)

// goalRows are the goals of a process.
type goalRows struct {
	*goals.Store

	p *Ports
}

func (g goalRows) Prepare(ctx context.Context, n goals.New) (goals.Prepared, error) {
	return call(g.p, "Prepare", func() (goals.Prepared, error) { return g.Store.Prepare(ctx, n) })
}

func (g goalRows) Insert(ctx context.Context, n goals.Goal, a goals.Alarm) (stored goals.Goal, duplicate bool, err error) {
	err = act(g.p, "Insert", func() (err error) {
		stored, duplicate, err = g.Store.Insert(ctx, n, a)
		return err
	})
	return stored, duplicate, err
}

func (g goalRows) Goal(ctx context.Context, org, goalID string, now time.Time) (goals.Situation, error) {
	return read(g.p, "Goal", func() (goals.Situation, error) { return g.Store.Goal(ctx, org, goalID, now) })
}

func (g goalRows) Busy(ctx context.Context, of goals.Goal, at time.Time) error {
	return act(g.p, "Busy", func() error { return g.Store.Busy(ctx, of, at) })
}

func (g goalRows) PutBack(ctx context.Context, of goals.Goal, a goals.Alarm, at time.Time) error {
	return act(g.p, "PutGoalBack", func() error { return g.Store.PutBack(ctx, of, a, at) })
}

func (g goalRows) Rearm(ctx context.Context, of goals.Goal, a goals.Alarm, at time.Time) error {
	return act(g.p, "RearmGoal", func() error { return g.Store.Rearm(ctx, of, a, at) })
}

func (g goalRows) BeginPhone(ctx context.Context, of goals.Goal, runID string, at time.Time) error {
	return act(g.p, "BeginPhone", func() error { return g.Store.BeginPhone(ctx, of, runID, at) })
}

func (g goalRows) End(ctx context.Context, e goals.End) (bool, error) {
	return call(g.p, "EndGoal", func() (bool, error) { return g.Store.End(ctx, e) })
}

func (g goalRows) Cancel(ctx context.Context, goalID, actor string, at time.Time) (c goals.Goal, messageID string, err error) {
	err = act(g.p, "Cancel", func() (err error) {
		c, messageID, err = g.Store.Cancel(ctx, goalID, actor, at)
		return err
	})
	return c, messageID, err
}

// Jobs is a queue of a process.
type Jobs struct {
	Ports *Ports
	Queue *queue.Queue
}

func (j Jobs) Claim(ctx context.Context, c queue.Claim) (queue.Claimed, error) {
	return call(j.Ports, "Claim", func() (queue.Claimed, error) { return j.Queue.Claim(ctx, c) })
}

func (j Jobs) Finish(ctx context.Context, ends []queue.Finish) ([]string, error) {
	return call(j.Ports, "Finish", func() ([]string, error) { return j.Queue.Finish(ctx, ends) })
}

func (j Jobs) Extend(ctx context.Context, held []queue.Job, until time.Time) ([]string, error) {
	return call(j.Ports, "Extend", func() ([]string, error) { return j.Queue.Extend(ctx, held, until) })
}

func (j Jobs) Expedite(ctx context.Context, done []queue.Job, now time.Time) (bool, error) {
	return call(j.Ports, "Expedite", func() (bool, error) { return j.Queue.Expedite(ctx, done, now) })
}

// outboxRows are the alarms of a process.
type outboxRows struct{ p *Ports }

func (o outboxRows) Claim(ctx context.Context, limit int, now, leaseUntil time.Time) ([]session.Alarm, error) {
	return call(o.p, "ClaimAlarms", func() ([]session.Alarm, error) { return o.p.Stores.Alarms().Claim(ctx, limit, now, leaseUntil) })
}

func (o outboxRows) Published(ctx context.Context, a session.Alarm, messageID string, at time.Time) error {
	return act(o.p, "AlarmPublished", func() error { return o.p.Stores.Alarms().Published(ctx, a, messageID, at) })
}

func (o outboxRows) Release(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error {
	return act(o.p, "AlarmReleased", func() error { return o.p.Stores.Alarms().Release(ctx, a, cause, retryAt) })
}

func (o outboxRows) Return(ctx context.Context, alarms []session.Alarm, at time.Time) error {
	return act(o.p, "AlarmsReturned", func() error { return o.p.Stores.Alarms().Return(ctx, alarms, at) })
}

func (o outboxRows) NotifyUnpublished(ctx context.Context, before, now time.Time) (n int, since time.Time, err error) {
	err = act(o.p, "NotifyUnpublished", func() (err error) {
		n, since, err = o.p.Stores.Alarms().NotifyUnpublished(ctx, before, now)
		return err
	})
	return n, since, err
}

func (g goalRows) DoneBy(ctx context.Context, profileID, messageID string) (done *goals.Goal, texts []byte, err error) {
	done, err = read(g.p, "DoneBy", func() (done *goals.Goal, err error) {
		done, texts, err = g.Store.DoneBy(ctx, profileID, messageID)
		return done, err
	})
	return done, texts, err
}

func (g goalRows) ByText(ctx context.Context, profileID string, since time.Time) ([]goals.Goal, error) {
	return read(g.p, "ByText", func() ([]goals.Goal, error) { return g.Store.ByText(ctx, profileID, since) })
}
