// Package flow holds the conversations that teams write in files: what a flow is, its checks, and what follows from an answer, a silence
// or a reply of the host application.
//
// It decides and does nothing. The orchestrator performs a decision and stores the state that comes with it.
package flow

import (
	"regexp"
	"time"

	"cel.dev/cel-go/cel"
)

// MaxAfter is the longest delay before a text. QStash's smallest plan holds a message for seven days.
const MaxAfter = 7 * 24 * time.Hour

// MaxAfterDelivery is the longest that a text may wait for the receipt of the one before it.
const MaxAfterDelivery = 10 * time.Minute

// MaxTimeout bounds one call to the host application. The job that makes it has 20 seconds.
const MaxTimeout = 15 * time.Second

// Kind is the kind of a step.
type Kind string

// The kinds of steps.
const (
	Send     Kind = "send"
	Ask      Kind = "ask"
	If       Kind = "if"
	Call     Kind = "call"
	Start    Kind = "start"
	HandOver Kind = "hand_over"
	End      Kind = "end"
)

// Kinds lists the kinds of steps.
func Kinds() []Kind { return []Kind{Send, Ask, If, Call, Start, HandOver, End} }

// Type is the form of a field and of an answer.
type Type string

// The types. A reply is any answer; a field that keeps one is a text.
const (
	Reply  Type = "reply"
	Text   Type = "text"
	Number Type = "number"
	YesNo  Type = "yes_no"
	Choice Type = "choice"
	Date   Type = "date"
	Any    Type = "any" // of a field that only the host application sets, without a declaration
)

// Flow is one conversation. Parse makes one, and it never changes.
type Flow struct {
	Name         string
	Version      string // a hash of its files
	Languages    []string
	Start        string
	Keywords     []string
	Segments     int
	UnknownSends string
	Fields       map[string]Field
	Steps        map[string]Step
	Order        []string // the steps as they stand in the file
	ids          []string // also of steps that cannot be read
	texts        map[string]edition
	lines        map[string]int // of the keys of the file
}

// named is the form of the names of flows, fields and choices.
var named = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// IsName reports whether a text can be the name of a flow.
func IsName(text string) bool { return named.MatchString(text) }

// Field is something that the flow learns of a person.
type Field struct {
	Type    Type
	Private bool // it stays out of events
	Limit   int  // how many characters of it a text shows; 0 for shownText
	most    int  // how many the host application may set; 0 for maxText, and of a number for any that is kept exactly
	// Asked has the forms in which steps of the flow ask for it; only Declared fills it.
	Asked []Expect
}

// Step is one step. Which fields it uses depends on its kind.
type Step struct {
	ID    string
	Kind  Kind
	Line  int    // in flow.yaml
	State string // the state token

	Text          string // of Send and Ask
	Scheduled     bool   // it is sent by an alarm, also when it follows a reply
	After         time.Duration
	AfterDelivery time.Duration

	Waits    bool // for an answer
	Expect   Expect
	Save     string
	Negative *Negative
	Unclear  *Unclear
	Silence  *Silence

	Condition string // of If, in CEL
	program   cel.Program

	URL     string // of Call
	Timeout time.Duration
	Failed  string

	Name string // of the flow that Start starts, of HandOver's reason, of End's outcome
	Host bool   // after End the host application takes the texts that follow

	Then     string            // the next step; empty after Start and End
	Branches map[string]string // by the answer; Then is for every other
	Else     string            // of If
}

// Expect is the form of an answer.
type Expect struct {
	Type     Type
	Choices  []string
	Min, Max float64
	Whole    bool
	Limit    int // of a text, in characters
}

// Negative answers a refusal. WaitAt names the step where the flow waits then; it is empty where it goes on with Then.
type Negative struct{ Text, WaitAt, Then string }

// Unclear answers a text of another form than the step expects.
type Unclear struct {
	Text  string
	Times int
	Then  string
}

// Silence follows when no answer comes. Text may be empty.
type Silence struct {
	After time.Duration
	Text  string
	Times int
	Then  string
}

// next lists every step that can follow, in the order of the file's keys.
func (s Step) next() []string {
	var all []string
	add := func(id string) {
		if id != "" {
			all = append(all, id)
		}
	}
	if s.Negative != nil {
		add(s.Negative.WaitAt)
		add(s.Negative.Then)
	}
	if s.Unclear != nil {
		add(s.Unclear.Then)
	}
	if s.Silence != nil {
		add(s.Silence.Then)
	}
	add(s.Failed)
	for _, id := range s.Branches {
		add(id)
	}
	add(s.Then)
	add(s.Else)
	return all
}
