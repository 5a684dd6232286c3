package session

import (
	"fmt"

	"paceline.internal/services/onboarding/flow"
)

// Decision is the consequence of a reply: Follow, Hold or Ignore.
//
//sumtype:decl
type Decision interface{ decision() }

// Follow does what the flow decided: it sends a text at once, or moves the session.
type Follow struct{ flow.Decision }

// Hold keeps the reply. During a burst, the last reply that came after the last text went to Twilio is decided again once that text is
// recorded as sent. To a parked session, the last reply is decided again when an operator resumes it. Earlier replies stay in the timeline.
type Hold struct{}

// Ignore keeps the reply in the timeline and does nothing about it.
type Ignore struct{ Reason SkipReason }

func (Follow) decision() {}
func (Hold) decision()   {}
func (Ignore) decision() {}

// OnReply decides what a reply does. Consent keywords never get here: they are applied before, whatever the session
// waits for. A token that the flow does not have is ErrUnknownToken.
func OnReply(f *flow.Flow, r Record, held bool, person flow.Person, said flow.Said, intent Intent) (Decision, error) {
	switch {
	case r.Status == Stopped:
		return Ignore{Reason: SkipOptedOut}, nil
	case r.Status.Parked() && r.Mode == Onboarding:
		return Hold{}, nil
	case r.Status != Active:
		return Ignore{Reason: SkipSessionInactive}, nil
	case held:
		return Ignore{Reason: SkipSafetyHold}, nil
	case r.Mode != Onboarding:
		return Ignore{Reason: SkipInterviewing}, nil
	case intent == Remark:
		return Ignore{Reason: SkipNoAnswer}, nil
	case r.Token == AwaitingBurst, r.NextStep != "":
		return Hold{}, nil
	}
	at, err := Position(f, r)
	if err != nil {
		return nil, err
	}
	said.Refused = intent == Pause
	decided := f.Next(at, person, said)
	switch decided.Do.(type) {
	case flow.Hold:
		return Hold{}, nil
	case flow.Ignore:
		return Ignore{Reason: SkipInterviewing}, nil
	}
	return Follow{decided}, nil
}

// Position returns where a session is in its flow. That of the deployment's own conversation is read off its token and its due step, as
// every release stores them.
func Position(f *flow.Flow, r Record) (flow.State, error) {
	if r.Flow != "" {
		at := r.At
		if s := f.Steps[at.Step]; r.Place() == 0 && at.Phase == flow.Due && s.Waits && s.Kind == flow.Send {
			at.Phase = flow.Waiting // the opening waits for the morning, and a reply to it does not; a question is asked before it is answered
		}
		return at, nil
	}
	if r.Token == AwaitingBurst {
		id := string(r.NextStep)
		return flow.State{
			Step: id, Phase: flow.Due, Key: id, Before: f.Before(id), Visits: map[string]int{id: 1}, Paused: r.Paused,
		}, nil
	}
	for _, id := range f.Order {
		switch s := f.Steps[id]; {
		case s.State != string(r.Token):
		case s.Waits:
			return flow.State{Step: id, Phase: flow.Waiting, Asked: id, Visits: map[string]int{id: 1}, Paused: r.Paused}, nil
		case s.Kind == flow.End, s.Kind == flow.Start:
			return flow.State{Step: id, Phase: flow.Ended}, nil
		}
	}
	return flow.State{}, fmt.Errorf("%w %.60q", ErrUnknownToken, string(r.Token))
}
