package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/test/operator"
	"paceline.internal/test/stack"
)

const (
	longestWeeks = 26
	// brisk is how long a loop rests at the most while weeks pass in seconds.
	brisk = 20 * time.Millisecond
	// settleBound is how long everything that is due at one instant may take, on the machine's clock.
	settleBound = 30 * time.Second
)

// weeksBegan is a Monday, with no change of clocks in the weeks after it.
var weeksBegan = time.Date(2026, time.March, 9, 13, 0, 0, 0, time.UTC)

// weeksEnviron keeps what became of outreach until the end.
var weeksEnviron = map[string]string{"JOBS_RETENTION": "8760h"}

// weeks is a person over weeks, on a clock that leaps from one thing to the next.
type weeks struct {
	*stage

	screen     *diary
	clock      *clock.Settable
	onboarding *pgxpool.Pool // to see whether anything is due
	person     storyPerson
	profileID  string
	ends       time.Time
}

// playWeeks plays the weeks, prints them as a diary, and judges them by what reached the phone.
func (d *demoCommand) playWeeks(ctx context.Context, t terminal, s *screen) (err error) {
	if d.Weeks < 1 || d.Weeks > longestWeeks || d.Faults {
		return fmt.Errorf("--weeks is 1 to %d, and goes without --faults", longestWeeks)
	}
	s.heading(fmt.Sprintf("Paceline: %d weeks of one person, on a clock that leaps ...", d.Weeks))
	leaps, began := clock.NewSettable(weeksBegan), time.Now()
	stage, err := openStage(ctx, t, leaps, weeksEnviron, func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
		return process.RestOnMachineClock(ctx, min(d, brisk), wake)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close(ctx)) }()
	w := &weeks{stage: stage, clock: leaps, person: storyPeople[d.Locale], ends: weeksBegan.AddDate(0, 0, 7*d.Weeks)}
	w.screen = newDiary(s, w.person.zone())
	if w.onboarding, err = postgres.Open(ctx, postgres.Config{URL: stage.databases.Onboarding, MaxConns: 1}); err != nil {
		return err
	}
	defer w.onboarding.Close()
	played, err := w.play(ctx, d.Locale)
	if err != nil {
		return fmt.Errorf("%w\nthe log: %s", err, stage.keepLog())
	}
	s.weeks(played, d.Weeks, time.Since(began))
	if err := conclude(t, s, []report{played}, d.JSON); err != nil {
		return fmt.Errorf("%w\nthe log: %s", err, stage.keepLog())
	}
	return nil
}

func (w *weeks) play(ctx context.Context, locale string) (report, error) {
	var enrolled struct {
		Profile operator.Profile `json:"profile"`
	}
	if err := w.api.Call(ctx, http.MethodPost, "/v1/profiles", map[string]any{
		"phone": w.person.phone, "first_name": w.person.name, "locale": locale, "time_zone": w.person.timeZone,
	}, &enrolled); err != nil {
		return report{}, err
	}
	w.profileID = enrolled.Profile.ProfileID
	if _, err := w.api.Activate(ctx, w.profileID); err != nil {
		return report{}, err
	}
	for _, e := range w.person.story {
		at := e.at(w.person.zone())
		if !at.Before(w.ends) {
			break
		}
		if err := errors.Join(w.pass(ctx, at), w.happen(ctx, e)); err != nil {
			return report{}, fmt.Errorf("day %d: %w", e.day, err)
		}
	}
	if err := w.pass(ctx, w.ends); err != nil {
		return report{}, err
	}
	return w.judge(ctx)
}

// pass lets time pass until an instant: what is due on the way happens, each at its own time.
func (w *weeks) pass(ctx context.Context, until time.Time) error {
	for {
		if err := w.settle(ctx); err != nil {
			return err
		}
		if err := w.tell(ctx); err != nil {
			return err
		}
		now := w.clock.Now()
		if !now.Before(until) {
			return nil
		}
		next, err := w.next(ctx, until)
		if err != nil {
			return err
		}
		w.clock.Advance(max(next.Sub(now), time.Millisecond))
		if err := w.renewToken(w.clock.Now()); err != nil {
			return err
		}
	}
}

// sqlNextDue is the first instant at which a row falls due.
const sqlNextDue = `
select min(at) from (
    select min(next_retry_at) as at from webhook_jobs where status = 'pending'
    union all select min(next_retry_at) from engagement_outreach where status = 'pending') due`

// next is the first instant at which something is due: an alarm or a receipt, a row, a run, or what the caller waits for.
func (w *weeks) next(ctx context.Context, until time.Time) (time.Time, error) {
	next := until
	if at, set := w.clock.Next(); set && at.Before(next) {
		next = at
	}
	if at := nextRun(w.clock.Now()); at.Before(next) {
		next = at
	}
	var row *time.Time
	if err := w.onboarding.QueryRow(ctx, sqlNextDue).Scan(&row); err != nil {
		return time.Time{}, err
	}
	if row != nil && row.Before(next) {
		next = *row
	}
	return next, nil
}

// When runs are, as engagement.json has it.
const (
	dailyAt  = 6 * time.Hour
	weeklyAt = 9 * time.Hour
)

// nextRun is when the next run is due, daily or weekly.
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

// sqlOpen is whether anything is being done, or is due and has not begun: a job, outreach, an alarm that is to be published, a run.
const sqlOpen = `
select exists (select from webhook_jobs where status = 'processing' or status = 'pending' and next_retry_at <= $1)
    or exists (select from engagement_outreach where status = 'processing' or status = 'pending' and next_retry_at <= $1)
    or exists (select from step_alarms where published_at is null)
    or exists (select from engagement_runs where status = 'running')
    or not exists (select from engagement_runs where job = 'daily' and period = to_char($2::timestamptz at time zone 'utc', 'YYYY-MM-DD'))
       and exists (select from user_engagement_states)
    or not exists (select from engagement_runs where job = 'weekly' and period = to_char($3::timestamptz at time zone 'utc', 'IYYY-"W"IW'))
       and exists (select from user_engagement_states)`

// settle waits until all that is due now is done.
func (w *weeks) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleBound, errors.New("what is due did not come to its end"))
	defer cancel()
	tick := time.NewTicker(brisk / 4)
	defer tick.Stop()
	for {
		if err := w.vendors.Idle(ctx); err != nil {
			return err
		}
		var open bool
		now := w.clock.Now()
		if err := w.onboarding.QueryRow(ctx, sqlOpen, now, now.Add(-dailyAt), now.Add(-weeklyAt)).Scan(&open); err != nil || !open {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// happen lets one thing happen: the person writes, or does something in the host application.
func (w *weeks) happen(ctx context.Context, e storyEvent) error {
	if e.text != "" {
		w.screen.wrote(w.clock.Now(), e.text)
		delivery, err := w.vendors.Twilio.Receive(ctx, w.person.phone, stack.FromNumber, e.text)
		if err == nil && delivery.StatusCode/100 != 2 {
			err = fmt.Errorf("the inbound callback was answered %d", delivery.StatusCode)
		}
		return err
	}
	var did struct {
		Completed []int  `json:"completed"`
		Hint      string `json:"hint"`
	}
	err := w.api.Call(ctx, http.MethodPost, "/v1/profiles/"+url.PathEscape(w.profileID)+"/actions", map[string]any{
		"action": e.action, "source": "command", "idempotency_key": fmt.Sprintf("%s-%s", w.clock.Now().Format(time.RFC3339), e.action),
		"attributes": map[string]string{"category": e.category},
	}, &did)
	if err == nil {
		w.screen.did(w.clock.Now(), e.action, did.Hint)
	}
	return err
}

// transition is one change of the person's state.
type transition struct {
	ID       string            `json:"transition_id"`
	From     string            `json:"from_state"`
	To       string            `json:"to_state"`
	Trigger  string            `json:"trigger"`
	At       time.Time         `json:"at"`
	Metadata map[string]string `json:"metadata"`
}

func (w *weeks) transitions(ctx context.Context) ([]transition, error) {
	var page struct {
		Transitions []transition `json:"transitions"`
	}
	err := w.api.Call(ctx, http.MethodGet, "/v1/profiles/"+url.PathEscape(w.profileID)+"/engagement/transitions?page_size=200", nil, &page)
	slices.Reverse(page.Transitions)
	return page.Transitions, err
}

// tell prints what has happened since it was asked last.
func (w *weeks) tell(ctx context.Context) error {
	moved, err := w.transitions(ctx)
	if err != nil {
		return err
	}
	w.screen.told(w.heard(w.person.phone), moved)
	return nil
}
