package catalog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/words"
)

var (
	quoted = regexp.MustCompile(`"([^"]*)"`)
	digit  = regexp.MustCompile(`\d+`)
	named  = regexp.MustCompile(`(^|[^ ])\{first_name\}`)
)

var (
	stopAlone = languages.Together().Regexp(`(?i)^\W*{stop}\W*$`)
	stopAsked = languages.Together().Regexp(`(?i)\b` + words.All().Alternatives("ask-send") +
		`(?: ` + words.All().Alternatives("ask-with") + `)? ["']?{stop}(?:[^\pL]|$)`)
)

// engagementSet are the texts of engagement. Nothing is in capitals: the words that it offers are in double quotes, and STOP is none
// of them.
func engagementSet() set {
	return set{
		purpose:   "engagement",
		shapes:    shapes(),
		forbidden: phrases("pressure", "guilt", "guarantee", "reproach", "insistence", "judgement", "stiffness"),
		capitals:  []string{"SMS", "OK"},
		shouts:    2,
		more:      engagementProblems,
	}
}

// engagementProblems returns the faults of one text of engagement, besides those that every set refuses.
func engagementProblems(locale string, s shape, text string) []string {
	var found []string
	if strings.Contains(text, "\n\n") || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
		found = append(found, "has an empty line or a control character")
	}
	if count := emoji(text); count > 1 {
		found = append(found, fmt.Sprintf("has %d emoji, at most one", count))
	}
	if named.MatchString(text) {
		found = append(found, "has "+placeholder+" where it cannot be left out: write a space before it")
	}
	if strings.ContainsFunc(text, dressed) {
		found = append(found, "has digits other than plain 1, 2, 3")
	}
	if s.choices > 0 {
		for i, offered := range digit.FindAllString(text, -1) {
			if offered != strconv.Itoa(i+1) {
				found = append(found, fmt.Sprintf("has %s where the choice %d comes", offered, i+1))
			}
		}
		if count := len(digit.FindAllString(text, -1)); count != s.choices {
			found = append(found, fmt.Sprintf("has %d choices; they are 1 to %d", count, s.choices))
		}
	}
	return append(found, offerProblems(locale, s, text)...)
}

// offerProblems returns the faults of the words that a text asks people to send.
func offerProblems(locale string, s shape, text string) []string {
	var found []string
	if strings.ContainsAny(text, "“”„«»") || strings.Count(text, `"`)%2 > 0 {
		found = append(found, `quotes otherwise than by a pair of "`)
	}
	offers, known := Offered()[strings.ToLower(languages.Base(locale))]
	if !known {
		offers = Offered()[fallback]
	}
	understood, examples, rest := slices.Sorted(maps.Values(offers)), 0, text
	for _, quote := range quoted.FindAllStringSubmatch(text, -1) {
		switch phrase := quote[1]; {
		case stopAlone.MatchString(phrase):
			found = append(found, fmt.Sprintf("offers %q, which means STOP", phrase))
		case slices.Contains(understood, phrase):
		case s.example:
			examples++
		default:
			found = append(found, fmt.Sprintf("offers %q; what is understood is: %s", phrase, strings.Join(understood, ", ")))
		}
		rest = strings.Replace(rest, quote[0], "", 1)
	}
	if asked := stopAsked.FindString(rest); asked != "" {
		found = append(found, fmt.Sprintf("says %q, which asks for STOP", asked))
	}
	if examples > 1 {
		found = append(found, fmt.Sprintf("has %d examples, at most one", examples))
	}
	if undo := offers[s.undo]; s.undo != "" && !strings.Contains(text, `"`+undo+`"`) {
		found = append(found, fmt.Sprintf("does not say how to undo it: %q", undo))
	}
	return found
}

// emoji counts the emoji as a strict reader does: every symbol, but not the parts of one that are joined or only colour it, and a
// digit in a keycap.
func emoji(text string) int {
	count, joined := 0, false
	for _, r := range text {
		if r == '\u20e3' || unicode.Is(unicode.So, r) && !joined {
			count++
		}
		joined = r == '\u200d'
	}
	return count
}

// dressed tells digits in keycaps, circles, superscripts and other scripts.
func dressed(r rune) bool { return r == '\u20e3' || r > '9' && unicode.IsNumber(r) }
