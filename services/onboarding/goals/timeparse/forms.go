package timeparse

import (
	"regexp"
	"strings"
)

// form is one way to say a time: a pattern over the codes of a text's items, a byte each (vocabulary.go), and what makes a part of a time
// of the items that the groups of the pattern found. A space in a pattern may be there or not.
type form struct {
	pattern string
	read    func(p *parser, g groups) (element, bool)
	matcher *regexp.Regexp
}

// groups are what the groups of a pattern found: from and to in the items, -1 where a group found nothing.
type groups []int

func (g groups) from(n int) int      { return g[2*n] }
func (g groups) to(n int) int        { return g[2*n+1] }
func (g groups) found(n int) bool    { return g.to(n) > g.from(n) }
func (p *parser) lead(g groups) byte { return p.code(g.from(0)) }

// What patterns have in common.
var shared = strings.NewReplacer(
	"AMOUNT", `(?:SINGLE(?:,?(?: &)? SINGLE)*(?: & a? q|(?: &)? [n2])?)`, "SINGLE", `(?:[an1239](?:[.,][123])?(?: & a? q)? -? [uHhs]|F)`,
	"MONTH", `[mj]`, "DATE", `(?:[ivop] )*`, "HOUR", `([@xp] )?([12n]|a)`, "FIGURE", `([@xp] )?([12])`,
)

func forms(lists ...[]form) []form {
	var all []form
	for _, list := range lists {
		for _, f := range list {
			pattern := shared.Replace(shared.Replace(f.pattern))
			f.matcher = regexp.MustCompile("^(?:" + strings.ReplaceAll(pattern, " ", " ?") + ")")
			all = append(all, f)
		}
	}
	return all
}

// The forms, in the order in which they are tried.
var (
	anyForms = []form{
		{pattern: `[if] b? (AMOUNT)(?: E)?(?: Z)?`, read: readAmount},                                         // in 5 minutes
		{pattern: `(AMOUNT) Z`, read: readAmount},                                                             // two hours from now
		{pattern: `AMOUNT G|G AMOUNT|P|L [wyuHmM]|[ot]? [wyuHm](?: f)? L`, read: readKind(aPassed)},           // 2 hours ago, last Friday
		{pattern: `l b? AMOUNT`, read: readKind(aDuration)},                                                   // por 30 minutos
		{pattern: `FIGURE:(2)(?::2)?( A)?(?: [hH])?(?: O)?`, read: readClock},                                 // 9:30, at 9:30 pm
		{pattern: `FIGURE(?:[. ](2))?( A)(?: O)?`, read: readClock},                                           // 9am, 9.30 pm
		{pattern: `FIGUREh (2)[us]?()`, read: readClock},                                                      // 9h30
		{pattern: `([@xp] )?(X)(?: & ([qn2]))?()(?: O)?`, read: readClock},                                    // at noon
		{pattern: `([@p] )?(Y)()()`, read: readClock},                                                         // this time
		{pattern: `[oipv]? (D|T)`, read: readDay},                                                             // tomorrow
		{pattern: `(?:[opivt] )*(?:d )?(N )?(?:t )?([wy])( V)?(?:,? [vo]? d? (N u|u V))?`, read: readWeekday}, // sexta da semana que vem
		{pattern: `(?:[op] )?()(N u|u V),? o? ([wy])`, read: readWeekday},                                     // next week on Tuesday
		{pattern: `DATE(?:u )?4-[12]-[12]`, read: readDate},                                                   // 2026-12-05
		{pattern: `DATE(?:u )?[12][/.][12][/.][24]|DATE(?:u )?[12]/[12]`, read: readDate},                     // 5/12/2026, 5/12
		{pattern: `DATE(?:[du] )?(?:[n12]e?|#)(?: v| o d)? MONTH(?:,?(?: v)? 4)?`, read: readDate},            // 5 de dezembro de 2026
	}
	englishForms = []form{
		{pattern: `p b? AMOUNT`, read: readKind(aDuration)},                       // for 30 minutes
		{pattern: `(?:i )?(AMOUNT) < `, read: readFrom},                           // a week from Friday
		{pattern: `DATEMONTH\.?(?: d)? (?:[12]e?|n|#)(?:,? 4)?`, read: readDate},  // December 5th, 2026
		{pattern: `[op]? (?:d ([12])e|([12])e|d (#))`, read: readOfMonth},         // on the 5th
		{pattern: `([@xp] )?([n12qk])(?: u)? >() ([n12])(?: A)?`, read: readPast}, // half past nine
		{pattern: `([@xp] )?([n12k])(?: u)? (c) ([n12])(?: A)?`, read: readPast},  // ten to nine
		{pattern: `([@xp] )?([34])()( A)(?: O)?`, read: readClock},                // 930pm
		{pattern: `([@p] )(4)()()`, read: readClock},                              // at 1930
		{pattern: `([@xp] )?(n)(?: -? (?:0 )?(n))?( A)`, read: readClock},         // nine thirty pm
		{pattern: `([@xp] )(n)(?: -? (?:0 )?(n))()(?: O)?`, read: readClock},      // at nine thirty
		{pattern: `()([n12])()() (?:O|i d M)`, read: readClock},                   // nine o'clock, nine in the morning
		{pattern: `([@xp] )([n12])()()(?: O)?`, read: readClock},                  // at nine
		{pattern: `(?:i d |@ |t |d )?(M)`, read: readPart},                        // in the morning
	}
	portugueseForms = []form{
		{pattern: `(AMOUNT) i`, read: readAmount},                                                     // 45 minutos daqui
		{pattern: `DATE(?:u )?[12]e?(?: v)? n(?: v 4)?`, read: readDate},                              // 5 de dez
		{pattern: `(?:[opv] )*u (?:([12])e?|(n)|(#))(?: [vto]* (N u|u V|t u|u))?`, read: readOfMonth}, // dia 5 do mês que vem
		{pattern: `HOUR(?: u)? (p) ([n12]|a)(?: H)?`, read: readPast},                                 // quinze para as nove
		{pattern: `([@xp] )?([12n]) [hH](?: & ([qn2])(?: u)?)?()(?: O)?`, read: readClock},            // 9h, nove horas e meia
		{pattern: `HOUR & ([qn12])()(?: u)?(?: O)?`, read: readClock},                                 // às nove e meia
		{pattern: `([@xp] )([12n]|a)()()(?: O)?`, read: readClock},                                    // às nove
		{pattern: `()([12n]|a)()() [vo] M`, read: readClock},                                          // nove da noite
		{pattern: `[ovtix@]? (M)`, read: readPart},                                                    // da manhã
	}
)

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

func readKind(kind elementKind) func(*parser, groups) (element, bool) {
	return func(*parser, groups) (element, bool) { return element{kind: kind, led: true}, true }
}

func readPart(p *parser, g groups) (element, bool) {
	e := element{kind: aPart, part: p.items[g.from(1)].value, led: g.from(1) > g.from(0)}
	if p.lead(g) == 't' { // "this morning"
		return element{kind: aDay, day: day{kind: offset, part: e.part}, led: true}, true
	}
	last := p.beforeElement(g.from(0))
	return e, last != nil && (last.kind == aDay || last.kind == aClock && e.led)
}
