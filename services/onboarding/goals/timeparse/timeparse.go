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
	other := foreign.reading(writer)
	_, sure := own.proper(foreign.lang)
	_, foreignSure := foreign.proper(own.lang)
	switch {
	case foreignSure && !sure:
		return other
	case foreignSure && (reading.Kind != At || other.Kind != At || !reading.At.Equal(other.At)):
		return Reading{Kind: Unclear, Goal: strings.TrimSpace(text), Understood: reading.Understood}
	case !foreignSure && (reading.Kind == None || reading.Kind == At && !sure):
		return Reading{Kind: Unclear, Goal: strings.TrimSpace(text), Understood: foreign.found()}
	}
	return reading
}

// parse parses a text in the language of the locale, and in the other one of those we write in that has most words of time that this one
// has not, if there is one.
func parse(text, locale string) (own, foreign *parser) {
	words, lang, most := cut(text), languageOf(locale), 0
	for _, l := range all {
		if l != lang && !l.written {
			continue
		}
		p := l.parse(text, words)
		if n, _ := p.proper(lang); n > most {
			most, foreign = n, p
		}
		if l == lang {
			own = p
		}
	}
	return own, foreign
}

// proper counts the words of time in a text that another language does not have, and reports whether one of them looks like no other word.
func (p *parser) proper(other *language) (n int, sure bool) {
	for i := range p.items {
		it := &p.items[i]
		there := other.words[it.text].code
		time := among(it.code, "uHDTwmMX") || among(it.code, "jy") && (it.in != nil || it.core) || it.code == '@' && it.kind == 'a'
		if it.time && time && (there == 0 || there == '_') {
			n++
			sure = sure || it.core || it.code == '@'
		}
	}
	return n, sure
}

// reading returns what a text says of a time.
func (p *parser) reading(writer person) Reading {
	if len(p.elements) == 0 && !p.marked {
		return Reading{Goal: strings.TrimSpace(p.text)}
	}
	meant, certain := p.meant()
	if !certain {
		return Reading{Kind: Unclear, Goal: strings.TrimSpace(p.text), Understood: p.found(), Past: p.past()}
	}
	reading := meant.resolve(writer)
	if reading.Goal = p.goal(); reading.Kind != At {
		reading.Goal, reading.Understood = strings.TrimSpace(p.text), p.found()
	}
	return reading
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
		if amount := m.amount; fits && (amount == nil && len(m.days) > 0 || amount != nil && amount.Exact == 0 && len(m.days) == 0) {
			if dates := m.dates(writer.today()); len(dates) == 1 {
				return dates[0], true
			}
		}
		if dates := p.onlyWeekday(writer.today()); len(dates) == 1 {
			return dates[0], true
		}
	}
	return time.Time{}, false
}

// onlyWeekday finds the dates of the weekday that is all that a text has, also by a word that elsewhere is another: "sexta", "on sun".
func (p *parser) onlyWeekday(today time.Time) (dates []time.Time) {
	for i := range p.items {
		switch it := &p.items[i]; {
		case it.code == 'y' && dates == nil:
			dates = weekdays(time.Weekday(it.value), today, false, false)
		case it.is("word"), it.code == 'o', it.kind != 'a' && it.digits == 0:
		default:
			return nil
		}
	}
	return dates
}

// OnClock returns the reading of a wall-clock time, given as if in UTC: Unclear and Past where it has passed.
func OnClock(wall time.Time, goal, locale string, zone *time.Location, now time.Time) Reading {
	writer := personOf(locale, zone, now)
	return writer.onClock(wall).of(goal)
}

// FromNow returns the reading of an amount from now.
func FromNow(amount Amount, goal, locale string, zone *time.Location, now time.Time) Reading {
	writer := personOf(locale, zone, now)
	return writer.inAmount(amount).of(goal)
}

func (r Reading) of(goal string) Reading {
	r.Goal = goal
	return r
}
