package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

const (
	// brisk bounds the rest of a loop while weeks pass in seconds.
	brisk = 20 * time.Millisecond
	// settleBound bounds the work that is due at one instant, on the machine's clock.
	settleBound = 30 * time.Second
	// leaseLeap bounds a leap of the clock while a device is connected. settle has left the device's node; the lease of that node is
	// 15 s, at least 10 s of it by then.
	leaseLeap = 5 * time.Second
)

// leapsBegin is a Monday, with no change of clocks in the weeks after it.
var leapsBegin = time.Date(2026, time.March, 9, 13, 0, 0, 0, time.UTC)

// leapsEnviron keeps the results of outreach until the end.
var leapsEnviron = map[string]string{"JOBS_RETENTION": "8760h"}

// leaps is the product and one person, on a clock that leaps from one thing that is due to the next.
type leaps struct {
	*stage

	screen     *diary
	clock      *clock.Settable
	onboarding *pgxpool.Pool // to see whether anything is due
	person     storyPerson
	profileID  string
	news       func(ctx context.Context) error // prints what has happened since it was asked last
}

// leap starts the product, has something played on a clock that leaps, and judges it by what reached the person. ended is printed under
// the promises.
func (d *demoCommand) leap(
	ctx context.Context, t terminal, s *screen, play func(ctx context.Context, l *leaps) (report, error), ended string,
) (err error) {
	on, began := clock.NewSettable(leapsBegin), time.Now()
	stage, err := openStage(ctx, on, leapsEnviron, func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
		return process.RestOnMachineClock(ctx, min(d, brisk), wake)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close(ctx)) }()
	l := &leaps{stage: stage, clock: on, person: personOf(d.Locale)}
	l.screen = newDiary(s, l.person.zone())
	if l.onboarding, err = postgres.Open(ctx, postgres.Config{URL: stage.databases.Onboarding, MaxConns: 1}); err != nil {
		return err
	}
	defer l.onboarding.Close()
	profile, err := l.api.Enrol(ctx, operator.Person{
		Phone: l.person.phone, FirstName: l.person.name, Locale: d.Locale, TimeZone: l.person.timeZone,
	})
	if err != nil {
		return err
	}
	l.profileID = profile.ProfileID
	played, err := play(ctx, l)
	if err != nil {
		return fmt.Errorf("%w\nthe log: %s", err, stage.keepLog())
	}
	s.printf("\n")
	s.promises(played)
	s.printf("\n  %d texts%s, played in %.1f s\n", len(played.Messages), ended, time.Since(began).Seconds())
	if err := conclude(t, s, []report{played}, d.JSON); err != nil {
		return fmt.Errorf("%w\nthe log: %s", err, stage.keepLog())
	}
	return nil
}

// pass lets time pass until an instant: what is due on the way happens, each at its own time.
func (l *leaps) pass(ctx context.Context, until time.Time) error {
	for {
		if err := l.settle(ctx); err != nil {
			return err
		}
		if err := l.news(ctx); err != nil {
			return err
		}
		now := l.clock.Now()
		if !now.Before(until) {
			return nil
		}
		next, err := l.next(ctx, until)
		if err != nil {
			return err
		}
		l.clock.Advance(max(next.Sub(now), time.Millisecond))
		if err := l.renewToken(l.clock.Now()); err != nil {
			return err
		}
	}
}

// sqlNextDue is the first instant at which a row falls due, and whether a device is connected.
const sqlNextDue = `
select min(at), exists (select from devices where node_id is not null) from (
    select min(next_retry_at) as at from webhook_jobs where status = 'pending'
    union all select min(next_retry_at) from engagement_outreach where status = 'pending') due`

// next is the first instant at which something is due: an alarm or a receipt, a row, a run, or what the caller waits for. While a device is
// connected it is leaseLeap before that, if that is to come.
func (l *leaps) next(ctx context.Context, until time.Time) (time.Time, error) {
	next := until
	if at, set := l.clock.Next(); set && at.Before(next) {
		next = at
	}
	if at := nextRun(l.clock.Now()); at.Before(next) {
		next = at
	}
	var row *time.Time
	var connected bool
	if err := l.onboarding.QueryRow(ctx, sqlNextDue).Scan(&row, &connected); err != nil {
		return time.Time{}, err
	}
	if row != nil && row.Before(next) {
		next = *row
	}
	if before := next.Add(-leaseLeap); connected && before.After(l.clock.Now()) {
		next = before
	}
	return next, nil
}

// When runs are, as engagement.json has it.
const (
	dailyAt  = 6 * time.Hour
	weeklyAt = 9 * time.Hour
)

// nextRun returns the time of the next run, daily or weekly.
func nextRun(now time.Time) time.Time {
	day := now.Truncate(24 * time.Hour)
	for {
		for _, at := range []time.Time{day.Add(dailyAt), day.Add(weeklyAt)} {
			if at.After(now) && (at == day.Add(dailyAt) || day.Weekday() == time.Monday) {
				return at
			}
		}
		day = day.AddDate(0, 0, 1)
	}
}

// sqlOpen is true where anything is being done, or is due and has not begun: a job, outreach, an alarm that is to be published, a goal, the
// lease of a device's node, a run.
const sqlOpen = `
select exists (select from webhook_jobs where status = 'processing' or status = 'pending' and next_retry_at <= $1)
    or exists (select from engagement_outreach where status = 'processing' or status = 'pending' and next_retry_at <= $1)
    or exists (select from step_alarms where published_at is null)
    or exists (select from goal_alarms where published_at is null)
    or exists (select from goals where status = 'running')
    or exists (select from devices d join device_nodes n on n.id = d.node_id where n.lease_until < $1::timestamptz + interval '10 seconds')
    or exists (select from engagement_runs where status = 'running')
    or not exists (select from engagement_runs where job = 'daily' and period = to_char($2::timestamptz at time zone 'utc', 'YYYY-MM-DD'))
       and exists (select from user_engagement_states)
    or not exists (select from engagement_runs where job = 'weekly' and period = to_char($3::timestamptz at time zone 'utc', 'IYYY-"W"IW'))
       and exists (select from user_engagement_states)`

// settle waits until all that is due now is done.
func (l *leaps) settle(ctx context.Context) error {
	return l.await(ctx, "the end of what is due", func(ctx context.Context) (bool, error) {
		if err := l.vendors.Idle(ctx); err != nil {
			return false, err
		}
		var open bool
		now := l.clock.Now()
		err := l.onboarding.QueryRow(ctx, sqlOpen, now, now.Add(-dailyAt), now.Add(-weeklyAt)).Scan(&open)
		return !open, err
	})
}

// await asks again and again until something has come about.
func (l *leaps) await(ctx context.Context, what string, come func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleBound, errors.New(what+" did not come about"))
	defer cancel()
	tick := time.NewTicker(brisk / 4)
	defer tick.Stop()
	for {
		if done, err := come(ctx); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// text is the person's text, which must be taken.
func (l *leaps) text(ctx context.Context, body string) error {
	l.screen.wrote(l.clock.Now(), body)
	delivery, err := l.vendors.Twilio.Receive(ctx, l.person.phone, stack.FromNumber, body)
	if err == nil && delivery.StatusCode/100 != 2 {
		err = fmt.Errorf("the inbound callback was answered %d", delivery.StatusCode)
	}
	return err
}
