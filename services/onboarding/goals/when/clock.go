package when

import "strings"

// clock is a time of day as it was said.
type clock struct {
	hour, minute int  // the minute is below zero in "ten to nine"
	half         bool // am and pm are both possible
	midnight     bool // the word
	now          bool // the time of day that it is
	twelve       bool // said with am: "12 am"
	plainNumber  int  // the number, where nothing but the number says that it is a time
	words        bool // two numbers in words
	dotted       bool // 9.30, which may be a price
	strict       bool // said in 24 hours or with am or pm
	said         string
}

// clockElement reads a time of day with the words before it: "at 9", "às 9h30", "for noon".
func (p *parser) clockElement(i int) element {
	k, led := i, false
	if p.is(i, nowClock) {
		return element{kind: aClock, to: i + 1, clock: clock{now: true}}
	}
	loose := false // led by a word that alone does not make a number a time
	switch {
	case p.is(k, at) && (p.item(k).text != "a" || p.item(k).accent || p.item(k+1).is(noon)) && (!p.is(k, purpose) || p.firm(k)):
		k, led = k+1, true
	case p.is(k, purpose):
		k, loose = k+1, true
		if p.is(k, at) && p.item(k).text != "a" {
			k, led = k+1, true
		}
	case p.is(k, on) && p.is(k+1, at) && p.item(k+1).text != "a":
		k, led = k+2, true
	}
	c, to := p.clockBody(k, led || loose)
	if to == k {
		return element{}
	}
	c.said = strings.TrimSpace(p.text[p.item(k).start:p.item(to-1).end])
	e := element{kind: aClock, to: to, clock: c}
	if p.is(i-1, bound|every|vague|after|last) && !p.is(i-1, function) || p.reads(i-1, "from") && p.item(i-1).to-p.item(i-1).from == 1 ||
		p.money(k) {
		return element{}
	}
	if led && p.is(i-1, reading) && p.lang != english && !p.item(i).accent {
		return element{}
	}
	if led || loose {
		if loose && c.plainNumber > 0 && (!p.frame() || !p.ends(to)) {
			return element{}
		}
		if c.plainNumber > 0 && !p.bareHour(i, to) || c.dotted && !p.besideDay(i, to) {
			return element{}
		}
		if led && p.lang != english && !p.item(i).accent && c.plainNumber > 0 && c.plainNumber < 7 && p.item(to).from < 0 &&
			!p.besideDay(i, to) &&
			!p.frame() { // "compra as 2"
			return element{}
		}
		return e
	}
	if p.is(i-1, determiner) && !p.is(i-1, once) || p.is(i-1, once) && !p.is(i-1, number) {
		e.named = true
		if c.plainNumber > 0 || c.dotted {
			return element{}
		}
		return e
	}
	if !p.unled(i, to, c) {
		return element{}
	}
	return e
}

// firm reports whether a word that leads to a time or to a person leads to a time: "para as", not "para".
func (p *parser) firm(k int) bool {
	it := p.item(k)
	return it.to-it.from > 1 && p.text[it.end-1] == 's' || it.text == "pras" || p.item(k+1).is(noon)
}

// money reports whether the number at i is one of money or of something else that is counted.
func (p *parser) money(i int) bool {
	before := p.item(i - 1)
	return before.kind == mark && before.from >= 0 && strings.ContainsAny(before.text, "$€£#¥+*=^")
}

// frame reports whether the text asks for a reminder or an alarm, so that "for 7" is a time.
func (p *parser) frame() bool {
	for i := range p.items {
		if p.is(i, remind) || p.reads(i, "schedule") || p.reads(i, "wake") || p.reads(i, "alarm") || p.reads(i, "agenda") ||
			p.reads(i, "agende") {
			return true
		}
	}
	return false
}

// bareHour reports whether a number after "at" is an hour.
func (p *parser) bareHour(i, to int) bool {
	n := p.item(to - 1)
	if n.kind == digits && len(n.text) > 2 {
		return false
	}
	return p.ends(to) || (p.start(i) || p.besideDay(i, to)) && p.item(to).plain() && !p.item(to).capital && !p.plural(to)
}

// besideDay reports whether a day or a part of it stands beside the items.
func (p *parser) besideDay(from, to int) bool {
	if n := len(p.elements); n > 0 {
		if last := p.elements[n-1]; (last.kind == aDay || last.kind == aPart || last.kind == aRelative && last.amount.Days > 0) &&
			p.beside(last.to, from) {
			return true
		}
	}
	for p.reads(to, ",") || p.is(to, sharp) {
		to++
	}
	return p.dayElement(to).to > to || p.partElement(to).to > to
}

// unled reports whether a time of day without "at" is one.
func (p *parser) unled(i, to int, c clock) bool {
	beside := p.besideDay(i, to)
	atEnd := p.item(to).from < 0 || p.ends(to)
	switch {
	case p.is(i-1, reading|bound|toHour|number) && !beside, p.has(reading) && !beside && !c.twelve && p.item(i+1).text == ":":
		return false
	case c.plainNumber > 0:
		if n := len(p.elements); p.lang != english && n > 0 && p.elements[n-1].to == i && p.elements[n-1].day.kind == aWeekday &&
			!p.is(to, part) { // "sexta 13" may be a date
			return false
		}
		day := len(p.elements) > 0 && p.elements[len(p.elements)-1].to == i && beside && p.elements[len(p.elements)-1].kind != aRelative
		return day && (p.item(to).from < 0 || p.item(to).kind == mark && !p.item(to).glued || p.reads(to, ",") || p.is(to, part)) ||
			beside && p.partElement(to).to > to
	case c.dotted:
		return beside
	case c.words:
		return beside
	case p.item(i).is(noon):
		return beside || (p.start(i) || p.item(to).from < 0 || p.item(to).kind == mark) && p.item(i-1).text != "high" &&
			p.item(i-1).text != "after"
	case p.is(to-1, meridiem), p.is(i, half|quarter), p.is(i+1, pastHour|toHour|quarter|half), p.is(i+2, toHour|pastHour):
		return true
	case p.is(i+1, hourMark) && p.lang != english:
		if p.item(i+1).text == "h" || p.item(i+1).text == "hs" || p.item(i+1).text == "hrs" {
			return beside || p.start(i) || atEnd && !p.has(enduring) && c.hour < 24 && (p.item(i-1).text != "de" && !p.is(i-1, lasting))
		}
		return beside
	case p.is(i+1, hourMark):
		return beside || p.reads(i+1, "o'clock") || p.start(i) && p.item(i+1).text == "h"
	default: // 21:30
		return beside || p.start(i) || atEnd && p.item(i-1).kind != mark && !p.is(i-1, determiner|function&^verb)
	}
}

func (p *parser) has(c class) bool {
	for i := range p.items {
		if p.is(i, c) {
			return true
		}
	}
	return false
}

// clockBody reads a time of day.
func (p *parser) clockBody(i int, led bool) (clock, int) {
	c, to := p.beforeHour(i, led)
	if to == i {
		c, to = p.hourFirst(i, led)
	}
	if to == i {
		return c, i
	}
	if p.is(to, meridiem) && !c.strict && c.hour >= 1 && c.hour <= 12 && !p.is(i, noon) {
		mark := p.item(to)
		c.twelve = c.hour == 12 && mark.value == 0
		c.hour = c.hour%12 + mark.value
		c.half, c.plainNumber, c.strict, c.words, c.dotted = false, 0, true, false, false
		to++
	} else if s := p.item(to); p.lang == english && s.glued && (s.text == "a" || s.text == "p") && p.item(to-1).kind == digits &&
		c.hour >= 1 && c.hour <= 12 && !c.strict {
		c.hour %= 12
		if s.text == "p" {
			c.hour += 12
		}
		c.half, c.plainNumber, c.strict, c.dotted = false, 0, true, false
		to++
	} else if p.is(to, meridiem) && c.hour > 12 && p.item(to).value == 12 && p.item(to-1).kind == digits { // "21:30 pm"
		to++
	}
	if p.is(to, sharp) {
		to++
	}
	if c.hour > 23 || c.hour < 0 || c.minute > 59 || c.minute < -59 {
		return clock{}, i
	}
	return c, to
}

// beforeHour reads what says its minutes first: "half past nine", "ten to nine", "quinze para as nove"; and noon and midnight.
func (p *parser) beforeHour(i int, led bool) (clock, int) {
	if it := p.item(i); it.is(noon) {
		c := clock{hour: it.value, strict: true, midnight: it.value == 0}
		if m, to := p.andMinutes(i + 1); to > i+1 {
			c.minute, c.midnight = m, false
			return c, to
		}
		return c, i + 1
	}
	var m, next int
	sure := false
	switch {
	case p.is(i, half) && p.lang == english:
		if n, to, ok := p.count(i + 1); ok && n >= 1 && n <= 12 && p.ends(to) && !p.is(to, half|quarter|or) { // "half ten"
			return clock{hour: n, minute: 30, half: true, words: !led}, to
		}
		if !p.is(i+1, pastHour) {
			return clock{}, i
		}
		m, next, sure = 30, i+1, true
	case p.is(i, quarter):
		m, next, sure = 15, i+1, true
	default:
		var ok bool
		if m, next, ok = p.count(i); !ok || m >= 60 || m == 0 {
			return clock{}, i
		}
		if it := p.item(next); it.is(unit) && it.value == int(minutes) {
			next, sure = next+1, true
		} else if m%5 != 0 {
			return clock{}, i
		}
	}
	before := p.is(next, toHour)
	if !before && !p.is(next, pastHour) || p.lang != english && before && !p.firm(next) && !(p.item(next).to-p.item(next).from > 1) ||
		!sure && !led && p.lang == english && !p.start(i) {
		return clock{}, i
	}
	next++
	c := clock{strict: false, half: p.lang.halfClock}
	if it := p.item(next); it.is(noon) {
		c.hour, c.half, next = it.value, false, next+1
	} else {
		var ok bool
		if c.hour, next, ok = p.count(next); !ok || c.hour < 1 || c.hour > 24 || p.lang.halfClock && c.hour > 12 ||
			!p.ends(next) && !p.is(next, meridiem|hourMark) && p.item(next).kind != digits {
			return clock{}, i
		}
		if p.is(next, hourMark) {
			next++
		}
	}
	if c.minute = m; before {
		c.minute = -m
	}
	return c, next
}

// andMinutes reads the minutes after an hour in words: "e meia", "e quinze".
func (p *parser) andMinutes(i int) (int, int) {
	if !p.is(i, and) || p.item(i).accent || p.lang == english {
		return 0, i
	}
	if p.is(i+1, half) && !p.is(i+2, unit) {
		return 30, i + 2
	}
	m, next, ok := p.count(i + 1)
	if !ok || m >= 60 || m == 0 || p.item(i+1).kind == digits && m < 13 && !(p.is(next, unit) && p.item(next).value == int(minutes)) {
		return 0, i
	}
	if p.is(next, unit) && p.item(next).value == int(minutes) {
		next++
	} else if !p.ends(next) && !p.is(next, meridiem) {
		return 0, i
	}
	return m, next
}

// hourFirst reads an hour and what may follow: "21:30", "9h30", "nine thirty", "9 e meia", "9 o'clock", "9".
func (p *parser) hourFirst(i int, led bool) (clock, int) {
	it := p.item(i)
	if it.kind == digits && it.is(number) && it.to-it.from == 1 {
		return p.figureClock(i, led)
	}
	n, next, ok := p.count(i)
	if !ok || n < 1 || n > 24 || it.to-it.from > 1 {
		return clock{}, i
	}
	c := clock{hour: n, half: p.lang.halfClock && n <= 12, plainNumber: n}
	if n > 12 && p.lang == english {
		return clock{}, i
	}
	if p.is(next, hourMark) && (p.lang != english || !p.is(next, unit)) {
		c.plainNumber, next = 0, next+1
	}
	if m, to := p.andMinutes(next); to > next {
		c.minute, c.plainNumber = m, 0
		c.words = !led && !p.is(next-1, hourMark)
		return c, to
	}
	if p.lang == english {
		minute := next
		if p.reads(minute, "-") {
			minute++
		}
		if p.is(minute, decade) {
			minute++
		}
		if m, to, ok := p.count(minute); ok && p.item(minute).kind == word && m < 60 && (m >= 10 || p.is(minute-1, decade)) &&
			p.item(minute).to-p.item(minute).from == 1 &&
			(p.ends(to) || p.is(to, meridiem)) {
			c.minute, c.plainNumber, c.words = m, 0, !led
			return c, to
		}
	}
	return c, next
}

// figureClock reads a time of day that begins with figures.
func (p *parser) figureClock(i int, led bool) (clock, int) {
	it := p.item(i)
	n, length := it.num, len(it.text)
	next := i + 1
	two := func(k int) bool { return p.item(k).kind == digits && len(p.item(k).text) == 2 && p.item(k).num < 60 }
	glued := func(k int) bool { return p.item(k).glued }
	c := clock{hour: n, half: p.lang.halfClock && n >= 1 && n <= 12 && it.text[0] != '0'}
	c.strict = !c.half && p.lang == english
	switch {
	case length > 2:
		return p.together(i, led)
	case p.reads(next, ":") && glued(next) && two(next+1) && glued(next+1):
		c.minute, next = p.item(next+1).num, next+2
		if p.reads(next, ":") && p.item(next).glued && p.item(next+1).kind == digits && p.item(next+1).glued {
			return clock{}, i
		}
		if p.is(next, hourMark) && p.item(next).text != "o'clock" {
			next++
		}
		return c, next
	case p.reads(next, ".") && glued(next) && two(next+1) && glued(next+1):
		c.minute, c.dotted = p.item(next+1).num, true
		return c, next + 2
	case p.is(next, hourMark) && p.reads(next, "h") && two(next+1) && (glued(next+1) || glued(next)):
		c.minute, c.half, next = p.item(next+1).num, false, next+2
		if p.is(next, unit) && p.item(next).value == int(minutes) {
			next++
		}
		return c, next
	case p.is(next, hourMark) && (p.lang != english || !p.is(next, unit) || p.reads(next, "h") && glued(next)):
		if p.reads(next, "h") {
			c.half = false
		}
		if m, to := p.andMinutes(next + 1); to > next+1 {
			c.minute = m
			return c, to
		}
		return c, next + 1
	}
	if two(next) && p.is(next+1, meridiem) && n > 0 && n <= 12 { // "10 30 pm"
		c.minute = p.item(next).num
		return c, next + 1
	}
	if m, to := p.andMinutes(next); to > next {
		c.minute, c.words = m, !led
		return c, to
	}
	if n == 0 || n > 24 {
		return clock{}, i
	}
	c.plainNumber = n
	return c, next
}

// together reads hour and minute written as one number: 930pm, 0730.
func (p *parser) together(i int, led bool) (clock, int) {
	it, next := p.item(i), i+1
	hour, minute, length := it.num/100, it.num%100, len(it.text)
	military := p.is(next, hourMark) && p.lang == english && length == 4
	if length > 4 || minute > 59 || p.item(next).kind == digits || !p.is(next, meridiem) && !military && !(led && length == 4 &&
		(it.text[0] == '0' && hour > 0 || hour > 12 && hour < 24 && p.ends(next))) {
		return clock{}, i
	}
	if military {
		next++
	}
	return clock{hour: hour, minute: minute, strict: length == 4 && !p.is(next, meridiem)}, next
}

// partElement reads a part of the day: "in the morning", "da noite", "de manhã".
func (p *parser) partElement(i int) element {
	k := i
	switch {
	case p.lang == english:
		if p.is(k, in|at) {
			k++
		} else if !p.afterDay(i) {
			return element{}
		}
		if p.reads(k, "the") {
			k++
		}
	case p.is(k, on|at):
		k++
	case !p.afterDay(i):
		return element{}
	}
	if !p.is(k, part) || p.is(k, nothing) {
		return element{}
	}
	return element{kind: aPart, to: k + 1, part: partKind(p.item(k).value)}
}

// afterDay reports whether a day or a time of day ends before item i.
func (p *parser) afterDay(i int) bool {
	if n := len(p.elements); n > 0 {
		last := p.elements[n-1]
		return (last.kind == aDay || last.kind == aClock) && p.beside(last.to, i)
	}
	return false
}
