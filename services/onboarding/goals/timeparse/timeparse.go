// Package timeparse reads when a goal is meant: "call John tomorrow at nine" is the goal "call John" and an instant.
//
// A text is cut into words, and a vocabulary for each language (words/*.tsv) gives each its class. A few closed forms (forms.go) find the
// times in the row of classes. A text has an instant only if every word that may belong to a time was used by a form (marks.go): whatever
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

// Read reads a text that reached us at now from a person in this zone. A locale that begins with "pt" is Portuguese, every other one
// English; a text that has words of time of the other language and none of its language is read as the other.
func Read(text, locale string, zone *time.Location, now time.Time) Reading {
	if zone == nil {
		zone = time.UTC
	}
	now = now.Truncate(time.Second)
	words := cut(text)
	own, other := languages(locale)
	reading, sure := own.read(text, words, other, own.say, zone, now)
	foreign, otherSure := other.read(text, words, own, own.say, zone, now)
	switch {
	case !otherSure, sure && reading.Kind == At && foreign.Kind == At && reading.At.Equal(foreign.At):
		return reading
	case !sure:
		return foreign
	}
	return Reading{Kind: Unclear, Goal: strings.TrimSpace(text), Understood: reading.Understood}
}

// Day reads the day that a text names, with a time of day or without one: midnight of that day in UTC. It reports false where the text
// names no day, or may name two.
func Day(text, locale string, zone *time.Location, now time.Time) (time.Time, bool) {
	words := cut(text)
	own, other := languages(locale)
	for _, l := range []*language{own, other} {
		p := &parser{lang: l, text: text, items: l.items(words)}
		p.scan()
		p.mark()
		var m meaning
		fits := !p.doubtful
		for i := range p.elements {
			fits = fits && m.add(&p.elements[i])
		}
		days := len(m.days) > 0 && m.amount == nil || len(m.days) == 0 && m.amount != nil && m.amount.Exact == 0
		if !fits || !days || len(m.days) > 2 {
			continue
		}
		if m.amount != nil {
			m.amount.Days += monthsIn(m.amount.Months, now.In(zone))
		}
		if dates := m.dates(now.In(zone)); len(dates) == 1 {
			return dates[0], true
		}
	}
	return time.Time{}, false
}

// monthsIn returns how many days a number of months from a day has.
func monthsIn(months int, from time.Time) int {
	day := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, time.UTC)
	return int(day.AddDate(0, months, 0).Sub(day) / (24 * time.Hour))
}

// read reads a text in one language, and reports whether it has words of time that only this language has.
func (l *language) read(
	text string, words []word, other *language, say map[string]string, zone *time.Location, now time.Time,
) (reading Reading, sure bool) {
	p := &parser{lang: l, text: text, items: l.items(words)}
	p.scan()
	p.mark()
	whole := Reading{Goal: strings.TrimSpace(text)}
	if len(p.elements) == 0 && !p.marked {
		return whole, false
	}
	whole.Kind, whole.Understood, sure = Unclear, p.found(), p.sure(other)
	meant, certain := p.meant()
	if !certain {
		whole.Past = p.past()
		return whole, sure
	}
	resolved := meant.resolve(l, say, zone, now)
	if resolved.Kind != At {
		whole.Past = resolved.Past
		return whole, sure
	}
	resolved.Goal = p.goal()
	return resolved, sure
}

// OnClock is the reading of a wall-clock time, given as if in UTC: Unclear and Past where it has passed.
func OnClock(wall time.Time, goal, locale string, zone *time.Location, now time.Time) Reading {
	own, _ := languages(locale)
	reading := onClock(own.say, wall, zone, now.Truncate(time.Second))
	reading.Goal = goal
	return reading
}

// FromNow is the reading of an amount from now.
func FromNow(amount Amount, goal, locale string, zone *time.Location, now time.Time) Reading {
	own, _ := languages(locale)
	reading := inAmount(own.say, amount, zone, now.Truncate(time.Second))
	reading.Goal = goal
	return reading
}
