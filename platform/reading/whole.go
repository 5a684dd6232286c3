package reading

import (
	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

var (
	yeses    = languages.PhrasesOf("affirmation")
	refusals = languages.PhrasesOf("refusal", "courtesy")
)

// Affirmed reports whether the whole text says yes, or go on, in any language, and nothing else: "yes please" may be a yes to something
// else.
func Affirmed(text string) bool { return yeses.Read(text) != nil }

// Refused reports whether a text has a listed no, or a not now, and nothing else but courtesies; or no words and a sign that is a no, such
// as 👎.
func Refused(text string) bool {
	if isNo(text) && len(letters.Words(text)) == 0 {
		return true
	}
	for _, meanings := range refusals.Read(text) {
		if meanings[0].Key == "refusal" {
			return true
		}
	}
	return false
}
