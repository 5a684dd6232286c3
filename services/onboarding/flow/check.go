package flow

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// check finds what no schema can say.
func (f *Flow) check(found *Problems) {
	if f.edges(found) {
		f.reach(found)
		f.circles(found)
	}
	f.declare(found)
	env, err := environment(f.Fields)
	if err != nil {
		found.addf(File, 0, "fields: %s", err)
		return
	}
	for _, id := range f.Order {
		s := f.Steps[id]
		s.checkAnswer(found)
		if s.Kind != If {
			continue
		}
		if s.program, err = compile(env, s.Condition); err != nil {
			found.addf(File, s.Line, "step %s: the condition is not CEL over this flow: %s", id, celProblem(f.Fields, err))
		}
		f.Steps[id] = s
	}
	f.checkEntry(found)
}

// checkRest finds steps and texts that are missing where the form of other steps is wrong already: all that is wrong is reported at once.
func (f *Flow) checkRest(found *Problems) {
	for _, id := range f.Order {
		for _, next := range f.Steps[id].next() {
			if !slices.Contains(f.ids, next) {
				found.addf(File, f.Steps[id].Line, "step %s leads to %s, which is no step", id, next)
			}
		}
	}
	used := f.used()
	for _, language := range f.Languages {
		e, read := f.texts[language]
		for _, key := range slices.Sorted(maps.Keys(used)) {
			if text := e.Texts[key]; read && strings.TrimSpace(text) == "" {
				line := cmp.Or(e.lines[key], e.lines["texts:"])
				found.addf(language+".yaml", line, "text %s is missing; step %s of %s sends it", key, used[key], File)
			}
		}
	}
}

// taken are the state tokens of the deployment's own conversation, by which its sessions are known.
func taken(state string) bool {
	return strings.HasPrefix(state, "onboarding:awaiting_")
}

// checkStates refuses state tokens that stand for something else.
func (f *Flow) checkStates(found *Problems) {
	for _, id := range f.Order {
		if s := f.Steps[id]; taken(s.State) {
			found.addf(File, s.Line, "step %s: the state %s is one of the deployment's own conversation; choose another", id, s.State)
		}
	}
}

// checkEntry refuses keywords that no flow gets, and one that stands twice.
func (f *Flow) checkEntry(found *Problems) {
	seen := map[string]bool{}
	for _, word := range f.Keywords {
		switch {
		case IsConsent(word):
			found.addf(File, f.lines["entry"], "entry: %q is a word like STOP, START or HELP, which no flow gets", word)
		case Keyword(word) == "", seen[Keyword(word)]:
			found.addf(File, f.lines["entry"], "entry: %q has no letters, or stands twice", word)
		}
		seen[Keyword(word)] = true
	}
}

// Keyword returns a text as entry keywords are compared: people write them with any capitals, accents and signs.
func Keyword(text string) string { return fold(text) }

// celProblem returns what CEL says, in words of flows where a name is unknown.
func celProblem(fields map[string]Field, err error) string {
	said := place.ReplaceAllString(firstLine(err.Error()), "")
	if strings.HasPrefix(said, "token recognition error at: '=") || assigned.MatchString(said) {
		return "it compares with =; write =="
	}
	if mixed := overload.FindStringSubmatch(said); mixed != nil {
		return fmt.Sprintf("%s cannot stand between a %s and a %s", mixed[1], mixed[2], mixed[3])
	}
	if !strings.Contains(said, "undeclared reference") {
		return said
	}
	if strings.Contains(err.Error(), "has(person.") { // of the condition, which is drawn below the message
		return "has is not known, and not needed: a comparison with a field that has no value is not met"
	}
	names := []string{"person.locale", "person.first_name", "person.time_zone"}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		names = append(names, "person.fields."+name)
	}
	return "it has a name that is unknown; the names are " + strings.Join(names, ", ")
}

// The parts of what CEL says: where, within the condition, and which types an operator does not take together.
var (
	place    = regexp.MustCompile(`^ERROR: <input>:\d+:\d+: `)
	assigned = regexp.MustCompile(`'=\s?'|\bat: '=`)
	overload = regexp.MustCompile(`^found no matching overload for '_(\S+)_' applied to '\((\w+), (\w+)\)'$`)
)

// firstLine returns the first line of CEL's message, without the drawing under it.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// edges holds every step that another names to the steps that there are.
func (f *Flow) edges(found *Problems) (whole bool) {
	whole = true
	if !f.holds(f.Start) {
		found.addf(File, f.lines["start"], "start: there is no step %s", f.Start)
		whole = false
	}
	for _, id := range f.Order {
		s := f.Steps[id]
		for _, next := range s.next() {
			if !f.holds(next) {
				found.addf(File, s.Line, "step %s leads to %s, which is no step", id, next)
				whole = false
			}
		}
		if s.Negative != nil && s.Negative.WaitAt != "" && f.holds(s.Negative.WaitAt) && !f.Steps[s.Negative.WaitAt].Waits {
			found.addf(File, s.Line, "step %s: negative waits at %s, which waits for no reply", id, s.Negative.WaitAt)
		}
	}
	if whole {
		f.checkFirst(found)
	}
	return whole
}

// checkFirst holds the steps that a person can begin with, also behind conditions, to what sends a text. Only behind a condition may one be
// an end, for the people whom the flow sends nothing.
func (f *Flow) checkFirst(found *Problems) {
	first := f.closure([]string{f.Start}, func(id string) []string {
		if s := f.Steps[id]; s.Kind == If {
			return s.next()
		}
		return nil
	})
	for _, id := range f.Order {
		switch s := f.Steps[id]; {
		case !first[id], s.Kind == If, s.Kind == End && id != f.Start:
		case s.Kind != Send && s.Kind != Ask:
			found.addf(File, s.Line, "step %s can be the first, and sends no text; begin with send or ask", id)
		case s.AfterDelivery > 0 && id == f.Start:
			found.addf(File, s.Line, "step %s: after_delivery is for a step that has a text before it", id)
		}
	}
}

// reach finds the steps that cannot be reached, and those from which no end can be.
func (f *Flow) reach(found *Problems) {
	reached := f.closure([]string{f.Start}, func(id string) []string { return f.Steps[id].next() })
	before := map[string][]string{}
	var ends []string
	for _, id := range f.Order {
		if kind := f.Steps[id].Kind; kind == End || kind == Start {
			ends = append(ends, id)
		}
		for _, next := range f.Steps[id].next() {
			before[next] = append(before[next], id)
		}
	}
	ending := f.closure(ends, func(id string) []string { return before[id] })
	for _, id := range f.Order {
		switch {
		case !reached[id]:
			found.addf(File, f.Steps[id].Line, "step %s cannot be reached from %s", id, f.Start)
		case !ending[id]:
			found.addf(File, f.Steps[id].Line, "no end can be reached from step %s", id)
		}
	}
}

// closure lists all that can be reached.
func (f *Flow) closure(from []string, next func(id string) []string) map[string]bool {
	reached := map[string]bool{}
	for len(from) > 0 {
		id := from[0]
		from = from[1:]
		if !reached[id] {
			reached[id] = true
			from = append(from, next(id)...)
		}
	}
	return reached
}

// circles finds the steps that lead back to themselves without an answer of the person. Such a flow would never end, and would send texts
// again and again.
func (f *Flow) circles(found *Problems) {
	for _, id := range f.Order {
		if f.closure(f.alone(id), f.alone)[id] {
			found.addf(File, f.Steps[id].Line, "step %s leads back to itself without an answer of the person; a circle needs a step that waits", id)
			return // the others of the circle would be named too
		}
	}
}

// Follows lists the flows that this one starts without an answer of the person, from its beginning on.
func (f *Flow) Follows() []string {
	reached := f.closure([]string{f.Start}, f.alone)
	var names []string
	for _, id := range f.Order {
		if s := f.Steps[id]; reached[id] && s.Kind == Start && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// alone lists the steps that can follow without the person's doing.
func (f *Flow) alone(id string) []string {
	s := f.Steps[id]
	switch {
	case s.Kind == HandOver:
		return nil
	case s.Kind == Start && s.Name == f.Name:
		return []string{f.Start}
	case !s.Waits:
		return s.next()
	case s.Silence != nil:
		return []string{s.Silence.Then}
	}
	return nil
}

// declare gives each field that a step saves its type, unless the flow declares it: that of the answer, or any for what the host
// application sets.
func (f *Flow) declare(found *Problems) {
	for _, id := range f.Order {
		s := f.Steps[id]
		if s.Save == "" {
			continue
		}
		if s.Save == FirstName {
			found.addf(File, s.Line, "step %s: %s is the person's name, and no field to save", id, FirstName)
		}
		saved := s.Expect.Type
		switch {
		case s.Kind == Call:
			saved = Any
		case saved == Reply:
			saved = Text
		}
		field, declared := f.Fields[s.Save]
		switch {
		case !declared, field.Type == Any:
			field.Type = saved
			f.Fields[s.Save] = field
		case s.Kind == Ask && field.Type != saved:
			found.addf(File, s.Line, "step %s saves %s as %s, but the field is %s", id, s.Save, saved, field.Type)
		}
	}
}

// checkAnswer holds what follows an answer to its form.
func (s Step) checkAnswer(found *Problems) {
	if s.Kind == Ask {
		if s.Expect.Type != Reply && s.Unclear == nil {
			found.addf(File, s.Line, "step %s: unclear is missing; an answer may have another form than %s", s.ID, s.Expect.Type)
		}
		if s.Expect.Type == Reply && s.Unclear != nil {
			found.addf(File, s.Line, "step %s: unclear is never used; any text is a reply", s.ID)
		}
		if s.Expect.Type == YesNo && s.Negative != nil {
			found.addf(File, s.Line, "step %s: negative is never used; a no is an answer to yes_no", s.ID)
		}
		if s.Expect.Min > s.Expect.Max {
			found.addf(File, s.Line, "step %s: min is above max", s.ID)
		}
	}
	if s.Negative != nil && !s.Waits || s.Silence != nil && !s.Waits {
		found.addf(File, s.Line, "step %s: negative and silence are for a step with wait: reply", s.ID)
	}
	if s.Silence != nil && s.Silence.After <= 0 {
		found.addf(File, s.Line, "step %s: silence must be longer than 0s", s.ID)
	}
	if s.Branches == nil {
		return
	}
	answers := s.answers()
	if slices.Contains(answers, "else") {
		found.addf(File, s.Line, "step %s: a choice cannot be called else", s.ID)
	}
	if answers == nil && s.Kind != Call {
		found.addf(File, s.Line, "step %s: then must name one step; only choice and yes_no have branches", s.ID)
		return
	}
	for _, answer := range slices.Sorted(maps.Keys(s.Branches)) {
		if s.Kind != Call && !slices.Contains(answers, answer) {
			found.addf(File, s.Line, "step %s: then has a branch for %s; the answers are %s", s.ID, answer, strings.Join(answers, ", "))
		}
	}
	for _, answer := range answers {
		if s.Branches[answer] == "" && s.Then == "" {
			found.addf(File, s.Line, "step %s: then has no branch for %s, and no else", s.ID, answer)
		}
	}
	if s.Kind == Call && s.Then == "" {
		found.addf(File, s.Line, "step %s: then has no else; the host application may choose no branch", s.ID)
	}
}

// answers lists the answers that may have a branch each.
func (s Step) answers() []string {
	switch s.Expect.Type {
	case Choice:
		return s.Expect.Choices
	case YesNo:
		return []string{yes, no}
	default:
		return nil
	}
}
