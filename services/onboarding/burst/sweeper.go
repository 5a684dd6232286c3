package burst

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/session"
)

// Overdue is a session whose due step was not executed although its alarm was published.
type Overdue struct {
	Session    session.Record
	Generation int // of the newest alarm
	Repeats    int // how many alarms in a row were set because the one before brought nothing
}

type overdueStore interface {
	Overdue(ctx context.Context, limit int, grace time.Duration, now time.Time) ([]Overdue, error)
	Rearm(ctx context.Context, r session.Record, a session.Alarm, at time.Time) error
	Move(ctx context.Context, m session.Move, cause *dispatch.Cause) error
}

const sweepBatch = 256

// Sweeper sets an alarm again when QStash has lost it or has given it up, so that a sequence goes on or visibly ends. It
// never sends a message.
type Sweeper struct {
	Store overdueStore
	// Grace is how long after its alarm a step is overdue. Each further alarm of a step is given twice as long as the one
	// before: with a minute and five of them, an outage has to last half an hour before anybody is parked.
	Grace          time.Duration
	MaxGenerations int // how many alarms in a row may bring nothing before the session is parked
	Log            *slog.Logger
	Now            func() time.Time
}

// Loop sweeps every poll.
func (s *Sweeper) Loop(rest process.Rest, poll time.Duration) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			n, err := s.Once(ctx)
			return n == sweepBatch, err
		},
		Failed: func(ctx context.Context, err error) { s.Log.WarnContext(ctx, "onboarding.sweeper", "error", err) },
		Rest:   rest, Every: poll,
	}
}

// Once deals with one batch of overdue steps and reports how many there were.
func (s *Sweeper) Once(ctx context.Context) (int, error) {
	found, err := s.Store.Overdue(ctx, sweepBatch, s.Grace, s.Now())
	if err != nil {
		return 0, err
	}
	var failures []error
	for _, o := range found {
		if err := s.mend(ctx, o); err != nil {
			failures = append(failures, fmt.Errorf("session %s: %w", o.Session.ID, err))
		}
	}
	return len(found), errors.Join(failures...)
}

// mend sets the next alarm, due now, or parks the session. A session that has moved on meanwhile needs neither.
func (s *Sweeper) mend(ctx context.Context, o Overdue) error {
	r, now := o.Session, s.Now()
	s.Log.WarnContext(ctx, "onboarding.step_overdue", "step_id", string(r.NextStep), "session_id", r.ID, "generation", o.Generation,
		"repeats", o.Repeats)
	if o.Repeats+1 < s.MaxGenerations {
		a := NewAlarm(r, r.NextStep, o.Generation+1, now)
		a.Cause = session.CauseOverdue
		return s.Store.Rearm(ctx, r, *a, now)
	}
	reason := fmt.Sprintf("%d alarms in a row for %s brought nothing; see the timeline, the dead letters and the log for why, mend that, %s",
		o.Repeats+1, r.NextStep, session.ThenResume(r.ID))
	err := s.Store.Move(ctx, session.Park(r, now, session.Stuck, session.TriggerQStash, "", reason), nil)
	if errors.Is(err, dispatch.ErrConflict) {
		return nil
	}
	return err
}
