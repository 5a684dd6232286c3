package goals

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Situation is a goal with what an alarm of it finds.
type Situation struct {
	Goal

	Online bool // the device is connected, or a phone
	Busy   bool // another goal runs on the device
}

// The outcomes of an alarm that are no status of its goal.
const (
	OutcomeUnknown = "unknown" // there is no such goal
	OutcomeStarted = "started"
	OutcomeEarly   = "early" // an old alarm of a goal that was moved to later
	OutcomeBusy    = "busy"  // the end of the goal that runs sets the next alarm
	OutcomeWaiting = "waiting"
	OutcomePaused  = "scheduling_paused" // the alarm is set again, for after the pause
)

// decision is the effect of an alarm.
type decision int

const (
	nothing decision = iota // the goal stands as its status says, or is not due
	putBack
	noteOffline
	noteBusy
	callNode
	beginPhone
	continuePhone
)

// onAlarm decides what an alarm does to a goal. A stream's goal that runs is its device's; a phone's is continued, for its text has a
// separate key and is sent at most once.
func (v Situation) onAlarm(now time.Time) decision {
	switch {
	case v.Status == Running && v.Kind == Phone:
		return continuePhone
	case v.Status != Scheduled, now.Before(v.ScheduledFor.Add(-tolerance)):
		return nothing
	case v.SchedulingPaused:
		return putBack
	case !v.Online:
		return noteOffline
	case v.Busy:
		return noteBusy
	case v.Kind == Phone:
		return beginPhone
	}
	return callNode
}

// Execute is the alarm of a goal. It returns once the goal has begun, or says why it has not. ErrOffline, and any other error, ask for
// another try.
func (s *Service) Execute(ctx context.Context, goalID string) (outcome string, err error) {
	now := s.Now() // before anything else, for it is measured how long the goal takes from here
	v, err := s.Store.Goal(ctx, "", goalID, now)
	if errors.Is(err, ErrNoGoal) {
		return OutcomeUnknown, nil
	}
	if err != nil {
		return "", err
	}
	called := v.Goal
	called.CalledAt = now
	switch v.onAlarm(now) {
	case putBack:
		return OutcomePaused, s.putBack(ctx, v.Goal, now)
	case noteOffline:
		s.Metrics.foundOffline(ctx)
		return "", errors.Join(unmoved(s.Store.Offline(ctx, v.Goal, now)), ErrOffline)
	case noteBusy:
		return s.busy(ctx, v.Goal)
	case callNode:
		if err := unmoved(s.Store.Call(ctx, v.Goal, now)); err != nil {
			return "", err
		}
		return s.awaitBegin(ctx, goalID)
	case beginPhone:
		return s.beginPhone(ctx, called)
	case continuePhone:
		return s.runPhone(ctx, called)
	case nothing:
	}
	if v.Status == Scheduled {
		return OutcomeEarly, nil
	}
	return string(v.Status), nil
}

// busy has a goal wait for the end of the one that runs on its device. Where that has just ended nothing would end the waiting: the goal is
// executed anew.
func (s *Service) busy(ctx context.Context, g Goal) (string, error) {
	err := s.Store.Busy(ctx, g, s.Now())
	if !errors.Is(err, ErrConflict) {
		return OutcomeBusy, err
	}
	v, err := s.Store.Goal(ctx, "", g.ID, s.Now())
	if err != nil || v.Busy {
		return OutcomeBusy, err
	}
	return s.Execute(ctx, g.ID)
}

// awaitBegin waits until the device's node has begun the goal, for as long as an alarm may take.
func (s *Service) awaitBegin(ctx context.Context, goalID string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitBegin)
	defer cancel()
	for {
		moved := s.nextMove()
		v, err := s.Store.Goal(ctx, "", goalID, s.Now())
		switch {
		case err != nil:
			return "", err
		case v.Status == Running:
			return OutcomeStarted, nil
		case v.Status != Scheduled:
			return string(v.Status), nil
		case v.Busy: // another one was begun in between
			return s.busy(ctx, v.Goal)
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return "", ErrOffline
		case <-moved:
		case <-again.C:
		}
		again.Stop()
	}
}

// beginPhone begins a goal of a phone, and sends its text.
func (s *Service) beginPhone(ctx context.Context, g Goal) (string, error) {
	wait, err := s.Phone.Wait(ctx, g)
	if err != nil {
		return "", err
	}
	if wait {
		return OutcomeWaiting, s.lookLater(ctx, g)
	}
	g.RunID = uuid.Must(uuid.NewV7()).String()
	err = s.Store.BeginPhone(ctx, g, g.RunID, s.Now())
	if errors.Is(err, ErrConflict) { // another one runs, or it was moved: the row says which
		v, err := s.Store.Goal(ctx, "", g.ID, s.Now())
		if err != nil {
			return "", err
		}
		if v.Status == Scheduled && v.Busy {
			return s.busy(ctx, v.Goal)
		}
		if v.Status == Scheduled {
			return "", ErrConflict
		}
		return string(v.Status), nil
	}
	if err != nil {
		return "", err
	}
	return s.runPhone(ctx, g)
}

// lookLater sets the alarm of a goal again while its person is in a burst: soon at first, then the later the longer it has waited. Nothing
// else does, for no goal's end frees the person.
func (s *Service) lookLater(ctx context.Context, g Goal) error {
	now := s.Now()
	waited := time.Duration(0)
	if !g.WaitingSince.IsZero() {
		waited = now.Sub(g.WaitingSince)
	}
	if err := unmoved(s.Store.Waits(ctx, g, now)); err != nil {
		return err
	}
	a := Alarm{ID: newID(), OrgID: g.OrgID, GoalID: g.ID, Cause: "burst", DueAt: now.Add(min(max(waited/2, lookSoon), lookLate))}
	return unmoved(s.Store.Rearm(ctx, g, a, now))
}

// putBack sets the alarm of a goal again that came due while its organisation was paused: the relay publishes it after the pause.
func (s *Service) putBack(ctx context.Context, g Goal, now time.Time) error {
	return unmoved(s.Store.PutBack(ctx, g, Alarm{ID: newID(), OrgID: g.OrgID, GoalID: g.ID, Cause: "paused", DueAt: now}, now))
}

// publish hands the alarm of a goal to QStash, unless the organisation is paused: then the relay does after the pause.
func (s *Service) publish(ctx context.Context, g Goal, a Alarm) {
	if !g.SchedulingPaused {
		s.Alarms.PublishOrLeave(ctx, a)
	}
}

// phoneRunner runs a goal on a phone: by a text to the person.
type phoneRunner interface {
	// Wait reports whether the person must not be texted now, because a burst goes on.
	Wait(ctx context.Context, g Goal) (bool, error)
	// Text sends the goal's text, once however often it is called. The end is not OK when the text will never be sent; an error is no end.
	Text(ctx context.Context, g Goal) (End, error)
}

// Offered measures how late a goal was offered to its device.
func (s *Service) Offered(ctx context.Context, o Offer) {
	s.Metrics.began(ctx, Stream, o.Waited, o.ScheduledFor, o.CalledAt, s.Now())
}

// End ends a run, and counts it if it was this call that did.
func (s *Service) End(ctx context.Context, kind Kind, e End) (ended bool, err error) {
	if ended, err = s.Store.End(ctx, e); ended {
		s.Metrics.ended(ctx, kind, e.outcome(), 1)
	}
	return ended, err
}

// fail fails a goal that has not begun, unless it has moved, and counts it.
func (s *Service) fail(ctx context.Context, g Goal, reason string, at time.Time) error {
	err := s.Store.Fail(ctx, g, reason, "sweeper", at)
	if err == nil {
		s.Metrics.ended(ctx, g.Kind, reason, 1)
	}
	return unmoved(err)
}

// runPhone sends the text of a goal that has begun, and ends it.
func (s *Service) runPhone(ctx context.Context, g Goal) (string, error) {
	end, err := s.Phone.Text(ctx, g)
	if err != nil {
		return "", err
	}
	end.RunID, end.DeviceID, end.Actor, end.At = g.RunID, g.DeviceID, "device:"+g.DeviceID, s.Now()
	ended, err := s.End(ctx, Phone, end)
	if err != nil {
		return "", err
	}
	if ended && end.OK {
		s.Metrics.began(ctx, Phone, g.Waited(), g.ScheduledFor, g.CalledAt, end.At)
	}
	if end.OK {
		return string(Completed), nil
	}
	return string(Failed), nil
}

// AlarmFailed takes QStash's word that an alarm failed with every retry. It ends the goal only if that was its newest alarm and found the
// device offline: what else kept it from the device is our outage, after which the sweeper sets it again.
func (s *Service) AlarmFailed(ctx context.Context, goalID, messageID string) (failed bool, err error) {
	if failed, err = s.Store.FailedAlarm(ctx, goalID, messageID, s.Now()); failed {
		s.Metrics.ended(ctx, Stream, ReasonOffline, 1) // a phone is never offline
	}
	return failed, err
}
