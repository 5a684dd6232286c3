package flow

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/words"
)

// Check reads the folder of a flow that is to be published. It refuses what Parse does, and also what people would stumble over. An earlier
// release may have stored such a flow, so Parse goes on to load it.
func Check(folder fs.FS) (Flow, error) {
	flow, err := Parse(folder)
	if err != nil {
		return flow, err
	}
	var found Problems
	flow.checkKeywords(&found)
	for _, id := range flow.Order {
		s := flow.Steps[id]
		if s.Silence != nil && s.Silence.Text == "" && s.Silence.Times > 1 {
			found.addf(File, s.Line, "step %s: silence has times and sends nothing; add send: TEXT, or take times out", id)
		}
		if s.Kind == If {
			flow.checkCondition(s, &found)
		}
	}
	for _, language := range flow.Languages {
		flow.checkSense(language, &found)
	}
	if err := found.err(); err != nil {
		return Flow{}, err
	}
	return flow, nil
}

// everyday reports whether a word is an answer that people write for other reasons: a yes, a no, a greeting, thanks or a small number.
func everyday(word string) bool {
	folded := fold(word)
	all := languages.Together()
	for _, key := range []string{"affirmation", "aside", "greeting", "courtesy", "take-courtesy"} {
		if slices.Contains(all.Lines(key), folded) {
			return true
		}
	}
	return len(folded) < 3 && digits.FindString(folded) == folded || reading.Refused(word)
}

// checkKeywords refuses keywords that people write for other reasons: such a text would start the flow, and count as consent.
func (f *Flow) checkKeywords(found *Problems) {
	for _, word := range f.Keywords {
		if everyday(word) {
			found.addf(File, f.lines["entry"],
				"entry: %q is an everyday answer, by which people would start the flow unawares; choose a word like JOIN", word)
		}
	}
}

// The comparisons of a condition between a name and a value that is written out.
var (
	literal  = `('[^']*'|"[^"]*"|-?\d+(?:\.\d+)?)`
	subject  = `person\.(locale|fields\.\w+)`
	operator = `\s*(==|!=|<=|>=|<|>)\s*`
	forwards = regexp.MustCompile(`(?:^|[(&|?:])\s*` + subject + operator + literal + `\s*(?:$|[)&|?:])`)
	reversed = regexp.MustCompile(`(?:^|[(&|?:])\s*` + literal + operator + subject + `\s*(?:$|[)&|?:])`)
	within   = regexp.MustCompile(subject + `\s+in\s+\[([^\]]*)\]`)
	literals = regexp.MustCompile(literal)
)

// mirrored turns an operator for the other order of its sides.
var mirrored = map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}

// checkCondition refuses a condition that asks for nothing, and one that compares with a value that is never there.
func (f *Flow) checkCondition(s Step, found *Problems) {
	if !strings.Contains(s.Condition, "person.") {
		found.addf(File, s.Line, "step %s: the condition %s asks for nothing of the person, and always goes the same way", s.ID, s.Condition)
	}
	compare := func(name, operator, value string) {
		if form := f.never(name, operator, strings.Trim(value, `'"`)); form != "" {
			found.addf(File, s.Line, "step %s: the condition compares person.%s with %s, but it is %s", s.ID, name, value, form)
		}
	}
	for rest := s.Condition; ; {
		at := forwards.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		compare(rest[at[2]:at[3]], rest[at[4]:at[5]], rest[at[6]:at[7]])
		rest = rest[at[7]:] // the sign behind one comparison stands before the next
	}
	for _, match := range reversed.FindAllStringSubmatch(s.Condition, -1) {
		compare(match[3], mirrored[match[2]], match[1])
	}
	for _, match := range within.FindAllStringSubmatch(s.Condition, -1) {
		for _, value := range literals.FindAllString(match[2], -1) {
			compare(match[1], "==", value)
		}
	}
}

// never returns the form of the values of a name, where a comparison of them with a value always goes the same way; else it is empty.
func (f *Flow) never(name, operator, value string) string {
	name, isField := strings.CutPrefix(name, "fields.")
	if !isField {
		written := languages.Written()
		near := func(locale string) bool { return strings.EqualFold(languages.Base(locale), languages.Base(value)) }
		if operator != "==" && operator != "!=" || slices.Contains(written, value) || !slices.ContainsFunc(written, near) {
			return "" // one that we do not write in yet may come
		}
		return "one of " + strings.Join(written, ", ")
	}
	var forms []string
	for _, id := range f.Order {
		s := f.Steps[id]
		if s.Save != name {
			continue
		}
		if s.Kind != Ask || s.Expect.meets(operator, value) {
			return ""
		}
		forms = append(forms, s.Expect.form())
	}
	return strings.Join(slices.Compact(forms), " or ")
}

// meets reports whether an answer may make a comparison with a value true, and for != whether one may make it false.
func (e Expect) meets(operator, value string) bool {
	equal := operator == "==" || operator == "!="
	switch e.Type {
	case Choice:
		return !equal || slices.Contains(e.Choices, value)
	case Date:
		return !equal || isDate(value)
	case Number:
	case Reply, Text, YesNo, Any:
		return true
	}
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil:
		return true
	case equal:
		return e.takes(Value{Type: Number, Number: n})
	case operator == "<":
		return e.Min < n
	case operator == "<=":
		return e.Min <= n
	case operator == ">":
		return e.Max > n
	}
	return e.Max >= n
}

// goals finds a text that begins a goal, or takes one back: goals are asked for before any flow.
var goals = sync.OnceValue(func() *regexp.Regexp {
	var leads, begins []string
	for _, l := range languages.All() {
		leads = append(leads, l.Lines("goal-lead")...)
		begins = append(append(begins, l.Lines("goal")...), l.Lines("goal-ask")...)
	}
	return regexp.MustCompile(fmt.Sprintf(`^(?:(?:%s) )*(?:%s)(?: |$)`, strings.Join(leads, "|"), strings.Join(begins, "|")))
})

var undoes = words.Together().Regexp(`^(?:{undo-polite} )*{undo}(?: {undo-thanks})*$`)

// isGoal reports whether goals take a text before a flow does.
func isGoal(word string) bool {
	return goals().MatchString(fold(word)) || undoes.MatchString(fold(word)) || reading.TakesBack(word) == reading.TakesReminder
}
