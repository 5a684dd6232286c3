package consent

import (
	"slices"
	"strings"
	"unicode/utf8"

	"paceline.internal/platform/reading/languages"
)

// doubtful is the net under the rules of Revocation: a short text with a word of revoking in it is doubtful, unless it is one of the
// everyday phrases that have the same words. What a person may have meant as the end is looked at by an operator, and not answered with
// the next text. The last of its guesses are slips of the thumb ("STOPP") and a name that is not theirs ("I'm not Ana").
func doubtful(body, text string) (Locale, bool) {
	said := strings.Fields(strings.ReplaceAll(text, ",", " "))
	if len(said) == 0 || len(said) > shortText || goalWords.MatchString(text) {
		return English, false
	}
	meant := negated.ReplaceAllString(text, " ")
	if ofPreferences.MatchString(meant) {
		return English, wider.MatchString(meant)
	}
	meant = everyday.ReplaceAllString(everyday.ReplaceAllString(meant, " "), " ") // twice, since two phrases may share a space
	meant = withoutDeeds(meant)
	for _, r := range slices.Concat(allRules[1:], allRules[:1]) { // English last: its words are used in other languages, too
		if r.doubtful.MatchString(meant) || r.notThey(body) {
			return r.locale, true
		}
	}
	return slip(said)
}

// signed reports whether a text has a sign of an end, and no words but courtesies: "🛑 please".
func signed(body, text string) bool {
	for word := range strings.FieldsSeq(strings.ReplaceAll(text, ",", " ")) {
		if !slices.Contains(together.Lines("polite-word"), word) {
			return false
		}
	}
	return strings.ContainsAny(body, "🛑🚫⛔🔕📵🙅")
}

// shortText is the most words of a text in which one word decides. A longer one tells a story.
const shortText = 12

var (
	// goalWords begin a goal by text, which may speak of anything.
	goalWords = together.Regexp(`^ (?:{courtesy} )?{goal} `)
	// ofPreferences has the words of PreferencesOf, and wider the words that ask for more than that.
	ofPreferences = together.Regexp(` {preference-word} `)
	wider         = together.Regexp(` {wider} `)
	everyday      = together.Regexp(` {everyday} `)
	// deed names an activity that a person stops; ourTexts name our messages, which we may be told to stop.
	deed     = together.Regexp(` {deed} `)
	ourTexts = together.Regexp(` {our-texts}\w* $`)
	notName  = together.Regexp(`(?i)^{not-name}$`)
)

// withoutDeeds takes out what has nothing to do with our texts: "stop smoking".
func withoutDeeds(text string) string {
	return deed.ReplaceAllStringFunc(text, func(deed string) string {
		if ourTexts.MatchString(deed) {
			return deed
		}
		return " "
	})
}

// capital is a name behind words such as "I'm not". Only its capital, and what is known to be none, tells it from "I'm not sure".
const capital = ` (\p{Lu}\p{Ll}+)(?:[^\pL\pN]*$|[,.!?;])`

func (r rules) notThey(body string) bool {
	name := r.notThem.FindStringSubmatch(body)
	return name != nil && !notName.MatchString(name[1])
}

// onlyNotThem finds a text like "I'm not Ana", without more. The model knows few names, and misreads such a text with another one.
var onlyNotThem = together.Regexp(`^[^\pL\pN]*(?:(?i:{greeting}|{courtesy})[^\pL\pN]+)?(?i:{not-them}) (\p{Lu}\p{Ll}+)` +
	`(?:[^\pL\pN]+(?i:{greeting}|{courtesy}))?[^\pL\pN]*$`)

// saysOnlyNotThem reports whether a text is "I'm not Ana" and no more than courtesies.
func saysOnlyNotThem(body string) bool {
	name := onlyNotThem.FindStringSubmatch(body)
	return name != nil && !notName.MatchString(name[1])
}

// spelled finds a stop word with spaces between its letters, and two words without one: "S T O P", "parepare".
func spelled(text string) (Locale, bool) {
	said := strings.Fields(strings.ReplaceAll(text, ",", " "))
	found, locale := glued(said)
	if !slices.ContainsFunc(said, func(word string) bool { return utf8.RuneCountInString(word) > 1 }) {
		found, locale = keywords(strings.Join(said, ""))
	}
	return locale, slices.Contains(found, "stop")
}

// slip finds the stop words in a text of one word, or at the beginning of one, that is a letter off.
func slip(said []string) (Locale, bool) {
	if joined, locale := keywords(strings.Join(said, "")); slices.Contains(joined, "stop") { // "AR RET"
		return locale, true
	}
	for len(said) > 1 && slices.Contains(together.Lines("polite-word"), said[0]) {
		said = said[1:]
	}
	for _, l := range languages.All() {
		words := l.Lines("slip-begin")
		if len(said) == 1 {
			words = slices.Concat(words, l.Lines("slip"))
		}
		off := func(word string) bool { return oneOff(said[0], word) }
		if slices.ContainsFunc(words, off) && !slices.Contains(together.Lines("own-word"), said[0]) {
			return Locale(l.Locale), true
		}
	}
	return English, false
}

const longWord = 16 // bytes of a keyword

// glued reads a single word as two keywords: "parepare".
func glued(said []string) (found []string, locale Locale) {
	if len(said) != 1 || len(said[0]) > 2*longWord {
		return nil, English
	}
	for at := range said[0] {
		if found, locale = keywords(said[0][:at] + " " + said[0][at:]); len(found) > 1 {
			return found, locale
		}
	}
	return nil, English
}

// oneOff reports whether one letter was left out, put in, changed, or swapped with the next.
func oneOff(a, b string) bool {
	if a == b || len(a) < 3 {
		return false
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 0:
		return a[i+1:] == b[i+1:] || (i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:])
	case 1:
		return a[i:] == b[i+1:]
	}
	return false
}
