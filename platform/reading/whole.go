package reading

import (
	"slices"
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

var (
	yeses     = languages.PhrasesOf("affirmation")
	politely  = languages.PhrasesOf("affirmation", "courtesy")
	agreeing  = listed("class-yes")
	negating  = listed("class-neg")
	courteous = listed("courtesy")
	refusals  = languages.PhrasesOf("refusal", "courtesy")
)

// listed returns the words of a list, of all languages.
func listed(key string) map[string]bool {
	words := map[string]bool{}
	for _, line := range languages.Together().Lines(key) {
		for _, w := range letters.Words(line) {
			words[w] = true
		}
	}
	return words
}

// Affirmed reports whether the whole text says yes, or go on, in any language, and nothing else. Courtesies may stand around go on, but not
// around a yes alone: "yes please" may be a yes to something else.
func Affirmed(text string) bool {
	if yeses.Read(text) != nil {
		return true
	}
	said := func(meanings []languages.Phrase) bool { return meanings[0].Key == "affirmation" }
	return !Agreed(text) && slices.ContainsFunc(politely.Read(letters.Joined(text)), said)
}

// Agreed reports whether a text has words or a sign of a yes, and no others but courtesies: "yes please", "ok, claro", 👍. It reads the
// answer to a question that was just asked. An apostrophe separates nothing: d'accord is one word of the lists.
func Agreed(text string) bool {
	if len(letters.Words(text)) == 0 {
		return strings.ContainsAny(text, "👍✅👌🆗")
	}
	return only(text, agreeing)
}

// Declined reports whether a text has words or a sign of a no, and no others but courtesies. "later" is none.
func Declined(text string) bool {
	if len(letters.Words(text)) == 0 {
		return isNo(text)
	}
	return only(text, negating)
}

// Negated reports whether a text has a word of a no in the language of the locale. Of words with one or two letters only "no" is one: "na"
// is a no, and "in the".
func Negated(text, locale string) bool {
	of := languages.Of(locale).Text("class-neg")
	return slices.ContainsFunc(letters.Words(letters.Joined(text)), func(w string) bool {
		return (len(w) > 2 || w == "no") && slices.Contains(strings.Fields(of), w)
	})
}

// only reports whether a text has words of a list, and no others but courtesies.
func only(text string, list map[string]bool) bool {
	found := false
	for _, w := range letters.Words(letters.Joined(text)) {
		switch {
		case list[w]:
			found = true
		case !courteous[w]:
			return false
		}
	}
	return found
}

// Refused reports whether a text has a listed no, or a not now, and nothing else but courtesies; or no words and a sign that is a no, such
// as 👎.
func Refused(text string) bool {
	if isNo(text) && len(letters.Words(text)) == 0 {
		return true
	}
	isRefusal := func(meanings []languages.Phrase) bool { return meanings[0].Key == "refusal" }
	return slices.ContainsFunc(refusals.Read(text), isRefusal) || slices.ContainsFunc(refusals.Read(shortened(text)), isRefusal)
}

// shortened writes a letter once that stands three times or more in a row, as in "nooope". Two may be how the word is spelt: "noon".
func shortened(text string) string {
	row := []rune(strings.ToLower(text))
	short := make([]rune, 0, len(row))
	for i := 0; i < len(row); {
		next := i
		for next < len(row) && row[next] == row[i] {
			next++
		}
		if next-i >= 3 {
			short = append(short, row[i])
		} else {
			short = append(short, row[i:next]...)
		}
		i = next
	}
	return string(short)
}
