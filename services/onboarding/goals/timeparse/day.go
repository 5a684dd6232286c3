package timeparse

import (
	"slices"
	"time"
)

type dayKind int

const (
	offset   dayKind = iota + 1 // days from today
	aWeekday                    // the next one
	date                        // a month and a day, perhaps a year
	ofMonth                     // a day of this month or of the next
)

// day is a day as it was said.
type day struct {
	kind      dayKind
	offset    int
	weekday   time.Weekday
	next      bool // "next Friday"
	nextWeek  bool // "Friday of next week"
	nextMonth bool
	year      int // 0: not said
	month     time.Month
	day       int
	plus      int // days after it
	part      int // "tonight", "this morning"
}

func readDay(p *parser, g groups) (element, bool) {
	it := &p.items[g.from(1)]
	e := element{kind: aDay, led: p.firm(g.from(0)), day: day{kind: offset, offset: it.value}}
	if it.code == 'T' {
		e.day.part = night
	}
	return e, p.leads(g)
}

// readWeekday reads a weekday; one of two groups behind it, or the first of them before it, may be a week.
func readWeekday(p *parser, g groups) (element, bool) {
	at, next := 2, 4
	if len(g) == 8 {
		at, next = 3, 2
	}
	it := &p.items[g.from(at)]
	e := element{kind: aDay, led: p.firm(g.from(0)), day: day{kind: aWeekday, weekday: time.Weekday(it.value)}}
	if g.found(next) {
		e.day.nextWeek = p.unitIn(g, next, week)
		return e, e.day.nextWeek && p.leads(g) && (it.code == 'w' || len(it.text) > 3)
	}
	e.day.next = g.found(1) || g.found(3)
	return e, p.leads(g) && (it.code == 'w' || e.day.next || p.weekdayStands(it, g))
}

// weekdayStands reports whether a word that may be something else, such as "sun" and "segunda", is a weekday.
func (p *parser) weekdayStands(it *item, g groups) bool {
	i := p.next(g.to(0) - 1)
	next, behind := p.item(i), p.item(p.next(i))
	number := behind.digits > 0 || among(behind.code, "nX")
	switch {
	case next.digits > 0 && !p.counts(i), among(next.code, "@MX"), next.code == 'u' && next.value == oneDay,
		among(next.code, "x,") && number, p.beforeElement(g.from(0)) != nil:
		return true
	}
	return len(it.text) > 3 && p.firm(g.from(0)) && (next.code != '_' || next.is(verb|remind|polite))
}

// unitIn reports whether a group has a unit.
func (p *parser) unitIn(g groups, n, unit int) bool {
	return g.found(n) && slices.ContainsFunc(p.items[g.from(n):g.to(n)], func(it item) bool { return it.code == 'u' && it.value == unit })
}

// readDate reads a date by its numbers and its month, wherever they stand.
func readDate(p *parser, g groups) (element, bool) {
	e := element{kind: aDay, led: p.firm(g.from(0)), day: day{kind: date}}
	d := &e.day
	var n []int
	for i := g.from(0); i < g.to(0); i++ {
		switch it := &p.items[i]; {
		case it.text == "dez" && len(n) == 1: // December, and ten
			d.month = time.December
		case it.digits == 4:
			d.year = it.value
		case it.digits > 0 || it.code == 'n' || it.code == '#':
			n = append(n, it.value)
		case among(it.code, "mj"):
			d.month = time.Month(it.value)
		case it.code == 'u' && it.value != oneDay:
			return e, false
		}
	}
	ok := true
	switch {
	case d.month != 0 && len(n) == 1:
		d.day = n[0]
		ok = d.year != 0 || !p.counts(g.to(0)-1)
	case len(n) < 2:
		return e, false
	case p.code(g.to(0)-2) == '-':
		d.month, d.day = time.Month(n[0]), n[1]
	case p.lang.english && n[1] > 12:
		d.month, d.day = time.Month(n[0]), n[1]
	default:
		d.month, d.day = time.Month(n[1]), n[0]
		ok = !p.lang.english || n[0] > 12 || n[0] == n[1]
	}
	if len(n) == 3 {
		d.year = 2000 + n[2]
	}
	next := p.item(g.to(0))
	glued := among(next.code, "/-:.") && p.item(g.to(0)+1).digits > 0
	return e, ok && !glued && d.month >= 1 && d.month <= 12 && d.day >= 1 && d.day <= 31 && p.leads(g)
}

// readOfMonth reads a day of the month, and in Portuguese which month.
func readOfMonth(p *parser, g groups) (element, bool) {
	var it *item
	for n := 1; n <= 3; n++ {
		if g.found(n) {
			it = &p.items[g.from(n)]
		}
	}
	e := element{kind: aDay, led: true, day: day{kind: ofMonth, day: it.value}}
	next := p.item(p.next(g.to(0) - 1))
	ok := it.value >= 1 && it.value <= 31 && p.leads(g) && !(next.glued && among(next.code, "/:-h"))
	if p.lang.english { // "the 5th" may be the fifth of something
		behind := next.code == 0 || next.digits > 0 || among(next.code, "@,nXi") || p.lead(g) == 'o' && next.is(verb)
		return e, ok && behind
	}
	e.day.nextMonth = p.unitIn(g, 4, month) && among(p.item(g.from(4)).code, "N") || p.code(g.to(0)-1) == 'V'
	return e, ok && p.unitIn(g, 0, oneDay) && (!g.found(4) || p.unitIn(g, 4, month))
}
