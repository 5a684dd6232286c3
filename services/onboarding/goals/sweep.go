package goals

import (
	"context"
	"time"

	"paceline.internal/platform/outbox"
)

// Patience is for how long nothing has to happen to a goal.
type Patience struct {
	Grace     time.Duration // after its alarm, doubled with each further one in a row
	Doublings int
	Busy      time.Duration // while its device is not free
	Lease     time.Duration // between two signs of life of a run
	Limit     time.Duration // of a run
}

// Overdue is a goal that waits in vain.
type Overdue struct {
	Situation

	Generation int // of its newest alarm
	Repeats    int // how many alarms in a row the sweeper has set
}

// Sweeper finds goals that lost their alarm, or found their device busy for too long, and runs that nothing is heard of, so that every
// goal ends.
func (s *Service) Sweeper(policy outbox.Policy) *outbox.Sweeper[Overdue] {
	patience := Patience{Grace: policy.Grace, Doublings: policy.MaxGenerations - 1, Busy: MaxBusy, Lease: s.RunLease, Limit: s.RunLimit}
	return &outbox.Sweeper[Overdue]{
		Policy: policy, Unpublished: s.Outbox.NotifyUnpublished, Log: s.Log, Now: s.Now,
		Overdue: func(ctx context.Context, limit int) ([]Overdue, error) {
			return s.Store.Overdue(ctx, patience, limit, s.Now())
		},
		Mend: func(ctx context.Context, o Overdue) error { return s.mend(ctx, o, policy) },
		Locked: func(ctx context.Context, o Overdue) {
			s.Log.WarnContext(ctx, "goals.overdue_goal_locked", "goal_id", o.ID)
		},
	}
}

// mend ends a goal that has waited for too long, or sets its alarm again.
func (s *Service) mend(ctx context.Context, o Overdue, policy outbox.Policy) error {
	now := s.Now()
	s.Log.WarnContext(ctx, "goals.goal_overdue", "goal_id", o.ID, "status", string(o.Status), "generation", o.Generation, "repeats", o.Repeats)
	switch {
	case o.Status == Running && !now.Before(o.StartedAt.Add(s.RunLimit)):
		return s.endSilent(ctx, o.Goal, ReasonLimit, now)
	case o.Status == Running && o.Kind == Phone:
		_, err := s.runPhone(ctx, o.Goal)
		return err
	case o.Status == Running:
		return s.endSilent(ctx, o.Goal, ReasonLost, now)
	case !o.WaitingSince.IsZero() && !now.Before(o.WaitingSince.Add(MaxBusy)):
		return s.fail(ctx, o.Goal, ReasonBusy, now)
	case o.OfflineTries > 0:
		return s.fail(ctx, o.Goal, ReasonOffline, now)
	case o.Repeats+1 >= policy.MaxGenerations:
		return s.fail(ctx, o.Goal, ReasonNoAlarm, now)
	}
	a := Alarm{ID: newID(), OrgID: o.OrgID, GoalID: o.ID, Generation: o.Generation + 1, Cause: "overdue", DueAt: now}
	return unmoved(s.Store.Rearm(ctx, o.Goal, a, now))
}

func (s *Service) endSilent(ctx context.Context, g Goal, reason string, now time.Time) error {
	_, err := s.End(ctx, g.Kind, End{RunID: g.RunID, DeviceID: g.DeviceID, Reason: reason, Actor: "sweeper", At: now})
	return err
}
