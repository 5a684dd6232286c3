package conversation_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// drawn is a flow while it is drawn. Its steps lead forward, and back only after an answer, so every person who answers comes to its end.
type drawn struct {
	t     *rapid.T
	steps int
	texts []string
	field bool // a step before keeps one
}

// pick draws one of some values.
func pick[T any](t *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t, label) }

// later draws a step behind i, or an end.
func (d *drawn) later(i int, label string) string {
	n := rapid.IntRange(i+1, d.steps+1).Draw(d.t, label)
	if n > d.steps {
		return "gone"
	}
	return d.id(n)
}

func (d *drawn) id(i int) string {
	if i == d.steps {
		return "done"
	}
	return fmt.Sprintf("s%d", i)
}

// text adds a text, and returns its key.
func (d *drawn) text(key string) string {
	d.texts = append(d.texts, fmt.Sprintf("  %s: Text %s.\n", key, strings.ToLower(key)))
	return key
}

// waits draws what follows a silence and a refusal.
func (d *drawn) waits(i int) string {
	more := ""
	if pick(d.t, "silence", true, false) {
		send := pick(d.t, "nudge", "", ", send: "+fmt.Sprintf("N%d", i)+", times: 2")
		if send != "" {
			d.text(fmt.Sprintf("N%d", i))
		}
		more += fmt.Sprintf(", silence: {after: 1h%s, then: %s}", send, d.later(i, "after silence"))
	}
	if pick(d.t, "negative", true, false) {
		more += fmt.Sprintf(", negative: {send: %s, stay: true}", d.text(fmt.Sprintf("L%d", i)))
	}
	return more
}

// longestAfter is the longest delay of a step.
const longestAfter = 40 * time.Second

// step draws one step.
func (d *drawn) step(i int) string {
	kinds := []string{"send", "send", "wait", "choice", "number"}
	if i > 0 {
		kinds = append(kinds, "call", "hand_over")
	}
	if d.field {
		kinds = append(kinds, "if")
	}
	next, after := d.id(i+1), pick(d.t, "after", "", ", after: 4s", ", after: "+longestAfter.String())
	switch pick(d.t, "kind", kinds...) {
	case "wait":
		return fmt.Sprintf("{send: %s%s, wait: reply%s, then: %s}", d.text(fmt.Sprintf("T%d", i)), after, d.waits(i), next)
	case "choice":
		d.field = true
		back := pick(d.t, "branch", d.later(i, "forward"), d.id(rapid.IntRange(0, i).Draw(d.t, "back")))
		return fmt.Sprintf("{ask: %s%s, expect: {choice: [alpha, beta]}, save: f, unclear: {send: %s, times: %d, then: %s}%s, then: {alpha: %s, beta: %s}}",
			d.text(fmt.Sprintf("T%d", i)), after, d.text(fmt.Sprintf("U%d", i)), rapid.IntRange(1, 2).Draw(d.t, "times"), next, d.waits(i), next, back)
	case "number":
		return fmt.Sprintf("{ask: %s%s, expect: {number: {min: 0, max: 9}}, save: n%d, unclear: {send: %s, then: %s}%s, then: %s}",
			d.text(fmt.Sprintf("T%d", i)), after, i, d.text(fmt.Sprintf("U%d", i)), d.later(i, "unclear"), d.waits(i), next)
	case "call":
		return fmt.Sprintf("{call: \"https://host.example/%d\", save: c%d, failed: %s, then: {other: %s, else: %s}}", i, i,
			d.later(i, "failed"), d.later(i, "other"), next)
	case "hand_over":
		return fmt.Sprintf("{hand_over: why, then: %s}", next)
	case "if":
		return fmt.Sprintf("{if: \"person.fields.f == 'alpha'\", then: %s, else: %s}", next, d.later(i, "else"))
	}
	return fmt.Sprintf("{send: %s%s, then: %s}", d.text(fmt.Sprintf("T%d", i)), after, next)
}

// drawFlow draws the files of a flow that is in order.
func drawFlow(t *rapid.T) map[string]string {
	d := &drawn{t: t, steps: rapid.IntRange(2, 7).Draw(t, "steps")}
	var steps strings.Builder
	for i := range d.steps {
		steps.WriteString("  " + d.id(i) + ": " + d.step(i) + "\n")
	}
	steps.WriteString("  done: " + pick(t, "end", "{end: over}", "{end: over, host: true}", "{start: follows}") + "\n")
	if strings.Contains(steps.String(), ": gone") {
		steps.WriteString("  gone: {end: gone}\n")
	}
	return map[string]string{
		"flow.yaml": "flow: walk\nlanguages: [en]\nstart: s0\nsteps:\n" + steps.String(), "en.yaml": "texts:\n" + strings.Join(d.texts, ""),
	}
}
