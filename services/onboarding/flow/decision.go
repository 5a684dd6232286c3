package flow

import (
	"time"
)

// Phase is the kind of event that a session waits for.
type Phase string

// The phases.
const (
	Due     Phase = "due"     // the text of the step is to be sent
	Waiting Phase = "waiting" // for the person's answer
	Calling Phase = "calling" // for the host application's
	Handed  Phase = "handed"  // for a person who has the ticket
	Ended   Phase = "ended"
)

// State is the position of a session in a flow. The zero value is the position before the first step.
type State struct {
	Step    string         `json:"step"`
	Phase   Phase          `json:"phase"`
	Key     string         `json:"key,omitempty"`     // of the text that is due, or was sent last
	Before  string         `json:"before,omitempty"`  // key of the text before that, if nothing else has happened since
	Reply   string         `json:"reply,omitempty"`   // the text that is due, where it is not the step's own
	Then    string         `json:"then,omitempty"`    // the step that follows that text; empty where the flow waits at Step
	Asked   string         `json:"asked,omitempty"`   // the last step that waited for an answer
	Visits  map[string]int `json:"visits,omitempty"`  // how often each step was come to
	Refused int            `json:"refused,omitempty"` // refusals since the beginning
	Unclear int            `json:"unclear,omitempty"` // answers of another form since the step's text
	Silent  int            `json:"silent,omitempty"`  // silences since then
	Paused  bool           `json:"paused,omitempty"`  // the last answer was a refusal
}

// Event is one of Began, Taken, Said, Silent, Called and Closed.
type Event interface{ event() }

// The events besides Said.
type (
	// Began starts a session.
	Began struct{}
	// Taken says that the carrier took the text that was due.
	Taken struct{}
	// Silent says that no answer came for as long as the step says.
	Silent struct{}
	// Called is the answer of the host application, which failed where OK is false.
	Called struct {
		OK     bool
		Branch string // which it chose; may be empty
		Field  any    // what JSON has for the field of the step; nil for none
	}
	// Closed says that the ticket was closed, and where the flow goes on.
	Closed struct{ How Resumption }
)

func (Began) event()  {}
func (Taken) event()  {}
func (Said) event()   {}
func (Silent) event() {}
func (Called) event() {}
func (Closed) event() {}

// Resumption is the way in which a flow goes on after a ticket.
type Resumption string

// The resumptions.
const (
	Resume  Resumption = "resume"  // with the next step
	Restart Resumption = "restart" // with the last question, anew
	Finish  Resumption = "end"     // it ends
)

// Action is the work that a decision asks for: one of SendText, Await, CallHost, OpenTicket, StartFlow, Finished, Defer and Ignore.
type Action interface{ action() }

// The actions.
type (
	// SendText sends one text. Direct texts answer a reply and are sent with it; others are sent by an alarm that rings After the text before.
	SendText struct {
		Step          string
		Text          string
		Key           string // the last part of the idempotency key
		Direct        bool
		After         time.Duration
		AfterDelivery time.Duration
	}
	// Await waits for an answer; Silence is for how long, 0 for ever.
	Await struct{ Silence time.Duration }
	// CallHost calls the host application.
	CallHost struct {
		Step, URL, Key string
		Timeout        time.Duration
	}
	// OpenTicket hands the person over; Unclear where an answer that stays unclear led there.
	OpenTicket struct {
		Reason  string
		Unclear bool
	}
	// StartFlow ends this flow and starts another.
	StartFlow struct{ Flow string }
	// Finished ends the flow.
	Finished struct {
		Outcome string
		Host    bool
	}
	// Defer keeps a text of the person that answers nothing: one is due to them, or another has them.
	Defer struct{}
	// Ignore changes nothing: what happened is late, or is no concern of the step.
	Ignore struct{}
)

func (SendText) action()   {}
func (Await) action()      {}
func (CallHost) action()   {}
func (OpenTicket) action() {}
func (StartFlow) action()  {}
func (Finished) action()   {}
func (Defer) action()      {}
func (Ignore) action()     {}

// Decision follows from an event. State is stored before the action is performed, in one transaction with what it needs.
type Decision struct {
	State State
	Save  map[string]Value
	Do    Action
}
