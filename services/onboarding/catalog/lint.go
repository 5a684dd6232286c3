package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/words"
)

// placeholder is the name of the person, which every text may have.
const placeholder = "{first_name}"

// shape is the form that one text must have.
type shape struct {
	params  []string // the placeholders that it must have
	may     []string // those that it may have besides
	choices int      // it asks for one of the digits 1 to this
	example bool     // it may quote one example
	undo    string   // it must offer the words that do this

	segments int // that it may take at most, with the person's own words in it; 0 is two
}

// most returns the most segments that a text of the shape may take.
func (s shape) most() int { return cmp.Or(s.segments, 2) }

// set is the texts of one purpose, and the rules that they have in common.
type set struct {
	purpose   string
	shapes    map[string]shape // the texts that every version has in every language
	further   *regexp.Regexp   // the keys of those that it may have besides; nil is none
	forbidden []string         // phrases that it does not say, in lower case
	capitals  []string         // words that it may write in capitals
	shouts    int              // how many letters in capitals are a shouted word
	more      func(locale string, s shape, text string) []string
}

// A text must fit two segments, and one with the person's own words a few more. In GSM-7 two hold 306 characters, and a few are kept in
// hand; one character outside moves the whole text to UCS-2, where they hold 134. A text with a name always counts as UCS-2: João would
// make it so.
const (
	maxGSM7 = 300
	maxUCS2 = 134
)

var (
	messageKey = regexp.MustCompile(`^ONBOARDING_MESSAGE_[1-9][0-9]{0,2}$`)
	counter    = words.Together().Regexp(`(?i)\d\s*(?:/|{count-of})\s*\d|\d\s*%|\b{count-step}\s+\d`)
)

// onboardingSet are the texts of onboarding. Only the words that people are asked to text back are in capitals.
func onboardingSet() set {
	return set{
		purpose: "onboarding",
		shapes: map[string]shape{
			"ONBOARDING_OPENING": {params: []string{"first_name"}}, "ONBOARDING_EXPLANATION": {}, "ONBOARDING_LATER": {},
			"ONBOARDING_MESSAGE_1": {}, "ONBOARDING_MESSAGE_2": {}, "ONBOARDING_MESSAGE_3": {}, "ONBOARDING_MESSAGE_4": {},
		},
		further:   messageKey,
		forbidden: phrases("praise", "pressure", "guilt", "guarantee"),
		capitals:  words.Together().Lines("capital"),
		shouts:    4,
		more: func(_ string, _ shape, text string) []string {
			if strings.ContainsFunc(text, unicode.IsControl) {
				return []string{"has a line break or space around it"}
			}
			return nil
		},
	}
}

// phrases returns what the texts of a set do not say, in lower case and in every language. The keys of engagement forbid more than those of
// onboarding, but not praise: engagement celebrates what a person did.
func phrases(keys ...string) (all []string) {
	for _, key := range keys {
		all = append(all, words.Together().Lines(key)...)
	}
	return all
}

// problems returns the faults of an edition.
func (e edition) problems(s set) []string {
	var found []string
	if e[fallback] == nil {
		found = append(found, "language "+fallback+" is missing; every other falls back to it")
	}
	keys := slices.Collect(maps.Keys(s.shapes))
	for _, texts := range e {
		keys = slices.AppendSeq(keys, maps.Keys(texts))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if _, known := s.shapes[key]; !known && (s.further == nil || !s.further.MatchString(key)) {
			found = append(found, key+" is not a key of "+s.purpose)
		}
		for _, locale := range slices.Sorted(maps.Keys(e)) {
			for _, problem := range s.textProblems(locale, key, e[locale][key]) {
				found = append(found, fmt.Sprintf("%s in %s %s", key, locale, problem))
			}
		}
	}
	return found
}

// textProblems returns the faults of one text, each as the end of a sentence.
func (s set) textProblems(locale, key, text string) []string {
	if strings.TrimSpace(text) == "" {
		return []string{"is missing or empty"}
	}
	var found []string
	fixed, allowed := strings.ReplaceAll(text, placeholder, ""), []string{placeholder}
	for _, param := range s.shapes[key].params {
		name := "{" + param + "}"
		if !strings.Contains(text, name) {
			found = append(found, "does not have "+name)
		}
		if name != placeholder {
			fixed, allowed = strings.ReplaceAll(fixed, name, ""), append(allowed, name)
		}
	}
	for _, param := range s.shapes[key].may {
		if name := "{" + param + "}"; (Params{}).values(locale)[param] != "" { // the words of the language are known
			fixed, allowed = strings.ReplaceAll(fixed, name, ""), append(allowed, name)
		}
	}
	if strings.ContainsAny(fixed, "{}") {
		found = append(found, "has a brace outside "+strings.Join(allowed, " and "))
	}
	if strings.TrimSpace(text) != text {
		found = append(found, "has a line break or space around it")
	}
	if problem := lengthProblem(s.shapes[key].most(), locale, key, text, fixed); problem != "" {
		found = append(found, problem)
	}
	found = append(found, s.toneProblems(fixed)...)
	return append(found, s.more(locale, s.shapes[key], text)...)
}

// lengthProblem reports a text that takes more segments than it may with the widest name and parameters. fixed is the text without them.
func lengthProblem(segments int, locale, key, text, fixed string) string {
	name, params := Widest(key)
	full := fill(locale, text, name, params)
	limit, why := maxGSM7/2*segments, "in GSM-7"
	ucs2 := strings.ContainsFunc(full, outsideGSM7)
	if ucs2 {
		limit, why = maxUCS2/2*segments, "because a name may leave GSM-7"
	}
	if i := strings.IndexFunc(fixed, outsideGSM7); i >= 0 {
		r, _ := utf8.DecodeRuneInString(fixed[i:])
		why = fmt.Sprintf("because %q is not in GSM-7", r)
	}
	length := units(full)
	for cut := 1; ucs2 && cut < segments; cut++ {
		if pairAt(full, cut*maxUCS2/2) {
			length++ // a pair is not cut in two, so the segment before stays one unit short
		}
	}
	if length > limit {
		held := [...]string{2: "two", 3: "three", 4: "four", 5: "five"}[segments]
		return fmt.Sprintf("is %d characters; %s segments hold %d %s", length, held, limit, why)
	}
	return ""
}

// outsideGSM7 counts the characters that take two septets as outside, since copy has no use for them.
func outsideGSM7(r rune) bool { return letters.Septets(r) != 1 }

// pairAt reports whether a cut after so many units would go through a surrogate pair.
func pairAt(text string, cut int) bool {
	used := 0
	for _, r := range text {
		if used == cut-1 && utf16.RuneLen(r) == 2 {
			return true
		}
		used += utf16.RuneLen(r)
	}
	return false
}

// toneProblems are the things in a text that the set does not say.
func (s set) toneProblems(text string) []string {
	var found []string
	text = strings.ReplaceAll(text, "’", "'")
	said := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '-'
	})
	whole := " " + strings.ToLower(strings.Join(said, " ")) + " "
	for _, phrase := range s.forbidden {
		if strings.Contains(whole, " "+phrase+" ") {
			found = append(found, fmt.Sprintf("says %q", phrase))
		}
	}
	if counter.MatchString(text) {
		found = append(found, "counts progress")
	}
	if strings.Contains(text, "!!") {
		found = append(found, "has more than one ! in a row")
	}
	for _, word := range said {
		if len([]rune(word)) >= s.shouts && word == strings.ToUpper(word) && word != strings.ToLower(word) && !slices.Contains(s.capitals, word) {
			found = append(found, fmt.Sprintf("shouts %q", word))
		}
	}
	return found
}

// units returns the length in UTF-16 code units, which UCS-2 counts.
func units(text string) int {
	length := 0
	for _, r := range text {
		length += utf16.RuneLen(r)
	}
	return length
}

// firstUnits is the beginning of a word that takes at most limit units.
func firstUnits(word string, limit int) string {
	used := 0
	for i, r := range word {
		if used += utf16.RuneLen(r); used > limit {
			return word[:i]
		}
	}
	return word
}
