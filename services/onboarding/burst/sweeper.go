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
	Repeats    int // how many alarms in a row the sweeper has set
	Failed     int // how many of them because the one before brought nothing
	// Unavailable says that since the newest alarm rang a step of the session has come to a messaging service that could not be reached.
	Unavailable bool
}

type overdueStore interface {
	Overdue(ctx context.Context, limit, doublings int, grace time.Duration, now time.Time) ([]Overdue, error)
	// Rearm and Park wait for nobody: dispatch.ErrLocked when another transaction has the session.
	Rearm(ctx context.Context, r session.Record, a session.Alarm, then, at time.Time) error
	Park(ctx context.Context, m session.Move) error
	// RingUnpublished wakes every relay when alarms that were written before an instant are still unpublished.
	RingUnpublished(ctx context.Context, before, now time.Time) (n int, since time.Time, err error)
}

const sweepBatch = 256

// Sweeper sets an alarm again when QStash has lost it or has given it up, so that a sequence goes on or visibly ends. It
// never sends a message. An alarm that QStash never got is the relay's: a second one for the same step would help no more than the
// first, so the sweeper says so and wakes the relays.
type Sweeper struct {
	Store overdueStore
	// Grace is how long after its alarm a step is overdue. Each further alarm of a step is given twice as long as the one
	// before: with a minute and five of them, alarms have to bring nothing for half an hour before anybody is parked.
	Grace time.Duration
	// MaxGenerations is how many alarms in a row may bring nothing before the session is parked. One that came to a messaging
	// service that could not be reached is not among them: that is nobody's conversation failing, it ends by itself, and however long
	// it takes, the session stays open, late and visibly so.
	MaxGenerations int
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

// Once deals with one batch of overdue steps and reports with how many. A session that another transaction has locked is passed over
// until the next sweep, so that a process that is frozen while it holds one holds up no other.
func (s *Sweeper) Once(ctx context.Context) (int, error) {
	failures := []error{s.ring(ctx)}
	process.Progress(ctx)
	found, err := s.Store.Overdue(ctx, sweepBatch, s.MaxGenerations-1, s.Grace, s.Now())
	if err != nil {
		return 0, err
	}
	dealt := len(found)
	for _, o := range found {
		err := s.mend(ctx, o)
		process.Progress(ctx)
		switch {
		case errors.Is(err, dispatch.ErrLocked):
			dealt--
			process.PassedOver(ctx)
			s.Log.WarnContext(ctx, "onboarding.overdue_session_locked", "session_id", o.Session.ID)
		case err != nil:
			failures = append(failures, fmt.Errorf("session %s: %w", o.Session.ID, err))
		}
	}
	return dealt, errors.Join(failures...)
}

// ring tells of alarms that QStash should have got long ago.
func (s *Sweeper) ring(ctx context.Context) error {
	now := s.Now()
	n, since, err := s.Store.RingUnpublished(ctx, now.Add(-s.Grace), now)
	if err == nil && n > 0 {
		s.Log.WarnContext(ctx, "onboarding.alarms_unpublished", "alarms", n, "since", since)
	}
	return err
}

// mend sets the next alarm, due now, or parks the session. A session that has moved on meanwhile needs neither.
func (s *Sweeper) mend(ctx context.Context, o Overdue) error {
	r, now := o.Session, s.Now()
	s.Log.WarnContext(ctx, "onboarding.step_overdue", "step_id", string(r.NextStep), "session_id", r.ID, "generation", o.Generation,
		"repeats", o.Repeats, "unavailable", o.Unavailable)
	if o.Unavailable || o.Failed+1 < s.MaxGenerations {
		a := NewAlarm(r, r.NextStep, o.Generation+1, now)
		a.Cause = session.CauseOverdue
		if o.Unavailable {
			a.Cause = session.CauseOutage
		}
		rest := s.Grace << min(o.Repeats+1, s.MaxGenerations-1)
		return s.Store.Rearm(ctx, r, *a, now.Add(rest-s.Grace), now)
	}
	reason := fmt.Sprintf("%d alarms in a row for %s brought nothing; see the timeline, the dead letters and the log for why, mend that, %s",
		o.Failed+1, r.NextStep, session.ThenResume(r.ID))
	err := s.Store.Park(ctx, session.Park(r, now, session.Stuck, session.TriggerQStash, "", reason))
	if errors.Is(err, dispatch.ErrConflict) {
		return nil
	}
	return err
}
