package rules

import (
	"time"

	"paceline.internal/services/onboarding/session"
)

// Skip is the reason that a person is not written to, as runs count it; empty for none.
type Skip string

// The reasons, in the order in which they are looked for.
const (
	SkipNoSender     Skip = "no_sender"     // the organisation has no number to write from
	SkipOptedOut     Skip = "opted_out"     // STOP
	SkipHeld         Skip = "held"          // a safety hold
	SkipStopped      Skip = "stopped"       // the newest session was stopped
	SkipParked       Skip = "parked"        // the newest session waits for an operator
	SkipClosed       Skip = "closed"        // the newest session was closed by a reset
	SkipOnboarding   Skip = "onboarding"    // the newest session is not interviewing yet
	SkipRemindersOff Skip = "reminders_off" // of goodbye, reminder and weekly_review
	SkipTipsOff      Skip = "tips_off"      // of tier_unlock
	SkipInactive     Skip = "inactive"      // of weekly_review: silence
	SkipCapped       Skip = "capped"        // too much in a day or a week
	SkipExpired      Skip = "expired"       // its time was over before it could be sent
)

// Candidate has the facts that decide whether a person is considered. Whether something is sent is decided again by the claim of Send.
type Candidate struct {
	NoSender, OptedOut, Held, RemindersOff, TipsOff bool
	// Session is the status of the newest session, and Mode its mode; empty when there never was one.
	Session session.Status
	Mode    session.Mode
}

// Eligible returns the first reason not to consider outreach of a type for a person, empty if there is none.
func (c Candidate) Eligible(kind MessageType) Skip {
	switch {
	case c.NoSender:
		return SkipNoSender
	case c.OptedOut:
		return SkipOptedOut
	case c.Held:
		return SkipHeld
	case c.Session == session.Stopped:
		return SkipStopped
	case c.Session.Parked():
		return SkipParked
	case c.Session == session.Closed:
		return SkipClosed
	case c.Session != "" && (c.Session != session.Active || c.Mode != session.Interviewing):
		return SkipOnboarding
	case c.RemindersOff && kind.Nudges():
		return SkipRemindersOff
	case c.TipsOff && kind == TierUnlock:
		return SkipTipsOff
	}
	return ""
}

// WeeklyReview returns the reason that a person gets no weekly review of a nominal instant, empty if there is none: it is for those in
// active or help_flow who were active in the window before it, its beginning included. Silence is answered with silence.
func (c Config) WeeklyReview(p Person, nominal time.Time) Skip {
	if (p.State != Active && p.State != HelpFlow) || p.LastActivityAt.Before(nominal.Add(-c.WeeklyWindow)) {
		return SkipInactive
	}
	return ""
}
