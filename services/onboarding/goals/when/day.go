package when

import "time"

type dayKind int

const (
	offset   dayKind = iota + 1 // days from today
	aWeekday                    // the next one
	date                        // a month and a day, perhaps a year
	ofMonth                     // a day of this month or of the next
	ambiguous
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

// dayElement reads a day with the words before it: "on Friday", "no dia 5", "for tomorrow".
func (p *parser) dayElement(i int) element {
	k := i
	for k-i < 3 && (p.is(k, on|purpose) && !p.is(k, number) || p.reads(k, "the") && k > i) && !p.is(k, dayWord|coming) &&
		!(p.is(k, this) && p.is(k+1, weekday|part|coming)) {
		k++
	}
	led := k > i
	d, to := p.dayBody(k)
	if to == k || d.kind == 0 {
		if !led {
			return element{}
		}
		k = i
		if d, to = p.dayBody(k); to == k || d.kind == 0 {
			return element{}
		}
		led = false
	}
	e := element{kind: aDay, to: to, day: d}
	if d.kind == ambiguous {
		e.kind = aWrong
	}
	if p.is(i-1, bound|every|last|vague|after) && !p.is(i-1, function) || p.reads(i-1, "from") && p.item(i-1).to-p.item(i-1).from == 1 {
		return element{}
	}
	if (d.kind == date || d.kind == ofMonth) && p.street(i-1) {
		return element{}
	}
	if p.lang != english && p.reads(to, "agora") {
		e.to++
	}
	if d.kind == ofMonth && !led && !p.reads(k, "the") && !p.reads(k, "dia") {
		return element{}
	}
	if d.kind == aWeekday && !p.weekdayStands(i, k, to, led, &e) {
		return element{}
	}
	if p.lang != english && p.item(i).text == "de" && led && p.item(i-1).plain() { // "ingressos pro show de sexta"
		e.named = true
	}
	return e
}

// street reports whether item i makes a date the name of a street: "rua 25 de Março".
func (p *parser) street(i int) bool {
	switch p.item(i).text {
	case "rua", "r", "avenida", "av", "praca", "travessa", "largo", "alameda", "viaduto", "tunel":
		return p.lang != english
	}
	return false
}

// weekdayStands reports whether a weekday is a day, and not a verb or an ordinal; one that names something is marked.
func (p *parser) weekdayStands(i, k, to int, led bool, e *element) bool {
	it := p.item(k)
	clocks := func(n int) bool {
		return p.item(n).kind == digits && !p.is(n+1, measure) || p.is(n, at) && p.is(n+1, number|noon|half|quarter) || p.is(n, noon)
	}
	beside := len(p.elements) > 0 && p.beside(p.elements[len(p.elements)-1].to, i) && p.elements[len(p.elements)-1].kind != aWrong
	if to == k+1 && it.is(weak) && len(it.text) <= 3 {
		if !(led && (p.ends(to) || clocks(to)) && it.text != "sun" || beside || clocks(to) || p.is(to, part)) ||
			it.text == "ter" && !led && !(p.start(i) && p.reads(to+1, ":")) {
			return false
		}
	}
	if to == k+1 && p.is(to, counted) {
		return false
	}
	if e.day.next || e.day.nextWeek || p.ends(to) || clocks(to) || p.is(to, number) {
		return true
	}
	if p.is(i-1, determiner) && !led {
		e.named = true
		return true
	}
	if !led && !beside {
		e.kind = aWrong
	}
	return true
}

// week reads "next week", "semana que vem".
func (p *parser) week(i int, kind unitKind) int {
	for p.is(i, on|purpose|determiner) && !p.is(i, coming) {
		i++
	}
	it := p.item(i)
	switch {
	case it.is(coming) && it.is(unit) && it.value == int(kind):
		return i + 1
	case it.is(coming) && p.is(i+1, unit) && p.item(i+1).value == int(kind):
		return i + 2
	default:
		return 0
	}
}

// dayBody reads a day.
func (p *parser) dayBody(i int) (day, int) {
	it := p.item(i)
	switch {
	case it.is(tonight):
		return day{kind: offset, part: night}, i + 1
	case it.is(dayWord):
		return day{kind: offset, offset: it.value}, i + 1
	case it.is(this) && p.is(i+1, part):
		return day{kind: offset, part: partKind(p.item(i + 1).value)}, i + 2
	}
	if to := p.week(i, weeks); to > 0 { // "next week on Friday"
		if p.reads(to, ",") {
			to++
		}
		for p.is(to, on) {
			to++
		}
		if p.is(to, weekday) && (!p.is(to, weak) || len(p.item(to).text) > 3) {
			return day{kind: aWeekday, weekday: time.Weekday(p.item(to).value), nextWeek: true}, to + 1
		}
		return day{}, i
	}
	if d, to := p.weekdayBody(i); to > i {
		return d, to
	}
	return p.dateBody(i)
}

// weekdayBody reads a weekday with its "next" or "this".
func (p *parser) weekdayBody(i int) (day, int) {
	d := day{kind: aWeekday}
	k := i
	for p.is(k, coming|this) && !p.is(k, unit) && k-i < 2 {
		d.next = d.next || p.is(k, coming) && p.item(k).text != "coming" && p.item(k).text != "upcoming" && !p.is(k, this)
		k++
	}
	it := p.item(k)
	if !it.is(weekday) || it.is(number) {
		return day{}, i
	}
	d.weekday = time.Weekday(it.value)
	k++
	if (p.lang != english) && p.is(k, coming) && !p.is(k, unit) {
		d.next, k = true, k+1
	}
	if to := p.week(k, weeks); to > 0 {
		d.nextWeek, d.next, k = true, false, to
	}
	return d, k
}

// dateBody reads a date.
func (p *parser) dateBody(i int) (day, int) {
	if d, to := p.figureDate(i); to > i {
		return d, to
	}
	if d, to := p.figureDate(i + 1); to > i+1 && p.reads(i, "dia") {
		return d, to
	}
	k := i
	if p.reads(k, "the") || p.reads(k, "dia") {
		k++
	}
	if p.is(k, month) && k == i { // "December 5th, 2026"
		k++
		if p.reads(k, ".") || p.reads(k, "the") { // "Dec. 5", "May the 4th"
			k++
		}
		n, to, suffixed := p.dayNumber(k)
		if to == k {
			return day{}, i
		}
		if !suffixed && (p.item(to).plain() || p.is(to, measure|unit) || p.reads(to, ":") || p.item(to).glued && p.is(to, meridiem|hourMark)) {
			return day{}, i
		}
		year, after := p.year(to)
		return day{kind: date, month: time.Month(p.item(i).value), day: n, year: year}, after
	}
	n, to, suffixed := p.dayNumber(k)
	if to == k {
		return day{}, i
	}
	of := to
	for p.is(of, on) && !p.is(of, at) && of-to < 2 {
		of++
	}
	if p.is(of, month) && (!p.is(of, weak) || of > to || suffixed || len(p.item(of).text) > 3 || p.ends(of+1) ||
		p.item(of+1).kind == digits || p.is(of+1, number|noon)) &&
		!(p.item(of).is(number) && of == to && p.item(i).kind == word) && p.item(of).text != "may" || p.is(of, month) &&
		p.item(of).text == "may" && (suffixed || of > to || p.item(of).capital) {
		year, after := p.year(of + 1)
		return day{kind: date, month: time.Month(p.item(of).value), day: n, year: year}, after
	}
	if after := p.week(to, months); after > 0 && (suffixed || p.reads(i, "dia")) {
		return day{kind: ofMonth, day: n, nextMonth: true}, after
	}
	if p.reads(i, "dia") && p.is(to, this|on) && p.reads(to+1, "mes") {
		return day{kind: ofMonth, day: n}, to + 2
	}
	if (p.reads(i, "dia") || suffixed) && !p.is(to, counted) && p.dayEnds(to) {
		return day{kind: ofMonth, day: n}, to
	}
	return day{}, i
}

// dayEnds reports whether a day of the month may end before item i.
func (p *parser) dayEnds(i int) bool {
	return p.ends(i) || p.item(i).kind == digits || p.is(i, number|noon)
}

// dayNumber reads the day of a month: 5, 5th, "fifth", 1º.
func (p *parser) dayNumber(i int) (n, to int, suffixed bool) {
	it := p.item(i)
	if it.is(ordinal) && it.num >= 1 && it.num <= 31 {
		return it.num, i + 1, true
	}
	n, to, ok := p.count(i)
	if !ok || n < 1 || n > 31 || it.kind == digits && len(it.text) > 2 {
		return 0, i, false
	}
	if s := p.item(to); it.kind == digits && s.glued && s.from >= 0 {
		switch s.text {
		case "st", "nd", "rd", "th", "º", "°":
			return n, to + 1, true
		}
		if s.kind == word || s.text == ":" && p.item(to+1).kind == digits {
			return 0, i, false
		}
	}
	return n, to, false
}

// year reads the year of a date.
func (p *parser) year(i int) (int, int) {
	k := i
	for p.reads(k, ",") || p.is(k, on) && p.lang != english {
		k++
	}
	if it := p.item(k); it.kind == digits && len(it.text) == 4 && it.num >= 1900 && it.num < 2200 && !p.is(k+1, hourMark) {
		return it.num, k + 1
	}
	return 0, i
}

// figureDate reads a date in figures: 2026-12-05, 5/12, 12/25/2026.
func (p *parser) figureDate(i int) (day, int) {
	figure := func(k, least, most int) bool {
		it := p.item(k)
		return it.kind == digits && (k == i || it.glued) && len(it.text) >= least && len(it.text) <= most
	}
	a, sep := p.item(i), p.item(i+1)
	if !sep.glued || sep.text != "/" && sep.text != "-" && sep.text != "." || !figure(i+2, 1, 2) {
		return day{}, i
	}
	b := p.item(i + 2).num
	third := p.reads(i+3, sep.text) && p.item(i+3).glued && figure(i+4, 2, 4) && len(p.item(i+4).text) != 3
	if figure(i, 4, 4) {
		if !third || p.item(i+4).num > 31 {
			return day{}, i
		}
		return day{kind: date, year: a.num, month: time.Month(b), day: p.item(i + 4).num}, i + 5
	}
	dotted := p.lang != english && sep.text == "." && figure(i, 2, 2) && figure(i+2, 2, 2) && p.is(i+3, at) // "20.04 às 12h"
	if !figure(i, 1, 2) || sep.text != "/" && !dotted && (!third || len(p.item(i+4).text) != 4) {
		return day{}, i
	}
	d, to := day{kind: date, day: a.num, month: time.Month(b)}, i+3
	if third {
		if d.year, to = p.item(i+4).num, i+5; d.year < 100 {
			d.year += 2000
		}
	}
	if p.item(to).glued && p.item(to).kind == mark && p.item(to).text == "/" {
		return day{}, i
	}
	if p.lang.monthDay {
		if b > 12 {
			d.month, d.day = time.Month(a.num), b
		} else if a.num <= 12 && a.num != b {
			d.kind = ambiguous
		}
	}
	if d.month < 1 || d.month > 12 || d.day < 1 || d.day > 31 {
		return day{}, i
	}
	if !third && p.item(to).plain() || p.is(to, measure) && !third {
		return day{}, i
	}
	return d, to
}
