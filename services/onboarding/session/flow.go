package session

import (
	"bytes"
	_ "embed" // the default flow and the conversation around it
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"

	"paceline.internal/services/onboarding/flow"
)

// ErrFlow is wrapped by every problem of a flow file.
var ErrFlow = errors.New("flow file refused")

// MaxDelay is the longest delay before a step. QStash's smallest plan holds a message for seven days.
const MaxDelay = 7 * 24 * time.Hour

// MaxAfterDelivery is the longest that a step may wait for the receipt of the one before it.
const MaxAfterDelivery = 10 * time.Minute

// UnknownSends is the policy for a message in doubt: messaging cannot find out whether the carrier took it.
type UnknownSends string

// The policies.
const (
	// ConfirmAbsentThenResend sends it again once the carrier's list has twice not had it. The default.
	ConfirmAbsentThenResend UnknownSends = "confirm_absent_then_resend"
	// NeverDuplicate leaves it to an operator.
	NeverDuplicate UnknownSends = "never_duplicate"
)

// StepID names one scheduled message: lower-case letters, digits and underscores, at most 64.
type StepID string

// TextKey names a text of the catalog.
type TextKey string

// The texts of the deployment's own conversation that no flow file names.
const (
	TextOpening     TextKey = "ONBOARDING_OPENING"
	TextExplanation TextKey = "ONBOARDING_EXPLANATION"
	TextLater       TextKey = "ONBOARDING_LATER"
)

// Step is one scheduled message.
type Step struct {
	ID   StepID
	Text TextKey
	// Delay sets how long after the message before it was accepted this one is due; for the first step, after the reply
	// that began the burst.
	Delay time.Duration
	// AfterDelivery sets how long, from when the message before was accepted, this one waits for that to be delivered. Zero is
	// not at all. The delay counts all the same.
	AfterDelivery time.Duration
}

// Flow is the conversation of a deployment, with the scheduled messages of its flow file in their order, at least one. ParseFlow and
// DefaultFlow make one, and it never changes.
type Flow struct {
	version string
	unknown UnknownSends
	steps   []Step
	script  flow.Flow
	onward  flow.Flow // the script, with the flow Interview after it
}

// Interview is the published flow that follows the reply to the last scheduled message. Where an organisation has none, the host
// application holds the interview.
const Interview = "interview"

//go:embed welcome.yaml.tmpl
var welcome string

var welcomeTemplate = template.Must(template.New("welcome").Parse(welcome))

// scripted puts the scheduled messages into the conversation around them, before an interview that may be empty.
func (f Flow) scripted(interview string) (flow.Flow, error) {
	type message struct {
		Step

		Then StepID
	}
	messages := make([]message, len(f.steps))
	for i, step := range f.steps {
		messages[i].Step = step
		if i+1 < len(f.steps) {
			messages[i].Then = f.steps[i+1].ID
		}
	}
	var source bytes.Buffer
	err := welcomeTemplate.Execute(&source, map[string]any{
		"UnknownSends": f.unknown, "First": f.steps[0], "Messages": messages, "Interview": interview,
	})
	if err != nil {
		return flow.Flow{}, fmt.Errorf("%w: %w", ErrFlow, err)
	}
	script, err := flow.ParseSteps(source.Bytes())
	if err != nil {
		return flow.Flow{}, fmt.Errorf("%w: %w", ErrFlow, err)
	}
	return script, nil
}

// Script returns the conversation as a flow. Its texts are those of the catalog.
func (f Flow) Script() *flow.Flow { return &f.script }

// ScriptWithInterview returns the conversation that goes on with the flow Interview.
func (f Flow) ScriptWithInterview() *flow.Flow { return &f.onward }

//go:embed flow.json
var defaultFlow []byte

// DefaultFlow is the flow that is built in.
func DefaultFlow() Flow {
	parsed, err := ParseFlow(defaultFlow)
	if err != nil {
		panic(err) // the embedded file is part of the program, and a test reads it
	}
	return parsed
}

// maxSteps is the most steps of a flow, less those around the scheduled messages.
const maxSteps = 497

// ParseFlow reads a flow file and reports every problem at once, each wrapping ErrFlow. The form is that of flow.json
// in this folder; fields that it does not know are errors.
func ParseFlow(file []byte) (Flow, error) {
	var wire struct {
		Version string     `json:"version"`
		Unknown *string    `json:"unknown_sends"`
		Steps   []wireStep `json:"steps"`
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wire); err != nil {
		return Flow{}, fmt.Errorf("%w: %w", ErrFlow, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Flow{}, fmt.Errorf("%w: something follows the object", ErrFlow)
	}

	parsed := Flow{version: wire.Version, unknown: ConfirmAbsentThenResend}
	var problems []error
	if wire.Unknown != nil {
		parsed.unknown = UnknownSends(*wire.Unknown)
	}
	if parsed.unknown != ConfirmAbsentThenResend && parsed.unknown != NeverDuplicate {
		problems = append(problems, fmt.Errorf("%w: unknown_sends %.40q must be %s or %s",
			ErrFlow, string(parsed.unknown), ConfirmAbsentThenResend, NeverDuplicate))
	}
	if wire.Version == "" {
		problems = append(problems, fmt.Errorf("%w: version is missing", ErrFlow))
	}
	if len(wire.Steps) == 0 {
		problems = append(problems, fmt.Errorf("%w: steps is missing or empty", ErrFlow))
	}
	if n := len(wire.Steps); n > maxSteps {
		problems = append(problems, fmt.Errorf("%w: steps has %d; at most %d are allowed", ErrFlow, n, maxSteps))
	}
	for i, w := range wire.Steps {
		for _, problem := range w.problems(parsed.steps) {
			problems = append(problems, fmt.Errorf("%w: step %d: %s", ErrFlow, i+1, problem))
		}
		parsed.steps = append(parsed.steps, w.step())
	}
	if err := errors.Join(problems...); err != nil {
		return Flow{}, err
	}
	var err error
	if parsed.script, err = parsed.scripted(""); err != nil {
		return Flow{}, err
	}
	parsed.onward, err = parsed.scripted(Interview)
	return parsed, err
}

// Version names the flow in logs and timelines.
func (f Flow) Version() string { return f.version }

// UnknownSends is the policy for every message of the conversation.
func (f Flow) UnknownSends() UnknownSends { return f.unknown }

// Steps is a copy of the steps in their order.
func (f Flow) Steps() []Step { return slices.Clone(f.steps) }

// First is the step that begins the burst.
func (f Flow) First() Step { return f.steps[0] }

// Step finds a step, and whether this flow has it.
func (f Flow) Step(id StepID) (Step, bool) {
	if i := slices.IndexFunc(f.steps, func(s Step) bool { return s.ID == id }); i >= 0 {
		return f.steps[i], true
	}
	return Step{}, false
}

// wireStep is a step as the file has it. The delay is a pointer because a forgotten delay is not a delay of zero.
type wireStep struct {
	ID            string  `json:"id"`
	Text          string  `json:"text"`
	DelayMS       *int64  `json:"delay_ms"`
	AfterDelivery *string `json:"after_delivery"`
}

// step is only meaningful for a step without problems.
func (w wireStep) step() Step {
	s := Step{ID: StepID(w.ID), Text: TextKey(w.Text)}
	if w.DelayMS != nil {
		s.Delay = time.Duration(*w.DelayMS) * time.Millisecond
	}
	s.AfterDelivery, _ = w.afterDelivery()
	return s
}

// afterDelivery reads the limit, and says whether it is one: a duration as Go writes them.
func (w wireStep) afterDelivery() (time.Duration, bool) {
	if w.AfterDelivery == nil {
		return 0, true
	}
	limit, err := time.ParseDuration(*w.AfterDelivery)
	return limit, err == nil && limit > 0 && limit <= MaxAfterDelivery
}

// problems returns what is wrong with a step that comes after the steps before.
func (w wireStep) problems(before []Step) []string {
	var found []string
	if !validStepID(w.ID) {
		found = append(found, fmt.Sprintf("id %.70q must be 1 to 64 of a-z, 0-9 and _", w.ID))
	}
	if slices.Contains([]string{"opening", "explanation", "later"}, w.ID) {
		found = append(found, fmt.Sprintf("id %q is the key of a direct text", w.ID))
	}
	if !validStepText(w.Text) {
		found = append(found, fmt.Sprintf("text %.70q must be ONBOARDING_MESSAGE_ and a number", w.Text))
	}
	if slices.ContainsFunc(before, func(s Step) bool { return string(s.ID) == w.ID }) {
		found = append(found, fmt.Sprintf("id %.70q is there already", w.ID))
	}
	// Two equal messages could not be distinguished when a lost answer is settled by listing what Twilio has.
	if slices.ContainsFunc(before, func(s Step) bool { return string(s.Text) == w.Text }) {
		found = append(found, fmt.Sprintf("text %.70q is there already", w.Text))
	}
	switch {
	case w.DelayMS == nil:
		found = append(found, "delay_ms is missing")
	case *w.DelayMS < 0 || *w.DelayMS > MaxDelay.Milliseconds():
		found = append(found, fmt.Sprintf("delay_ms %d must be 0 to %d, which is seven days", *w.DelayMS, MaxDelay.Milliseconds()))
	}
	if _, ok := w.afterDelivery(); !ok {
		found = append(found, fmt.Sprintf("after_delivery %.40q must be a duration above 0 and up to %s, such as 20s",
			*w.AfterDelivery, MaxAfterDelivery))
	}
	if w.AfterDelivery != nil && len(before) == 0 {
		found = append(found, "after_delivery is for a step that has one before it")
	}
	return found
}

func validStepID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func validStepText(key string) bool {
	number, found := strings.CutPrefix(key, "ONBOARDING_MESSAGE_")
	return found && number != "" && len(number) <= 3 && number[0] != '0' && strings.Trim(number, "0123456789") == ""
}
