package timeparse

import (
	"regexp"
	"strings"
	"time"
)

// form is one way to say a time: a pattern over the codes of a text's items, a byte each (vocabulary.go), and what makes a part of a time
// of the items that the groups of the pattern found. A space in a pattern may be there or not.
type form struct {
	pattern *regexp.Regexp
	read    func(p *parser, g groups) (element, bool)
}

// groups are what the groups of a pattern found: from and to in the items, -1 where a group found nothing.
type groups []int

func (g groups) from(n int) int { return g[2*n] }
func (g groups) to(n int) int   { return g[2*n+1] }

type shape struct {
	pattern string
	read    func(p *parser, g groups) (element, bool)
}

// What patterns have in common.
var parts = strings.NewReplacer(
	"AMOUNT", `(?:SINGLE(?:,?(?: &)? SINGLE)*(?: & a? q|(?: &)? [n2])?)`, "SINGLE", `(?:[an1239](?:[.,][123])?(?: & a? q)? -? [uHhs]|F)`,
)

func forms(lists ...[]shape) []form {
	var all []form
	for _, list := range lists {
		for _, s := range list {
			pattern := parts.Replace(parts.Replace(s.pattern))
			all = append(all, form{regexp.MustCompile("^(?:" + strings.ReplaceAll(pattern, " ", " ?") + ")"), s.read})
		}
	}
	return all
}

// The forms, in the order in which they are tried.
var (
	anyForms = []shape{
		{`[if] b? (AMOUNT)(?: E)?(?: Z)?`, readAmount},                                           // in 5 minutes, daqui a uma hora e meia
		{`(AMOUNT) Z`, readAmount},                                                               // two hours from now
		{`AMOUNT G|G AMOUNT|P|L [wyuHmM]|[ot]? [wyuHm](?: f)? L`, readPassed},                    // 2 hours ago, last Friday
		{`l b? AMOUNT`, readDuration},                                                            // for 30 minutes
		{`([@xp] )?([12]):(2)(?::2)?( A)?(?: [hH])?(?: O)?`, readClock},                          // 9:30, at 9:30 pm
		{`([@xp] )?([12])(?:[. ](2))?( A)(?: O)?`, readClock},                                    // 9am, 9.30 pm
		{`([@xp] )?([12])h (2)[us]?()`, readClock},                                               // 9h30
		{`([@xp] )?(X)(?: & ([qn2]))?()(?: O)?`, readClock},                                      // at noon
		{`([@p] )?(Y)()()`, readClock},                                                           // this time
		{`(?:[oip] |v )?(D|T)`, readDay},                                                         // tomorrow
		{`(?:[opivt] )*(?:d )?(N )?(?:t )?([wy])( V)?(?:,? [vo]? d? (?:(N) u|u (V)))?`, readDay}, // next Friday, sexta da semana que vem
		{`(?:[op] )?(?:N u|u V),? o? ([wy])`, readDayOfNextWeek},                                 // next week on Tuesday
		{`(?:[ivop] )*(?:u )?4-([12])-([12])`, readDate},                                         // 2026-12-05
		{`(?:[ivop] )*(?:u )?[12]([/.])[12]([/.])[24]`, readDate},                                // 5/12/2026
		{`(?:[ivop] )*(?:u )?[12](/)[12]`, readDate},                                             // 5/12
		{`(?:[ivop] )*(?:[du] )?(?:[n12]e?|#)(?: v| o d)? [mj](?:,?(?: v)? 4)?`, readDate},       // 5 de dezembro de 2026, the 5th of May
	}

	englishForms = []shape{
		{`p b? AMOUNT`, readDuration},
		{`(?:i )?(AMOUNT) < `, readFrom},                                 // a week from Friday
		{`(?:[ivop] )*[mj]\.?(?: d)? (?:[12]e?|n|#)(?:,? 4)?`, readDate}, // December 5th, 2026
		{`(?:[op] )?(?:d )?([12])e`, readOfMonth},                        // on the 5th
		{`(?:[op] )?d (#)`, readOfMonth},                                 // on the fifth
		{`([@xp] )?([n12]|[qk])(?: u)? >() ([n12])(?: A)?`, readPast},    // half past nine
		{`([@xp] )?([n12]|k)(?: u)? (c) ([n12])(?: A)?`, readPast},       // ten to nine
		{`([@xp] )?(k) (v) ([n12])(?: A)?`, readPast},
		{`([@xp] )?([34])()( A)(?: O)?`, readClock},           // 930pm
		{`([@p] )(4)()()`, readClock},                         // at 1930
		{`([@xp] )?(n)(?: -? (?:0 )?(n))?( A)`, readClock},    // nine thirty pm
		{`([@xp] )(n)(?: -? (?:0 )?(n))()(?: O)?`, readClock}, // at nine thirty
		{`()([n12])()() O`, readClock},                        // nine o'clock
		{`()([n12])()() i d M`, readHourOfPart},
		{`([@xp] )([n12])()()(?: O)?`, readClock}, // at nine
		{`(?:i d |@ |t |d )?(M)`, readPart},       // in the morning
	}
	portugueseForms = []shape{
		{`(?:[ivop] )*(?:u )?[12]e?(?: v)? n(?: v 4)?`, readDate},                    // 5 de dez
		{`(?:[opv] )*u ([12]e?|n|#)(?: [vto]* (?:(N) u|u (V)|t u|u))?`, readOfMonth}, // dia 5, dia 5 do mês que vem
		{`(AMOUNT) i`, readAmount},
		{`([@xp] )?([12n]|a)(?: u)? (p) ([n12]|a)(?: H)?`, readPast},        // quinze para as nove
		{`([@xp] )?([12n]) [hH](?: & ([qn2])(?: u)?)?()(?: O)?`, readClock}, // 9h, nove horas e meia
		{`([@xp] )?([12n]|a) & ([qn12])()(?: u)?(?: O)?`, readClock},        // às nove e meia
		{`([@xp] )([12n]|a)()()(?: O)?`, readClock},                         // às nove
		{`()([12n]|a)()() (?:v|o) M`, readHourOfPart},                       // nove da noite
		{`(?:[ovtix@] )?(M)`, readPart},                                     // da manhã
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
	part     partKind
	amount   Amount
	led      bool // by a word that no name has: "at", "in"
	about    bool // "about"
	named    bool // names something, and says nothing of when: "the 9am meeting"
}

// Amount is how long after now something is meant: months, days and weeks keep the time of day, hours and minutes are exact.
type Amount struct {
	Months, Days int
	Exact        time.Duration
}

// maxCount is more of any unit than any plan of a scheduler allows.
const maxCount = 1_000_000

func (a *Amount) add(n float64, u Amount) bool {
	whole := n == float64(int(n))
	if !whole && u.Exact == 0 || n > maxCount {
		return false
	}
	a.Months += int(n) * u.Months
	a.Days += int(n) * u.Days
	a.Exact += time.Duration(n * float64(u.Exact))
	return true
}

// amount adds up the items of an amount: "two and a half hours", "1h30", "1 hora, 20 minutos e 30 segundos".
func (p *parser) amount(from, to int) (total Amount, ok bool) {
	n, last := -1.0, Amount{}
	for i := from; i < to; i++ {
		it := &p.items[i]
		switch it.code {
		case 'a':
			if p.code(p.next(i)) != 'q' {
				n = 1
			}
		case 'n', '1', '2', '3', '4', '9':
			if it.value < 0 {
				return total, false
			}
			n = float64(it.value)
		case '.', ',':
			if n >= 0 && i+1 < to && p.items[i+1].digits > 0 { // "1.5 hours"
				i++
				scale := 1.0
				for range p.items[i].digits {
					scale *= 10
				}
				n += float64(p.items[i].value) / scale
			}
		case 'q':
			if n >= 0 {
				n += 0.5
			} else if !total.add(0.5, last) {
				return total, false
			}
		case 'F':
			ok = total.add(float64(it.value), units["minute"])
			n, last = -1, units["hour"]
		case 'u', 'H', 'h', 's':
			u := units[unitNames[max(it.value, 1)-1]]
			if ok = n >= 0 && total.add(n, u); !ok || last.Exact > 0 && last.Exact <= u.Exact || last.Days > 0 && it.code == 'h' {
				return total, false
			}
			n, last = -1, u
		}
	}
	if n >= 0 { // the minutes of "1h30"
		if last.Exact != time.Hour || n >= 60 || !p.ends(to) {
			return total, false
		}
		total.Exact += time.Duration(n) * time.Minute
	}
	return total, ok && (total.Exact > 0 || total.Days > 0 || total.Months > 0)
}

func readAmount(p *parser, g groups) (element, bool) {
	amount, ok := p.amount(g.from(1), g.to(1))
	first := p.code(g.from(0))
	led := first == 'i' || first == 'f'
	if first == 'f' && p.code(p.next(g.to(0)-1)) == 'v' { // "after 10 minutes of boiling"
		return element{}, false
	}
	if last := p.item(g.to(0) - 1); last.code == 'i' { // "45 minutos daqui"
		ok = ok && last.text == "daqui" && p.ends(g.to(0))
	}
	about := strings.IndexByte(p.codes[g.from(0):g.from(1)], 'b') >= 0
	return element{kind: aRelative, amount: amount, led: led, about: about}, ok
}

func readDuration(*parser, groups) (element, bool) { return element{kind: aDuration, led: true}, true }

func readPassed(*parser, groups) (element, bool) { return element{kind: aPassed, led: true}, true }

// readFrom reads an amount of days and the day that it is counted from.
func readFrom(p *parser, g groups) (element, bool) {
	amount, ok := p.amount(g.from(1), g.to(1))
	from := g.to(0)
	for p.code(from) == ' ' {
		from++
	}
	later, found := p.at(from)
	if !ok || !found || later.kind != aDay || amount.Exact > 0 || amount.Months > 0 {
		return element{}, false
	}
	later.day.plus += amount.Days
	later.led = true
	return later, true
}

func readPart(p *parser, g groups) (element, bool) {
	e := element{kind: aPart, part: partKind(p.items[g.from(1)].value), led: g.from(1) > g.from(0)}
	if e.led && p.code(g.from(0)) == 't' { // "this morning"
		return element{kind: aDay, day: day{kind: offset, part: e.part}, led: true}, true
	}
	if len(p.elements) == 0 {
		return e, false
	}
	last := &p.elements[len(p.elements)-1]
	return e, (last.kind == aDay || last.kind == aClock) && p.beside(last.to, g.from(0)) && (e.led || last.kind == aDay)
}

func readHourOfPart(p *parser, g groups) (element, bool) {
	e, ok := readClock(p, g)
	for e.to = g.to(2); p.code(e.to-1) == ' '; {
		e.to--
	}
	return e, ok && !p.item(p.before(g.from(0))).is(numbered)
}
