// Package timeparse reads when a goal is meant: "call John tomorrow at nine" is the goal "call John" and an instant.
//
// A text is cut into words, and a vocabulary for each language (words/*.tsv) gives each its class. A few closed forms find the times in
// the row of classes. A text has an instant only if every word that may belong to a time was used by a form (marks.go): whatever
// is left over makes it Unclear, because a goal that runs at once or at the wrong hour is the worst error.
package timeparse

import (
	"strings"
	"time"
)

// Kind tells an instant from an unclear time and from none.
type Kind int

// The kinds.
const (
	None    Kind = iota // no word of time: the goal is meant now
	At                  // an instant
	Unclear             // something of time that was not understood for certain: nothing may run
)

// Reading has the time and the goal of a text.
type Reading struct {
	Kind Kind `json:"kind"`
	// At is the instant in whole seconds, in UTC.
	At time.Time `json:"at"`
	// Goal is the text without its words of time, where they were understood; the whole text otherwise. It is empty only where the text was
	// nothing but a time.
	Goal string `json:"goal"`
	// Understood is the instant as a person says it, in the language of the locale; of an unclear text its words of time.
	Understood string `json:"understood"`
	// Note says in the language of the locale what was assumed where more than one time was possible.
	Note string `json:"note"`
	// Past is set for a time that was named and has passed. The kind is Unclear.
	Past bool `json:"past"`
}

// Read reads a text that reached us at now from a person in this zone. A text that has words of time of another language than that of the
// locale is read in both, and where both are sure they have to agree.
func Read(text, locale string, zone *time.Location, now time.Time) Reading {
	writer := personOf(locale, zone, now)
	own, foreign := parse(text, locale)
	reading := own.reading(writer)
	if foreign == nil {
		return reading
	}
	_, sure := own.proper(foreign.lang)
	some, foreignSure := foreign.proper(own.lang)
	other := foreign.reading(writer)
	switch {
	case some && !foreignSure && (reading.Kind == None || reading.Kind == At && !sure):
		return Reading{Kind: Unclear, Goal: strings.TrimSpace(text), Understood: foreign.found()}
	case !foreignSure, sure && reading.Kind == At && other.Kind == At && reading.At.Equal(other.At):
		return reading
	case !sure:
		return other
	}
	return Reading{Kind: Unclear, Goal: strings.TrimSpace(text), Understood: reading.Understood}
}

// parse parses a text in the language of the locale, and in the other one that has most of its words of time, if there is one.
func parse(text, locale string) (own, foreign *parser) {
	words, lang := cut(text), languageOf(locale)
	own = lang.parse(text, words)
	var most int
	var other *language
	for _, l := range all {
		n := 0
		for _, it := range l.items(words) {
			if it.proper(lang) {
				n++
			}
		}
		if l != lang && n > most {
			most, other = n, l
		}
	}
	if other != nil {
		foreign = other.parse(text, words)
	}
	return own, foreign
}

// reading returns what a text says of a time.
func (p *parser) reading(writer person) Reading {
	whole := Reading{Goal: strings.TrimSpace(p.text)}
	if len(p.elements) == 0 && !p.marked {
		return whole
	}
	whole.Kind, whole.Understood = Unclear, p.found()
	meant, certain := p.meant()
	if !certain {
		whole.Past = p.past()
		return whole
	}
	resolved := meant.resolve(writer)
	if resolved.Kind != At {
		whole.Past = resolved.Past
		return whole
	}
	resolved.Goal = p.goal()
	return resolved
}

// proper reports whether the text has words of time that only this one of two languages has: some, and some that no other word looks like.
func (p *parser) proper(other *language) (some, sure bool) {
	for i := range p.items {
		if it := &p.items[i]; it.time && it.proper(other) {
			some = some || !among(it.code, "jy") || it.in != nil
			sure = sure || it.core || it.code == '@'
		}
	}
	return some, sure
}

// Day reads the day that a text names, with a time of day or without one: midnight of that day in UTC. It reports false where the text
// names no day, or may name two.
func Day(text, locale string, zone *time.Location, now time.Time) (time.Time, bool) {
	writer := personOf(locale, zone, now)
	own, foreign := parse(text, locale)
	for _, p := range []*parser{own, foreign} {
		if p == nil {
			continue
		}
		m, fits := p.sum()
		named := len(m.days) > 0 && m.amount == nil || len(m.days) == 0 && m.amount != nil && m.amount.Exact == 0
		if !fits || !named {
			continue
		}
		if dates := m.dates(writer.today()); len(dates) == 1 {
			return dates[0], true
		}
	}
	return time.Time{}, false
}

// OnClock returns the reading of a wall-clock time, given as if in UTC: Unclear and Past where it has passed.
func OnClock(wall time.Time, goal, locale string, zone *time.Location, now time.Time) Reading {
	writer := personOf(locale, zone, now)
	reading := writer.onClock(wall)
	reading.Goal = goal
	return reading
}

// FromNow returns the reading of an amount from now.
func FromNow(amount Amount, goal, locale string, zone *time.Location, now time.Time) Reading {
	writer := personOf(locale, zone, now)
	reading := writer.inAmount(amount)
	reading.Goal = goal
	return reading
}
