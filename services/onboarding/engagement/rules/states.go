// Package rules decides what engagement does: where a person stands after a message, a run or a silence, what their words ask
// for, who may be written to and when, and what an action completes.
//
// It decides and does nothing. Every function takes plain values and the instant, and returns plain values; the store checks
// their reasons again in the statement that writes them. A zero time is null.
package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is the state of a person.
type State string

// The states.
const (
	Active      State = "active"
	GoodbyeSent State = "goodbye_sent"
	HelpFlow    State = "help_flow"
	RemindLater State = "remind_later"
	Dormant     State = "dormant"
)

// States lists them all.
func States() []State { return []State{Active, GoodbyeSent, HelpFlow, RemindLater, Dormant} }

// Trigger is the cause of a move, as the audit rows record it.
type Trigger string

// The triggers. The first four come from the person, the others from a run.
const (
	UserMessage      Trigger = "user_message"
	GoodbyeResponse1 Trigger = "goodbye_response_1"
	GoodbyeResponse2 Trigger = "goodbye_response_2"
	GoodbyeResponse3 Trigger = "goodbye_response_3"
	Inactivity14d    Trigger = "inactivity_14d"
	GoodbyeTimeout   Trigger = "goodbye_timeout"
	ReminderDue      Trigger = "reminder_due"
)

// Triggers lists them all.
func Triggers() []Trigger {
	return []Trigger{UserMessage, GoodbyeResponse1, GoodbyeResponse2, GoodbyeResponse3, Inactivity14d, GoodbyeTimeout, ReminderDue}
}

// FromPerson reports whether the person causes it; else a run does.
func (t Trigger) FromPerson() bool {
	return t == UserMessage || t == GoodbyeResponse1 || t == GoodbyeResponse2 || t == GoodbyeResponse3
}

// Edge is one way for a person to move.
type Edge struct {
	From    State
	Trigger Trigger
	To      State
}

// Transitions lists every edge. The diagram in docs/engagement.md is drawn from it. A message of an active person is none: it
// changes their activity only.
func Transitions() []Edge {
	return []Edge{
		{Active, Inactivity14d, GoodbyeSent},
		{GoodbyeSent, UserMessage, Active},
		{GoodbyeSent, GoodbyeResponse1, HelpFlow},
		{GoodbyeSent, GoodbyeResponse2, RemindLater},
		{GoodbyeSent, GoodbyeResponse3, Dormant},
		{GoodbyeSent, GoodbyeTimeout, Dormant},
		{HelpFlow, UserMessage, Active},
		{RemindLater, UserMessage, Active},
		{RemindLater, ReminderDue, Dormant},
		{Dormant, UserMessage, Active},
	}
}

// Why a transition is refused. Every Refusal wraps one of them.
var (
	ErrTransition = errors.New("invalid transition")                             // no edge leads from this state by this trigger
	ErrNoRow      = errors.New("no message or action of this person is known")   // only user_message begins a row
	ErrNotOffered = errors.New("no choice was offered when the message came")    // the goodbye is younger, or still queued
	ErrTooEarly   = errors.New("its time has not come")                          // the boundary is not reached
	ErrOpenJob    = errors.New("a message of this person is still being worked") // the message comes first
	ErrInFlight   = errors.New("the outcome of the goodbye is not known yet")    // neither accepted nor ended
)

// Refusal is a trigger that changes nothing, and why.
type Refusal struct {
	State   State // empty without a row
	Trigger Trigger
	Reason  error
}

func (r *Refusal) Error() string { return fmt.Sprintf("%v: %q + %q", r.Reason, r.State, r.Trigger) }
func (r *Refusal) Unwrap() error { return r.Reason }

// Next is the state that a trigger leads to, or a Refusal. An active person who writes stays active.
func Next(from State, trigger Trigger) (State, error) {
	if from == Active && trigger == UserMessage {
		return Active, nil
	}
	edges := Transitions()
	i := slices.IndexFunc(edges, func(e Edge) bool { return e.From == from && e.Trigger == trigger })
	if i < 0 {
		return from, &Refusal{State: from, Trigger: trigger, Reason: ErrTransition}
	}
	return edges[i].To, nil
}

// Limits are the three times of the states.
type Limits struct {
	Inactivity     time.Duration // without activity, before the goodbye
	GoodbyeTimeout time.Duration // from the acceptance of the goodbye until its choices end
	RemindLater    time.Duration // from choice 2 to the reminder
}

// Person is the engagement row of one person.
type Person struct {
	State          State
	LastActivityAt time.Time
	// GoodbyeSentAt is the time at which the goodbye was decided. It is set in state goodbye_sent, and in state active while the choices of
	// a goodbye are open that crossed with a message.
	GoodbyeSentAt time.Time
	// GoodbyeExpiresAt is the end of the choices: null until Twilio has accepted the goodbye.
	GoodbyeExpiresAt time.Time
	RemindAt         time.Time // set in state remind_later only
}

// Seen is the person after activity at an instant, which never goes back. It moves no state: that is all that STOP and HELP do.
func (p Person) Seen(at time.Time) Person {
	if at.After(p.LastActivityAt) {
		p.LastActivityAt = at
	}
	return p
}

// Past is the newest audit row of a person; the zero value is none.
type Past struct {
	Trigger          Trigger
	At               time.Time // of what caused it
	GoodbyeSentAt    time.Time // before it
	GoodbyeExpiresAt time.Time // before it
}

// Situation has the further facts that judge a trigger.
type Situation struct {
	Newest  Past
	OpenJob bool // a webhook job with this phone as its subject is open, besides the one that asks
	// GoodbyeUnsent means that the goodbye was never claimed for sending: it offered nothing. One that is still queued is withdrawn.
	GoodbyeUnsent bool
	// GoodbyeEnded means that the goodbye was rejected, refused, cancelled or expired: it will never be accepted.
	GoodbyeEnded bool
}

// Event is a trigger.
type Event struct {
	Trigger Trigger
	// At is the time by which the trigger is judged: when a message reached us, or the carrier if it came to us late, when an action
	// occurred, or the nominal instant of a run.
	At time.Time
	// Now is the time of the decision. GoodbyeSentAt is this instant.
	Now time.Time
}

// Move is a decision: the row to write, guarded by the row that was read, and what is written in the same transaction.
type Move struct {
	Person Person
	// Audit is nil when only the activity changes.
	Audit *Audit
	// Queue is the outreach that follows: goodbye, help_restart or reminder; empty for none.
	Queue MessageType
	// Withdraw cancels what is queued for the person of these types and was not claimed for sending.
	Withdraw []MessageType
	// ResetProgress empties the progress, begins a new celebration epoch and switches tips on.
	ResetProgress bool
}
