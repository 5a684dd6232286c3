package timeparse

import "strings"

// clock is a time of day as it was said.
type clock struct {
	hour, minute int
	half         bool // the hour of either half of the day
	sure         bool // the text says which half
	noon         bool // by that name, or midnight
	said         string
}

// firm reports whether an item leads to a time, and not to the name of something.
func (p *parser) firm(i int) bool { return among(p.code(i), "oit@xN") }

// readClock reads a time of day from its groups: the words before it, the hour, the minutes, and am or pm.
func readClock(p *parser, g groups) (element, bool) {
	hour := &p.items[g.from(2)]
	marked := strings.ContainsAny(p.codes[g.to(2):g.to(0)], ":hH") // as an hour: who writes 9h counts to 24
	e := element{kind: aClock, led: p.firm(g.from(0)), clock: clock{
		hour: hour.value, noon: hour.code == 'X', said: p.text[hour.start:p.items[p.last(g)].end],
	}}
	c := &e.clock
	if hour.digits >= 3 {
		c.hour, c.minute = hour.value/100, hour.value%100
		if !g.found(4) && (hour.text[0] != '0' && c.hour < 13 || c.hour > 23 || !p.ends(g.to(0))) {
			return e, false // "at 1500" is a time, "at 1015" may be a house
		}
	}
	if g.found(3) && !p.minutes(c, g) {
		return e, false
	}
	if c.hour < 0 || c.hour > 24 || c.minute > 59 || c.hour == 24 && c.minute > 0 || c.hour == 0 && hour.digits == 0 && !c.noon {
		return e, false
	}
	zero := hour.digits == 2 && hour.text[0] == '0' || hour.digits == 4
	c.half = p.lang.english && c.hour >= 1 && c.hour <= 12 && !zero && !c.noon
	c.sure = c.noon || zero || c.hour == 0 || c.hour >= 12 || !p.lang.english && marked && c.hour >= 7
	last := g.to(0) - 1
	if p.items[last].code == 'M' { // "nove da noite": the part is another element
		for e.to = g.to(2); p.code(e.to-1) == ' '; {
			e.to--
		}
		return e, !p.item(p.before(g.from(0))).is(numbered)
	}
	if g.found(4) {
		return e, c.meridiem(p.items[g.to(4)-1].value) && p.leads(g)
	}
	return e, p.leads(g) && (marked || p.bareHour(c, g))
}

// minutes sets the minutes, and reports whether it found any.
func (p *parser) minutes(c *clock, g groups) bool {
	it, and := &p.items[g.from(3)], p.code(p.before(g.from(3))) == '&'
	c.minute = it.value
	if it.code == 'q' {
		c.minute = 30
	}
	short := p.lang.english && it.code == 'n' && it.value < 10 && p.code(p.before(g.from(3))) != '0'
	counts := (it.digits == 0 || and) && p.next(g.to(3)-1) == g.to(0) && !p.ends(g.to(0)) // "às 9 e 20 ovos"
	free := and && p.lead(g) != '@' && !strings.ContainsAny(p.codes[g.to(2):g.from(3)], "hH") && !p.starts(g.from(0)) &&
		p.beforeElement(g.from(0)) == nil && p.items[g.from(2)].code != 'X' // "iPhone 15 e 16"
	return !short && !counts && !free
}

// meridiem sets the half of the day by am or pm.
func (c *clock) meridiem(plus int) bool {
	twice := c.hour > 12 && plus == 12 // "15h pm"
	ok := c.hour >= 1 && c.hour <= 12 || twice
	if !twice {
		c.hour = c.hour%12 + plus
	}
	c.half, c.sure = false, true
	return ok
}

// leads reports whether "for" before a time of day sets an alarm, and does not say what something is for.
func (p *parser) leads(g groups) bool { return p.lead(g) != 'p' || p.has(remind) }

// bareHour reports whether an hour that may be a number is one.
func (p *parser) bareHour(c *clock, g groups) bool {
	if hour := &p.items[g.from(2)]; g.to(2) != p.last(g)+1 || hour.code == 'X' || hour.digits > 2 {
		return true
	}
	if c.hour == 0 || !p.ends(g.to(0)) {
		return false
	}
	before := p.item(p.before(g.from(0)))
	object := before.code == '_' && !before.is(verb|report|money|book) && !p.starts(p.before(g.from(0))) // "liga pro João as 9"
	return p.lead(g) != 'x' || object || p.beforeElement(g.from(0)) != nil || p.starts(g.from(0)) || p.has(remind)
}

// last is the last item of an hour and its minutes.
func (p *parser) last(g groups) int { return max(g.to(2), g.to(3)) - 1 }

// readPast reads minutes before or after an hour: "half past nine", "dez para as nove".
func readPast(p *parser, g groups) (element, bool) {
	minute, hour, last := &p.items[g.from(2)], &p.items[g.from(4)], &p.items[g.to(0)-1]
	e := element{kind: aClock, led: p.firm(g.from(0))}
	e.clock = clock{hour: hour.value, minute: minute.value, said: p.text[minute.start:last.end], sure: hour.value > 12}
	c := &e.clock
	if minute.code == 'q' {
		c.minute = 30
	}
	if c.minute%5 != 0 || c.minute == 0 || c.minute > 30 || c.hour < 1 || c.hour > 24 {
		return e, false
	}
	if g.found(3) {
		c.minute = -c.minute
	}
	c.half = p.lang.english && c.hour <= 12
	word := among(minute.code, "qk") || p.starts(g.from(0)) && (minute.digits == 0 || !p.lang.english)
	return e, (last.code != 'A' || c.meridiem(last.value)) && (e.led || word || p.beforeElement(g.from(0)) != nil) && p.ends(g.to(0))
}
