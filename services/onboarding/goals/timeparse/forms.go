package timeparse

import (
	"regexp"
	"strings"
)

// form is one way to say a time: a pattern over the codes of a text's items, a byte each, and what makes a part of a time of the items that
// the groups of the pattern found.
type form struct {
	pattern *regexp.Regexp
	read    func(p *parser, g groups) (element, bool)
}

// groups has the first and last item of each group of a pattern, -1 where a group found nothing.
type groups []int

func (g groups) from(n int) int      { return g[2*n] }
func (g groups) to(n int) int        { return g[2*n+1] }
func (g groups) found(n int) bool    { return g.to(n) > g.from(n) }
func (p *parser) lead(g groups) byte { return p.code(g.from(0)) }

// shared has what patterns have in common.
var shared = strings.NewReplacer(
	"AMOUNT", `(?:SINGLE(?:,?(?: &)? SINGLE)*(?: & a? q|(?: &)? [n2])?)`, "SINGLE", `(?:[an1239](?:[.,][123])?(?: & a? q)? -? [uHhs]|F)`,
	"MONTH", `[mj]`, "DATE", `(?:[ivop] )*`, "HOUR", `([@xp] )?([12n]|a)`, "FIGURE", `([@xp] )?([12])`,
)

// readers make elements, by the names that forms give them.
var readers = map[string]func(p *parser, g groups) (element, bool){
	"amount": readAmount, "from": readFrom, "clock": readClock, "past": readPast, "day": readDay, "weekday": readWeekday, "date": readDate,
	"ofMonth": readOfMonth, "part": readPart,
	"passed":   func(*parser, groups) (element, bool) { return element{kind: aPassed, led: true}, true },
	"duration": func(*parser, groups) (element, bool) { return element{kind: aDuration, led: true}, true },
}

func newForm(reader, pattern string) form {
	pattern = shared.Replace(shared.Replace(pattern))
	return form{pattern: regexp.MustCompile("^(?:" + strings.ReplaceAll(pattern, " ", " ?") + ")"), read: readers[reader]}
}

type elementKind int

const (
	aDay elementKind = iota + 1
	aClock
	aPart
	aRelative
	aDuration
	aPassed
)

// element is a part of a time that a form found.
type element struct {
	kind     elementKind
	from, to int // items
	day      day
	clock    clock
	part     int // of parts
	amount   Amount
	led      bool // by a word that no name has: "at", "in"
	about    bool // "about"
	named    bool // names something, and says nothing of when: "the 9am meeting"
}

func readPart(p *parser, g groups) (element, bool) {
	e := element{kind: aPart, part: p.items[g.from(1)].value, led: g.from(1) > g.from(0)}
	if p.lead(g) == 't' { // "this morning"
		return element{kind: aDay, day: day{kind: offset, part: e.part}, led: true}, true
	}
	last := p.beforeElement(g.from(0))
	return e, last != nil && (last.kind == aDay || last.kind == aClock && e.led)
}
