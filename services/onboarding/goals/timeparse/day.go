package timeparse

import (
	"strings"
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
	plus      int      // days after it
	part      partKind // "tonight", "this morning"
}

func readDay(p *parser, g groups) (element, bool) {
	e := element{kind: aDay, day: day{kind: offset}}
	first := p.code(g.from(0))
	if len(g) == 4 { // today, tomorrow, tonight
		it := &p.items[g.from(1)]
		e.led = p.firm(g.from(0))
		e.day.offset = it.value
		if it.code == 'T' {
			e.day.part = night
		}
		return e, first != 'p' || p.has(remind)
	}
	at := g.from(2)
	it := &p.items[at]
	e.led = p.firm(g.from(0))
	e.day = day{kind: aWeekday, weekday: time.Weekday(it.value), next: g.from(1) >= 0 || g.from(3) >= 0}
	if g.from(4) >= 0 || g.from(5) >= 0 {
		if !p.unitIs(g.to(0)-1, "week") && !p.unitIs(p.before(g.to(0)-1), "week") {
			return e, false
		}
		e.day.nextWeek, e.day.next = true, false
	}
	if first == 'p' && !p.has(remind) {
		return e, false
	}
	return e, it.code == 'w' || e.day.next || e.day.nextWeek || p.weekdayStands(at, g, e.led)
}

// firm reports whether an item leads to a time, and not to the name of something.
func (p *parser) firm(i int) bool { return strings.IndexByte("oit@xN", p.code(i)) >= 0 }

// weekdayStands reports whether a word that may be something else, such as "sun" and "segunda", is a weekday.
func (p *parser) weekdayStands(at int, g groups, led bool) bool {
	next := p.next(g.to(0) - 1)
	it := p.item(next)
	figure := it.digits > 0 && !p.counts(next)
	hour := figure || strings.IndexByte("@MX", it.code) >= 0 || p.unitIs(next, "day") || it.code == 'x' && p.item(p.next(next)).digits > 0 ||
		it.code == 'x' && strings.IndexByte("nX", p.code(p.next(next))) >= 0 && p.code(p.next(next)) > 0 || it.code == ',' && p.item(p.next(next)).digits > 0
	if p.items[at].code == 'y' && len(p.items[at].text) <= 3 {
		return hour || p.follows(g.from(0))
	}
	return hour || p.follows(g.from(0)) || led && p.code(g.from(0)) != 'v' && (it.code != '_' || it.is(verb|remind|polite))
}

func readDayOfNextWeek(p *parser, g groups) (element, bool) {
	it := &p.items[g.from(1)]
	week := false
	for i := g.from(0); i < g.from(1); i++ {
		week = week || p.unitIs(i, "week")
	}
	e := element{kind: aDay, led: true, day: day{kind: aWeekday, weekday: time.Weekday(it.value), nextWeek: true}}
	return e, week && (it.code == 'w' || len(it.text) > 3)
}

// readDate reads a date by its numbers and its month, wherever they stand.
func readDate(p *parser, g groups) (element, bool) {
	e := element{kind: aDay, day: day{kind: date}}
	var numbers []int
	var sep byte
	for i := g.from(0); i < g.to(0); i++ {
		it := &p.items[i]
		switch {
		case it.text == "dez" && len(numbers) == 1: // December, and ten
			e.day.month = time.December
		case it.digits == 4:
			e.day.year = it.value
		case it.digits > 0 || it.code == 'n' || it.code == '#':
			numbers = append(numbers, it.value)
		case it.code == 'm' || it.code == 'j':
			e.day.month = time.Month(it.value)
		case it.code == '/' || it.code == '-' || it.code == '.' && sep == 0 && e.day.month == 0:
			sep = it.code
		case it.code == 'u' && !p.unitIs(i, "day"):
			return e, false
		case strings.IndexByte("oip", it.code) >= 0:
			e.led = true
		}
	}
	ok := true
	switch {
	case e.day.month != 0:
		e.day.day = numbers[0]
	case sep == '-':
		e.day.month, e.day.day = time.Month(numbers[0]), numbers[1]
	default:
		ok = e.day.figures(numbers, p.lang.english)
	}
	next := g.to(0)
	glued := strings.IndexByte("/-:.1234", p.code(next)) >= 0 && p.item(p.next(next-1)).digits+p.item(next+1).digits > 0
	short := e.day.month != 0 && sep == 0 && e.day.year == 0 && p.counts(g.to(0)-1)
	return e, ok && !glued && !short && e.day.month >= 1 && e.day.month <= 12 && e.day.day >= 1 && e.day.day <= 31 &&
		(p.code(g.from(0)) != 'p' || p.has(remind))
}

// figures sets a date of two or three numbers, and reports whether they are in no doubt.
func (d *day) figures(n []int, english bool) bool {
	if len(n) == 3 {
		d.year = 2000 + n[2]
	}
	d.day, d.month = n[0], time.Month(n[1])
	if english && n[1] > 12 {
		d.day, d.month = n[1], time.Month(n[0])
		return true
	}
	return !english || n[0] > 12 || n[0] == n[1]
}

func readOfMonth(p *parser, g groups) (element, bool) {
	it := &p.items[g.from(1)]
	e := element{kind: aDay, led: true, day: day{kind: ofMonth, day: it.value}}
	if !p.lang.english {
		i := g.from(0)
		for p.items[i].code != 'u' {
			i++
		}
		if !p.unitIs(i, "day") {
			return e, false
		}
		i = g.to(0) - 1
		e.day.nextMonth = g.from(2) >= 0 || g.from(3) >= 0
		if month := p.unitIs(i, "month") || p.unitIs(p.before(i), "month"); g.to(0) > g.to(1) && !month {
			return e, false
		}
	}
	glued := p.item(g.to(0))
	return e, it.value >= 1 && it.value <= 31 && glued.code != '/' && glued.code != ':' && glued.code != '-' && glued.code != 'h' &&
		(p.code(g.from(0)) != 'p' || p.has(remind)) && (!p.lang.english || p.dayEnds(g))
}

// dayEnds reports whether "the 5th" is a day, and not the fifth of something.
func (p *parser) dayEnds(g groups) bool {
	next := p.item(p.next(g.to(0) - 1))
	return next.code == 0 || next.digits > 0 || strings.IndexByte("@,nXi", next.code) >= 0 || p.code(g.from(0)) == 'o' && next.is(verb)
}
