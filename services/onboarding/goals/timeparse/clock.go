package timeparse

import "strings"

// clock is a time of day as it was said.
type clock struct {
	hour, minute int
	half         bool // the hour of either half of the day
	sure         bool // the text says which half
	thisTime     bool
	noon         bool // by that name, or midnight
	said         string
}

type partKind int

const (
	dawn partKind = iota + 1
	morning
	afternoon
	evening
	night
)

// readClock reads a time of day: the groups are what leads to it, the hour, the minutes, and am or pm.
func readClock(p *parser, g groups) (element, bool) {
	hour := &p.items[g.from(2)]
	e := element{kind: aClock, led: p.firm(g.from(0))}
	c := &e.clock
	if p.code(g.from(0)) == 'p' && !p.has(remind) {
		return e, false
	}
	c.hour, c.said = hour.value, p.text[hour.start:p.items[p.last(g)].end]
	marked := strings.ContainsAny(p.codes[g.to(2):g.to(0)], ":hH")
	switch {
	case hour.code == 'Y':
		c.thisTime = true
		return e, true
	case hour.code == 'X':
		c.noon = true
	case hour.code == 'a':
		c.hour = 1
	case hour.digits >= 3:
		c.hour, c.minute = hour.value/100, hour.value%100
		if g.to(4) <= g.from(4) && (hour.text[0] != '0' && c.hour < 13 || c.hour > 23 || !p.ends(g.to(0))) {
			return e, false // "at 1500" is a time, "at 1015" may be a house
		}
	}
	if minute := g.from(3); minute >= 0 && g.to(3) > minute {
		c.minute = p.items[minute].value
		if p.items[minute].code == 'q' {
			c.minute = 30
		} else if it := &p.items[minute]; it.digits == 0 && it.value < 10 && p.code(p.before(minute)) != '0' && p.lang.english {
			return e, false
		}
		if m := p.next(g.to(3) - 1); (p.items[minute].digits == 0 || p.code(p.before(minute)) == '&') && m == g.to(0) && !p.ends(m) {
			return e, false // "às 9 e 20 ovos"
		}
	}
	if c.hour < 0 || c.hour > 24 || c.minute > 59 || c.hour == 24 && c.minute > 0 || c.hour == 0 && hour.digits == 0 && !c.noon {
		return e, false
	}
	leadingZero := hour.digits == 2 && hour.text[0] == '0' || hour.digits == 4
	c.half = p.lang.english && c.hour >= 1 && c.hour <= 12 && !leadingZero && !c.noon
	c.sure = c.noon || leadingZero || c.hour == 0 || c.hour >= 12
	if !p.lang.english && marked && c.hour >= 7 {
		c.sure = true // who writes 9h counts to 24
	}
	if from := g.from(4); from >= 0 && g.to(4) > from {
		return e, p.meridiem(c, p.items[g.to(4)-1].value)
	}
	return e, p.bareHour(&e, g, marked)
}

// meridiem sets the half of the day by am or pm.
func (p *parser) meridiem(c *clock, plus int) bool {
	if c.hour > 12 || c.hour == 0 {
		ok := c.hour > 12 && plus == 12 // "15h pm"
		c.half, c.sure = false, true
		return ok
	}
	c.hour, c.half, c.sure = c.hour%12+plus, false, true
	return true
}

// bareHour reports whether an hour that may be a number is one.
func (p *parser) bareHour(e *element, g groups, marked bool) bool {
	lead := p.code(g.from(0))
	bare := g.to(2) == p.last(g)+1 && !marked && p.code(g.from(2)) != 'X' && p.items[g.from(2)].digits < 3
	if !e.led && g.to(3) > g.from(3) && strings.ContainsAny(p.codes[g.to(2):g.from(3)], "&") && !strings.ContainsAny(p.codes[g.to(2):g.from(3)], "hH") &&
		!p.starts(g.from(0)) && !p.follows(g.from(0)) {
		return false // "iPhone 15 e 16"
	}
	if !bare {
		return true
	}
	if e.clock.hour == 0 || !p.ends(g.to(0)) {
		return false
	}
	before := p.item(p.before(g.from(0)))
	object := before.code == '_' && !before.is(verb|report|money|book) && !p.starts(p.before(g.from(0))) // "liga pro João as 9"
	return lead != 'x' || object || p.follows(g.from(0)) || p.starts(g.from(0)) || p.has(remind)
}

// readPast reads minutes before or after an hour: "half past nine", "dez para as nove".
func readPast(p *parser, g groups) (element, bool) {
	minute, hour := &p.items[g.from(2)], &p.items[g.from(4)]
	e := element{kind: aClock, led: p.firm(g.from(0))}
	c := &e.clock
	c.hour, c.minute = hour.value, minute.value
	switch {
	case minute.code == 'q':
		c.minute = 30
	case minute.code == 'a' || c.minute%5 != 0 || c.minute == 0 || c.minute > 29:
		return e, false
	}
	if hour.code == 'a' {
		c.hour = 1
	}
	if before := g.to(3) > g.from(3); before {
		c.minute = -c.minute
	}
	c.said = p.text[minute.start:p.items[g.to(0)-1].end]
	c.half = p.lang.english && c.hour >= 1 && c.hour <= 12
	c.sure = c.hour > 12
	if last := &p.items[g.to(0)-1]; last.code == 'A' && !p.meridiem(c, last.value) {
		return e, false
	}
	figure := minute.code == 'q' || minute.code == 'k'
	figure = figure || p.starts(g.from(0)) && (minute.digits == 0 || !p.lang.english)
	return e, c.hour >= 1 && c.hour <= 24 && (e.led || figure || p.follows(g.from(0))) && p.ends(g.to(0))
}
