package engagement

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// terms has what a run judges all people of an organisation by, as it was read when the run's slice began.
type terms struct {
	rules    rules.Config
	noSender bool
}

// terms returns what people of an organisation are judged by under these rules.
func (s *Service) terms(ctx context.Context, orgID string, decided rules.Config) (terms, error) {
	_, err := s.Carrier.Sender(ctx, orgID)
	noSender := errors.Is(err, people.ErrNoSender)
	if noSender {
		err = nil
	}
	return terms{rules: decided, noSender: noSender}, err
}

// plan decides what a run does for a person. Everything is judged at its nominal instant, and by the rules that the slice began with: a
// later release may have written others since, which this one cannot read.
func plan(r Run, c Candidate, by terms, now time.Time) Planned {
	v := c.View
	if c.Unreadable != nil {
		return Planned{}
	}
	able := v.candidate()
	able.NoSender = by.noSender
	change := Change{View: v, Cause: "run:" + r.ID, At: now}
	var skip rules.Skip
	var key string
	kind, params := rules.WeeklyReview, catalog.Params{}
	if trigger := triggers[r.Stage]; trigger != "" {
		m, err := by.rules.Decide(v.Person, v.Situation, rules.Event{Trigger: trigger, At: r.Period.Nominal, Now: change.At})
		if err != nil {
			return Planned{Skip: reasonOf(err)}
		}
		change.Moves, change.Events, kind = []rules.Move{m}, eventsOf(v, m), m.Queue
		key = map[rules.MessageType]string{rules.Goodbye: catalog.Goodbye, rules.Reminder: catalog.Reminder}[kind]
		if kind == rules.Reminder {
			params = waitOf(v, by.rules)
		}
	} else {
		if why := by.rules.WeeklyReview(v.Person, r.Period.Nominal); why != "" {
			return Planned{Skip: why}
		}
		key, params = catalog.ReviewOf(c.Actions)
	}
	if kind != "" {
		o := rules.Outreach{Type: kind, At: r.Period.Nominal, Zone: v.Zone}
		due, why := o.SendAt(change.At)
		if skip = able.Eligible(kind); skip == "" {
			skip = why
		}
		if skip == "" {
			change.Outreach = []Outreach{{
				Type: kind, Key: o.Key(v.ProfileID), MessageKey: key, Params: params, LocalDay: rules.LocalDay(o.At, o.Zone), DueAt: due,
				ExpiresAt: o.Expires(),
			}}
		}
	}
	if skip != "" && kind != rules.Reminder { // who may not be reminded is dormant all the same
		return Planned{Skip: skip}
	}
	return Planned{Change: &change, Skip: skip}
}

// refusals are the reasons of the rules, as runs count them.
var refusals = map[error]rules.Skip{
	rules.ErrTooEarly: "too_early", rules.ErrOpenJob: "open_job", rules.ErrInFlight: "in_flight", rules.ErrTransition: SkipChanged,
}

func reasonOf(err error) rules.Skip {
	for reason, skip := range refusals {
		if errors.Is(err, reason) {
			return skip
		}
	}
	return SkipChanged
}

// DryRun computes what a run would do if it began now: the counts of all people, and who would get what, from behind the first so many on.
// It writes nothing.
func (s *Service) DryRun(ctx context.Context, orgID string, job rules.Job, from, limit int) (Run, []Planned, error) {
	now := s.Now()
	decided, err := s.rulesFor(ctx, orgID)
	if err != nil {
		return Run{}, nil, err
	}
	r := Run{OrgID: orgID, Period: decided.Newest(job, now), Status: RunRunning, Counts: Counts{}.plus(0), ID: uuid.Nil.String()}
	by, err := s.terms(ctx, orgID, decided)
	if err != nil {
		return Run{}, nil, err
	}
	var planned []Planned
	for _, stage := range stages[job] {
		r.Stage, r.Cursor = stage, Cursor{}
		for {
			found, err := s.Store.Candidates(ctx, r, timesOf(r, decided), runBatch)
			if err != nil {
				return Run{}, nil, err
			}
			if len(found) == 0 {
				break
			}
			r.Cursor, r.Counts = found[len(found)-1].Cursor, r.Counts.plus(len(found))
			for _, c := range found {
				p := plan(r, c, by, now)
				if p.Change == nil {
					r.Counts.Skipped[p.Skip]++
					continue
				}
				if r.Counts.Succeeded++; r.Counts.Succeeded > from && len(planned) < limit {
					planned = append(planned, p)
				}
			}
		}
	}
	return r, planned, nil
}
