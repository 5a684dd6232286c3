package reading

import (
	_ "embed"
	"regexp"
	"strings"

	"paceline.internal/platform/letters"
)

// Taken is what a text takes back, if it does that and nothing else.
type Taken int

// The things.
const (
	TakesNothing  Taken = iota
	TakesIt             // what was agreed last, by a pronoun: "cancel that", "nevermind, cancel"
	TakesReminder       // a reminder, by its name: "never mind the reminder"
)

//go:embed takeback.tsv
var takeback string

var takesIt, takesReminder = readTakeback(takeback)

// TakesBack reads a text that takes back one thing. Whether there was one, and which, its caller has to know: "stop that" ends a reminder
// that was just confirmed, and all texts elsewhere.
func TakesBack(text string) Taken {
	words := strings.Join(letters.Words(strings.ReplaceAll(Normalise(text), "'", "")), " ")
	switch {
	case takesReminder.MatchString(words):
		return TakesReminder
	case takesIt.MatchString(words):
		return TakesIt
	}
	return TakesNothing
}

func readTakeback(file string) (it, reminder *regexp.Regexp) {
	parts := map[string][]string{}
	for line := range strings.Lines(file) {
		if column := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3); len(column) == 3 {
			parts[column[0]] = append(parts[column[0]], column[2])
		}
	}
	of := func(kinds ...string) string {
		var words []string
		for _, kind := range kinds {
			words = append(words, parts[kind]...)
		}
		return `(?:` + strings.Join(words, "|") + `)`
	}
	around, polite := `(?:`+of("lead", "courtesy")+` )*`, `(?: `+of("lead", "courtesy")+`)*$`
	pronoun := of("verb") + ` ` + of("thing") + `|` + of("glued") + `|` + of("lead") + ` ` + of("bare")
	it = regexp.MustCompile(`^` + around + `(?:` + pronoun + `)` + polite)
	return it, regexp.MustCompile(`^` + around + of("verb") + ` ` + of("named") + polite)
}
