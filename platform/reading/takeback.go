package reading

import (
	"regexp"
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

// Taken names the thing that a text takes back, if the text does that and nothing else.
type Taken int

// The things.
const (
	TakesNothing  Taken = iota
	TakesIt             // what was agreed last, by a pronoun: "cancel that", "nevermind, cancel"
	TakesReminder       // a reminder, by its name: "never mind the reminder"
)

var takesIt, takesReminder = takings(languages.Together())

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

func takings(l languages.Language) (it, reminder *regexp.Regexp) {
	of := func(keys ...string) string {
		var words []string
		for _, key := range keys {
			words = append(words, l.Lines("take-"+key)...)
		}
		return `(?:` + strings.Join(words, "|") + `)`
	}
	around, polite := `(?:`+of("lead", "courtesy")+` )*`, `(?: `+of("lead", "courtesy")+`)*$`
	pronoun := of("verb") + ` ` + of("thing") + `|` + of("glued") + `|` + of("lead") + ` ` + of("bare")
	it = regexp.MustCompile(`^` + around + `(?:` + pronoun + `)` + polite)
	return it, regexp.MustCompile(`^` + around + of("verb") + ` ` + of("named") + polite)
}
