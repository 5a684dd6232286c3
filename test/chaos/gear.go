package chaos

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/engagement/rules"
)

// Gear is the way in which a simulation passes time.
type Gear string

// The gears.
const (
	// Slow plays every instant, and a world lasts minutes.
	Slow Gear = "slow"
	// Fast plays every instant while a job, an alarm or a text is open. Otherwise the clock leaps to the next planned instant, before which
	// every loop wakes once. A world lasts months.
	Fast Gear = "fast"
)

// shift holds the settings that a gear gives a world.
type shift struct {
	tempo   tempo
	odds    odds
	longest time.Duration // bounds a world, on its own clock. By then every patience in the system has run out.
	leaps   bool
	least   time.Duration // shorter than no leap: what is due sooner is played
	// second is true if there is a second replica of onboarding. No caller calls it, but its loops are awake with those of the first.
	second bool
}

func (s Simulation) shift() (shift, error) {
	switch g := s.Gear; {
	case s.Engagement > 0:
		f := shift{tempo: followed(s.Engagement), odds: often, longest: s.Engagement + 60*day, leaps: true, least: 2 * time.Second, second: true}
		f.odds.patient = s.Engagement
		return f, nil
	case g == Slow, g == "":
		return shift{tempo: minutes(), odds: often, longest: 6 * time.Hour}, nil
	case g == Fast:
		f := shift{tempo: months(), odds: often, longest: 400 * day, leaps: true, least: time.Minute}
		f.odds.patient = 300 * day
		return f, nil
	}
	return shift{}, fmt.Errorf("there is no gear %q: it is %s or %s", s.Gear, Slow, Fast)
}

const (
	// lead is the time from the end of a leap to the planned instant: for every loop to wake.
	lead = time.Second
	// askAgain bounds the time for which the clock of a world in which something is open is not asked to leap.
	askAgain = 5 * time.Second
)

// leap moves the clock to shortly before the next planned instant, if that is far away and nothing is open until then. It reports whether
// it did.
func (w *world) leap(ctx context.Context, planned time.Time) (bool, error) {
	now := w.clock.Now()
	if !w.shift.leaps || now.Before(w.openUntil) || planned.Sub(now) < w.shift.least {
		return false, nil
	}
	due, open, err := w.due(ctx)
	if err != nil {
		return false, err
	}
	if due != nil && due.Before(planned) {
		planned = *due
	}
	if open || planned.Sub(now) < w.shift.least {
		w.openUntil = now.Add(min(askAgain, w.shift.least))
		return false, nil
	}
	until := planned.Add(-lead).Truncate(grid)
	w.clock.Advance(until.Sub(now))
	w.pulse.oversleep(until)
	return true, w.renewToken()
}

// sqlDue selects the work that services will do by themselves: whether something is open now, and the first instant at which something is
// due. A session that is held back waits for its release, and one with a step past its due time for the sweeper. Outreach waits for what
// was queued for the same phone before it.
const sqlDue = `
select exists (select from webhook_jobs where status = 'processing')
    or exists (select from engagement_outreach where status = 'processing') or exists (select from engagement_runs where status = 'running')
    or exists (select from step_alarms where published_at is null)
    or exists (select from conversation_sessions s join profiles p on p.id = s.profile_id
               where s.status = 'active' and s.next_step_id is not null and not p.hold and not exists (
                 select from step_alarms a where a.session_id = s.id and a.step_id = s.next_step_id and a.due_at > $1)),
       least((select min(next_retry_at) from webhook_jobs where status = 'pending'),
             (select min(o.next_retry_at) from engagement_outreach o where o.status = 'pending' and not exists (
                select from engagement_outreach e where e.subject = o.subject and e.id < o.id and e.status in ('pending', 'processing'))),
             (select min(a.due_at) from step_alarms a join conversation_sessions s on s.id = a.session_id and s.next_step_id = a.step_id
              where s.status = 'active' and a.due_at > $1))`

// due is the first instant at which a service has something to do, and whether one has now. A database that is away is open.
func (w *world) due(ctx context.Context) (first *time.Time, open bool, err error) {
	var inDoubt bool
	if w.onboardingDB.QueryRow(ctx, sqlDue, w.clock.Now()).Scan(&open, &first) != nil ||
		w.messagingDB.QueryRow(ctx, sqlInDoubt).Scan(&inDoubt) != nil {
		return nil, true, ctx.Err()
	}
	for _, job := range rules.Jobs() { // a leap ends at the instant of a run, not before it: every loop wakes then
		calendar, now := rules.DefaultConfig().Calendar, w.clock.Now()
		for ahead := time.Duration(0); ; ahead += day {
			run := calendar.Newest(job, now.Add(ahead)).Nominal.Add(lead)
			if run.After(now) && (first == nil || run.Before(*first)) {
				first = &run
			}
			if run.After(now) {
				break
			}
		}
	}
	return first, open || inDoubt, nil
}
