// Package when reads when a goal is meant: "call John tomorrow at nine" is the goal "call John" and an instant.
//
// A text is cut into words (words.go), a vocabulary for each language says what the words can be (english.go, portuguese.go), one grammar
// finds the times among them (clock.go, day.go, amount.go, grammar.go), and what was found is put together to an instant, or to nothing:
// whatever looks like a time and was not understood for certain (doubt.go) is Unclear, because a goal that runs at once although a time was
// meant is the worst error. What is a time in form and a property in fact, such as a recipe of 30 minutes, is left to the goal (task.go).
package when

import (
	"strings"
	"time"
)

// Kind is what a reading is.
type Kind int

// The kinds.
const (
	None    Kind = iota // no temporal word: the goal is meant now
	At                  // an instant
	Unclear             // something temporal that was not understood for certain: nothing may run
)

// Reading is what was read of a text.
type Reading struct {
	Kind Kind `json:"kind"`
	// At is the instant in whole seconds, in UTC.
	At time.Time `json:"at"`
	// Goal is the text without its words of time, where they were understood; the whole text otherwise. It is empty only where the text was
	// nothing but a time.
	Goal string `json:"goal"`
	// Understood is the instant as a person says it, in the language of the locale; of an unclear text its words of time.
	Understood string `json:"understood"`
	// Note says in the language of the locale what was chosen where more than one time was possible.
	Note string `json:"note"`
	// Past is set for a time that was named and has passed. The kind is Unclear.
	Past bool `json:"past"`
}

// Read reads a text that reached us at now from a person in this zone. A locale that begins with "pt" is Portuguese, every other one
// English; a text that holds the other language's words of time and none of its own is read as the other.
func Read(text, locale string, zone *time.Location, now time.Time) Reading {
	if zone == nil {
		zone = time.UTC
	}
	tokens := cut(text)
	own, other := languages(locale)
	reading, strong := read(text, tokens, own, &own.say, zone, now)
	foreign, foreignStrong := read(text, tokens, other, &own.say, zone, now)
	switch {
	case !foreignStrong, strong && reading.Kind == At && foreign.Kind == At && reading.At.Equal(foreign.At):
		return reading
	case !strong:
		return foreign
	default: // words of time of both
		return Reading{Kind: Unclear, Goal: strings.TrimSpace(text), Understood: reading.Understood}
	}
}

// languages are the one of a locale and the other one.
func languages(locale string) (own, other *language) {
	if strings.HasPrefix(strings.ToLower(locale), "pt") {
		return portuguese, english
	}
	return english, portuguese
}

// read reads a text in one language, and reports whether words of that language alone said something of a time.
func read(text string, tokens []token, lang *language, say *phrases, zone *time.Location, now time.Time) (_ Reading, strong bool) {
	p := &parser{lang: lang, text: text, items: lang.items(tokens)}
	p.scan()
	unclear := Reading{Kind: Unclear, Goal: strings.TrimSpace(text), Understood: p.found()}
	if len(p.elements) == 0 {
		return Reading{Goal: strings.TrimSpace(text)}, false
	}
	meant, ok := p.meant()
	if !ok {
		unclear.Past = p.past()
		return unclear, p.strong()
	}
	resolved := meant.resolve(lang, say, zone, now)
	if resolved.Kind != At {
		unclear.Past = resolved.Past
		return unclear, p.strong()
	}
	resolved.Goal = p.goal()
	return resolved, p.strong()
}
