// Package consent decides what a text says about the wish to receive texts, and what the ledger records of it.
package consent

import (
	"errors"
	"fmt"
)

// ErrState is wrapped by every unknown state.
var ErrState = errors.New("unknown consent state")

// State is the consent of a person, which decides whether they may be texted. The zero value means that nothing was ever recorded: such a
// person was enrolled and has not objected.
type State string

// The states of the ledger.
const (
	OptedIn  State = "opted_in"
	OptedOut State = "opted_out"
)

// States are all states, the zero value too.
func States() []State { return []State{"", OptedIn, OptedOut} }

// ParseState reads a state as it is stored and as the API takes it.
func ParseState(stored string) (State, error) {
	switch s := State(stored); s {
	case OptedIn, OptedOut:
		return s, nil
	}
	return "", fmt.Errorf("%w %q: use %s or %s", ErrState, stored, OptedIn, OptedOut)
}

// Effect is the change that a text makes to consent.
type Effect int

// The effects. Every one but None outranks whatever else the text could mean to a conversation.
const (
	// None leaves the text to the conversation.
	None Effect = iota
	// OptOut ends every message to this person.
	OptOut
	// OptIn restores consent.
	OptIn
	// Help asks who is writing and how to stop. It changes nothing.
	Help
	// Overtaken is an opt-out or opt-in that came to be recorded only after a later one of the same person. It changes nothing:
	// the last word of a person counts.
	Overtaken
	// Ambiguous may be an opt-out, and may be none: an operator has to say. It changes nothing.
	Ambiguous
)

// Effects are all of them.
func Effects() []Effect { return []Effect{None, OptOut, OptIn, Help, Overtaken, Ambiguous} }

// String is the effect as logs and the ledger write it.
func (e Effect) String() string {
	switch e {
	case None:
		return "none"
	case OptOut:
		return "opt_out"
	case OptIn:
		return "opt_in"
	case Help:
		return "help"
	case Overtaken:
		return "overtaken"
	case Ambiguous:
		return "doubtful"
	}
	return fmt.Sprintf("effect(%d)", int(e))
}

// Event is one line of the ledger: consent went from one state to another.
type Event struct {
	From State
	To   State
}

// Record returns the event that the ledger appends, if any. Only changes are appended, so a repeated STOP or a callback
// that is delivered twice leaves one line. The first explicit word of a person nothing was recorded of is a change.
func Record(current State, effect Effect) (Event, bool) {
	to := current
	switch effect {
	case OptOut:
		to = OptedOut
	case OptIn:
		to = OptedIn
	case None, Help, Overtaken, Ambiguous:
	}
	return Event{From: current, To: to}, to != current
}
