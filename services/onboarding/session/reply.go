package session

import "paceline.internal/services/onboarding/flow"

// Decision is the consequence of a reply: Follow, Defer or Ignore.
//
//sumtype:decl
type Decision interface{ decision() }

// Follow does what the flow decided: it sends a text at once, or moves the session.
type Follow struct{ flow.Decision }

// Defer keeps the reply. During a burst, the last reply that came after the last text went to Twilio is decided again once that text is
// recorded as sent. To a parked session, the last reply is decided again when an operator resumes it. Earlier replies stay in the timeline.
type Defer struct{}

// Ignore keeps the reply in the timeline and does nothing about it.
type Ignore struct{ Reason SkipReason }

func (Follow) decision() {}
func (Defer) decision()  {}
func (Ignore) decision() {}

// OnReply decides what a reply does. Consent keywords never get here: they are applied before, whatever the session
// waits for. A token that the flow does not have is ErrUnknownToken.
func OnReply(f *flow.Flow, r Record, held bool, person flow.Person, said flow.Said, intent Intent) (Decision, error) {
	switch {
	case r.Status == Stopped:
		return Ignore{Reason: SkipOptedOut}, nil
	case r.Status.Parked() && r.Mode == Onboarding:
		return Defer{}, nil
	case r.Status != Active:
		return Ignore{Reason: SkipSessionInactive}, nil
	case held:
		return Ignore{Reason: SkipSafetyHold}, nil
	case r.Mode != Onboarding:
		return Ignore{Reason: SkipInterviewing}, nil
	case intent == Remark:
		return Ignore{Reason: SkipNoAnswer}, nil
	case r.Token == AwaitingBurst, r.NextStep != "":
		return Defer{}, nil
	}
	at, err := Position(f, r)
	if err != nil {
		return nil, err
	}
	said.Refused = intent == Pause
	decided := f.Next(at, person, said)
	switch decided.Do.(type) {
	case flow.Defer:
		return Defer{}, nil
	case flow.Ignore:
		return Ignore{Reason: SkipInterviewing}, nil
	}
	return Follow{decided}, nil
}
