package goals

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Caller asks for a change: a user changes only their own goals, any other caller those of their organisation.
type Caller struct {
	OrgID     string
	ProfileID string // of a user; empty of any other caller
	Actor     string
}

// Find reads a goal that the caller may see, with what an alarm of it would find. ErrNoGoal, ErrNotOwner.
func (s *Service) Find(ctx context.Context, c Caller, goalID string) (Situation, error) {
	v, err := s.Store.Goal(ctx, c.OrgID, goalID, s.Now())
	if err == nil && c.ProfileID != "" && v.ProfileID != c.ProfileID {
		return Situation{}, ErrNotOwner
	}
	return v, err
}

// Cancel cancels a goal that has not begun. What it returns is decided in the database: a goal that is cancelled never runs, whatever
// its alarm does. Errors: ErrNoGoal, ErrNotOwner, *StatusError of one that has begun or ended.
func (s *Service) Cancel(ctx context.Context, c Caller, goalID string) (Goal, error) {
	if _, err := s.Find(ctx, c, goalID); err != nil {
		return Goal{}, err
	}
	g, messageID, err := s.Store.Cancel(ctx, goalID, c.Actor, s.Now())
	if err != nil {
		return Goal{}, err
	}
	s.withdraw(ctx, g, messageID)
	return g, nil
}

// Moment is a time in words, or as it is.
type Moment struct {
	Words   string
	At      time.Time
	SaidAt  time.Time // when the words reached us; zero is now
	SameDay bool      // an hour without a day is one of the day that the goal is on
}

// Reschedule moves a goal that has not begun. Errors as of Cancel, and of the time as of Create.
func (s *Service) Reschedule(ctx context.Context, c Caller, goalID string, to Moment) (Goal, error) {
	v, err := s.Find(ctx, c, goalID)
	if err != nil {
		return Goal{}, err
	}
	if v.Status != Scheduled {
		return Goal{}, &StatusError{Status: v.Status, StartedAt: v.StartedAt}
	}
	n := New{
		OrgID: v.OrgID, ProfileID: v.ProfileID, DeviceID: v.DeviceID, Said: to.Words, At: to.At, SaidAt: to.SaidAt,
		Key: "when:" + uuid.NewString(),
	}
	if n.SaidAt.IsZero() {
		n.SaidAt = s.Now()
	}
	if to.SameDay {
		n.Near = v.ScheduledFor
	}
	if to.Words == "" && to.At.IsZero() || to.Words != "" && !to.At.IsZero() {
		return Goal{}, fmt.Errorf("%w: give either when or scheduled_for", ErrInvalid)
	}
	if to.Words == "" {
		n.Said = v.Said
	}
	if err := n.check(); err != nil {
		return Goal{}, err
	}
	p, err := s.Store.Prepare(ctx, n)
	if err != nil {
		return Goal{}, err
	}
	read, err := s.read(ctx, n, p)
	if err != nil {
		return Goal{}, err
	}
	if to.Words != "" && read.Understood == "" {
		return Goal{}, ErrNoTime
	}
	g := v.Goal
	g.ScheduledFor, g.Delay, g.Understood, g.Note = read.ScheduledFor, read.Delay, read.Understood, read.Note
	a := Alarm{ID: newID(), OrgID: g.OrgID, GoalID: g.ID, Cause: "rescheduled", DueAt: g.ScheduledFor, LeaseToken: uuid.NewString()}
	stored, a, messageID, err := s.Store.Reschedule(ctx, g, a, c.Actor, s.Now())
	if err != nil {
		return Goal{}, err
	}
	s.publish(ctx, stored, a)
	s.withdraw(ctx, stored, messageID)
	return stored, nil
}

// Stop asks the device to end a goal that runs; again it changes nothing. Errors as of Cancel.
func (s *Service) Stop(ctx context.Context, c Caller, goalID string) (Goal, error) {
	if _, err := s.Find(ctx, c, goalID); err != nil {
		return Goal{}, err
	}
	return s.Store.AskStop(ctx, goalID, c.Actor, s.Now())
}
