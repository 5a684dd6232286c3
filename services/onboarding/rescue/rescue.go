// Package rescue brings back what stopped: a session that is parked, and an alarm that QStash gave up. It sends nothing; it
// puts the work back where the service finds it.
package rescue

import (
	"context"
	"errors"
	"time"

	"paceline.internal/services/onboarding/session"
)

// Refusals. Each says what to do instead.
var (
	ErrNoSession    = errors.New("there is no such session in this organisation")
	ErrNoDeadLetter = errors.New("there is no such dead letter in this organisation")
	ErrEnded        = errors.New("the session has ended; activate the profile to begin a new one (after STOP the person texts START first)")
	ErrOtherOpen    = errors.New("the person has another open session; reset that one first, or leave this one parked")
)

// Again makes the next alarm of a due step, from the number it gets and when the one before was due.
type Again func(r session.Record, generation int, due time.Time) *session.Alarm

// Scope is what a caller may see of the dead letters.
type Scope struct {
	OrgID string
	// Unowned adds those that name no session of ours, and so no organisation.
	Unowned bool
}

// Replayed says what became of a replay.
type Replayed struct {
	AlarmSet bool
	Skip     session.SkipReason // why no alarm was set
	Session  session.Record     // as it stands now; without an ID when there is none
}

// Chosen says which parked sessions to resume together. Zero times choose all.
type Chosen struct {
	OrgID    string
	Contains string // what their reasons have in common
	Since    time.Time
	Until    time.Time
	Before   string // only sessions older than this id
	Limit    int
}

// Unresumed is a session that stays parked, and why.
type Unresumed struct {
	SessionID string
	Cause     error
}

type store interface {
	// ParkedSessions lists parked sessions, newest first, and counts them regardless of the limit, up to 10,000.
	ParkedSessions(ctx context.Context, c Chosen) (ids []string, matched int, err error)
	Resume(ctx context.Context, orgID, sessionID string, again Again, at time.Time) (session.Record, error)
	ReplayDeadLetter(ctx context.Context, within Scope, id string, again Again, at time.Time) (Replayed, error)
}

// Crew rescues.
type Crew struct {
	Store    store
	OrgID    string // sees the dead letters that name no session of ours
	NewAlarm func(r session.Record, step session.StepID, generation int, due time.Time) *session.Alarm
	Now      func() time.Time
}

// Resume makes a parked session active again, where it was: a step that is due rings again, not before it would have, and
// the reply or the opening that was under way is taken up again with the key that it had, so that nothing is sent twice.
// Replies that came meanwhile are considered. An active session is returned as it is. Errors: ErrNoSession, ErrEnded,
// ErrOtherOpen.
func (c *Crew) Resume(ctx context.Context, orgID, sessionID string) (session.Record, error) {
	now := c.Now()
	return c.Store.Resume(ctx, orgID, sessionID, c.again(session.CauseResumed, now), now)
}

// ResumeAll resumes sessions one after the other, as Resume does. Those that cannot be are reported; any other error ends it, and
// what was resumed by then is.
func (c *Crew) ResumeAll(ctx context.Context, orgID string, ids []string) (resumed []string, left []Unresumed, err error) {
	for _, id := range ids {
		_, err := c.Resume(ctx, orgID, id)
		switch {
		case errors.Is(err, ErrOtherOpen), errors.Is(err, ErrEnded), errors.Is(err, ErrNoSession):
			left = append(left, Unresumed{SessionID: id, Cause: err})
		case err != nil:
			return resumed, left, err
		default:
			resumed = append(resumed, id)
		}
	}
	return resumed, left, nil
}

// Parked says which sessions are chosen: at most the limit, newest first, and how many there are in all.
func (c *Crew) Parked(ctx context.Context, which Chosen) (ids []string, matched int, err error) {
	return c.Store.ParkedSessions(ctx, which)
}

// Replay sets the alarm of a dead letter's step again, if the session still waits for that step; it may be called at any
// time and as often as one likes. A session that is stuck at the step is resumed with it. Errors: ErrNoDeadLetter,
// ErrOtherOpen.
func (c *Crew) Replay(ctx context.Context, orgID, deadLetterID string) (Replayed, error) {
	now := c.Now()
	return c.Store.ReplayDeadLetter(ctx, c.Scope(orgID), deadLetterID, c.again(session.CauseReplayed, now), now)
}

// Scope is what an organisation sees of the dead letters.
func (c *Crew) Scope(orgID string) Scope { return Scope{OrgID: orgID, Unowned: orgID == c.OrgID} }

// again rings at once, but not before the step is due.
func (c *Crew) again(cause session.AlarmCause, now time.Time) Again {
	return func(r session.Record, generation int, due time.Time) *session.Alarm {
		if due.Before(now) {
			due = now
		}
		a := c.NewAlarm(r, r.NextStep, generation, due)
		a.Cause = cause
		return a
	}
}
