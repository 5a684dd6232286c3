package timeparse

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Amount has the time from now to an instant: months, days and weeks keep the time of day, hours and minutes are exact.
type Amount struct {
	Months, Days int
	Exact        time.Duration
}

// units lists the units of the vocabulary, by their values.
var units = []Amount{
	{}, {Exact: time.Second}, {Exact: time.Minute}, {Exact: time.Hour}, {Days: 1}, {Days: 7}, {Days: 14}, {Months: 1}, {Months: 12},
}

func (a *Amount) add(n float64, u Amount) bool {
	a.Months += int(n) * u.Months
	a.Days += int(n) * u.Days
	a.Exact += time.Duration(n * float64(u.Exact))
	return n >= 0 && (n == float64(int(n)) || u.Exact > 0)
}

// amount adds up the items of an amount: "two and a half hours", "1h30", "1 hora, 20 minutos e 30 segundos".
func (p *parser) amount(of span) (total Amount, ok bool) {
	n, last := -1.0, Amount{}
	for i := of.from; i < of.to; i++ {
		switch it := &p.items[i]; {
		case it.code == 'a' && p.code(i+1) != 'q':
			n = 1
		case it.digits > 0 && n >= 0 && among(p.code(i-1), ".,"): // "1.5 hours"
			n += float64(it.value) / math.Pow10(it.digits)
		case it.code == 'n' || it.digits > 0:
			n = float64(it.value)
		case it.code == 'q' && n >= 0:
			n += 0.5
		case it.code == 'q':
			ok = ok && total.add(0.5, last)
		case it.code == 'k':
			ok = ok && total.add(0.25, last)
		case it.code == 'F':
			ok = total.add(float64(it.value), Amount{Exact: time.Minute})
			n, last = -1, Amount{Exact: time.Hour}
		case among(it.code, "uHhs"):
			u := units[it.value]
			// A larger unit behind a smaller one is another amount, and "10 dias, 9h" is a time of day.
			if ok = total.add(n, u); !ok || last.Exact > 0 && last.Exact <= u.Exact || last.Days > 0 && it.code == 'h' {
				return total, false
			}
			n, last = -1, u
		}
	}
	if n >= 0 { // the minutes of "1h30"
		ok = ok && last.Exact == time.Hour && n < 60 && p.ends(of.to)
		total.Exact += time.Duration(n) * time.Minute
	}
	return total, ok && total != Amount{}
}

func readAmount(p *parser, g groups) (element, bool) {
	amount, ok := p.amount(g["amount"])
	about := strings.Contains(p.codes[g.from():g["amount"].from], "b")
	of := p.lead(g) == 'f' && p.code(g.to()) == 'v' // "after 10 minutes of boiling"
	ok = ok && !of && (p.code(g.to()-1) != '=' || p.ends(g.to()))
	return element{kind: aRelative, led: among(p.lead(g), "if="), about: about, amount: amount}, ok
}

// readDuration reads how long something lasts.
func readDuration(p *parser, g groups) (element, bool) {
	amount, _ := p.amount(g["amount"])
	return element{kind: aDuration, led: true, amount: amount}, true
}

// readFrom reads an amount of days and the day that it is counted from: "a week from Friday".
func readFrom(p *parser, g groups) (element, bool) {
	amount, ok := p.amount(g["amount"])
	e, found := p.at(g.to())
	from := e.on
	e.led, e.today = true, false
	e.on = func(today time.Time) (days []time.Time) {
		for _, day := range from(today) {
			return []time.Time{day.AddDate(0, 0, amount.Days)}
		}
		return nil
	}
	return e, ok && found && e.kind == aDay && amount.Exact == 0 && amount.Months == 0
}

// clock is a time of day as it was said.
type clock struct {
	hour, minute int
	half         bool // the hour of either half of the day
	sure         bool // the text says which half
	fixed        bool // by am, pm, or the name of noon: a part of the day does not change it
	midnight     bool // by that name
	said         string
}

// firm reports whether the first item leads to a time, and not to the name of something.
func (p *parser) firm(g groups) bool { return among(p.lead(g), "oit@xN") }

// leads reports whether "for" before a time of day sets an alarm, and does not say what something is for.
func (p *parser) leads(g groups) bool { return p.lead(g) != 'p' || p.has("remind") }

// readClock reads a time of day from its groups: the hour, the minutes, and am or pm.
func readClock(p *parser, g groups) (element, bool) {
	hour, end := p.first(g, "hour"), max(g["hour"].to, g["min"].to)
	marked := strings.ContainsAny(p.codes[g["hour"].to:g.to()], ":hH") // as an hour: who writes 9h counts to 24
	zero := hour.digits == 2 && hour.text[0] == '0' || hour.digits == 4
	c := clock{hour: hour.value, fixed: hour.code == 'X', said: p.text[hour.start:p.items[end-1].end]}
	ok := true
	if hour.digits >= 3 { // "at 1500" is a time, "at 1015" may be a house
		c.hour, c.minute = hour.value/100, hour.value%100
		ok = g.has("ampm") || (hour.text[0] == '0' || c.hour >= 13) && c.hour <= 23 && p.ends(g.to())
	}
	if g.has("min") {
		c.minute = p.first(g, "min").value
		ok = ok && p.minutes(g)
	}
	ok = ok && c.hour >= 0 && c.minute <= 59 && (c.hour < 24 || c.hour == 24 && c.minute == 0) && (c.hour > 0 || hour.digits > 0 || c.fixed)
	c.midnight = c.fixed && c.hour == 0 && c.minute == 0
	c.half = p.lang.twelve() && c.hour >= 1 && c.hour <= 12 && !zero && !c.fixed
	c.sure = c.fixed || zero || c.hour == 0 || c.hour >= 12 || !p.lang.twelve() && marked && c.hour >= 7
	switch {
	case g.has("then"): // "nove da noite"; "7 tonight" only at the beginning, because "buy 7 tonight" is of seven things
		ok = ok && !p.item(g.from()-1).is("numbered") && (!among(p.code(g["then"].from), "TtD") || p.starts(g.from()))
	case g.has("ampm"):
		ok = ok && c.meridiem(p.first(g, "ampm").value) && p.leads(g)
	case !marked && end == g["hour"].to && hour.code != 'X' && hour.digits <= 2:
		ok = ok && c.hour > 0 && p.ends(g.to()) && p.bareHour(g) && p.leads(g)
	default:
		ok = ok && p.leads(g)
	}
	return element{kind: aClock, led: p.firm(g), clock: c}, ok
}

// minutes reports whether what stands behind an hour are its minutes.
func (p *parser) minutes(g groups) bool {
	it, before := p.first(g, "min"), p.code(g["min"].from-1)
	short := it.code == 'n' && it.value < 10 && !among(before, "0&")                        // "nine five"
	counts := (it.digits == 0 || before == '&') && g["min"].to == g.to() && !p.ends(g.to()) // "às 9 e 20 ovos"
	plain := before == '&' && p.lead(g) != '@' && among(p.code(g["min"].from-2), "n12a") && p.first(g, "hour").code != 'X'
	free := plain && !p.starts(g.from()) && p.beforeElement(g.from()) == nil // "iPhone 15 e 16"
	return !short && !counts && !free
}

// meridiem sets the half of the day by am or pm.
func (c *clock) meridiem(plus int) bool {
	twice := c.hour > 12 && plus == 12 // "15h pm"
	ok := c.hour >= 1 && c.hour <= 12 || twice
	if !twice {
		c.hour = c.hour%12 + plus
	}
	c.half, c.sure, c.fixed = false, true, true
	return ok
}

// bareHour reports whether a number without a sign of time is an hour. In "acordar as 9" it is none: 9 may count what "acordar" needs.
func (p *parser) bareHour(g groups) bool {
	before := p.item(g.from() - 1)
	object := before.code == '_' && !before.is("verb", "report", "money", "book") && !p.starts(g.from()-1) // "liga pro João as 9"
	return p.lead(g) != 'x' || object || p.beforeElement(g.from()) != nil || p.starts(g.from()) || p.has("remind")
}

// readPast reads minutes before or after an hour: "half past nine", "dez para as nove".
func readPast(p *parser, g groups) (element, bool) {
	minute, hour := p.first(g, "min"), p.first(g, "hour")
	said := p.text[min(minute.start, hour.start):p.items[g.to()-1].end]
	c := clock{hour: hour.value, minute: minute.value, said: said, sure: hour.value > 12, half: p.lang.twelve() && hour.value <= 12}
	word := among(minute.code, "qk") || p.starts(g.from()) && (minute.digits == 0 || p.code(g["to"].from) == 'p')
	ranges := g.has("to") && minute.digits > 0 && hour.digits > 0 // "saturday 10 to 11"
	ok := (p.firm(g) || word || p.beforeElement(g.from()) != nil && !ranges) && p.ends(g.to())
	ok = ok && c.minute%5 == 0 && c.minute > 0 && c.minute <= 30 && c.hour >= 1 && c.hour <= 24
	if g.has("to") {
		c.minute = -c.minute
	}
	if g.has("ampm") {
		ok = c.meridiem(p.first(g, "ampm").value) && ok
	}
	return element{kind: aClock, led: p.firm(g), clock: c}, ok
}

func readPart(p *parser, g groups) (element, bool) {
	part := p.first(g, "part").value
	if p.lead(g) == 't' { // "this morning"
		return element{kind: aDay, on: ahead(0), today: true, part: part, led: true}, true
	}
	last := p.beforeElement(g.from())
	e := element{kind: aPart, part: part, led: g["part"].from > g.from() || strings.Contains(p.items[g.from()].text, " ")}
	return e, last != nil && (last.kind == aDay || last.kind == aClock && e.led)
}

// ahead finds the day that is so many days from today.
func ahead(days int) func(time.Time) []time.Time {
	return func(today time.Time) []time.Time { return []time.Time{today.AddDate(0, 0, days)} }
}

func readDay(p *parser, g groups) (element, bool) {
	it := p.first(g, "day")
	e := element{kind: aDay, led: p.firm(g), on: ahead(it.value), today: it.value == 0}
	if it.code == 'T' {
		e.part = night
	}
	return e, p.leads(g)
}

// readWeekday reads a weekday, with "next" around it, or with the next week.
func readWeekday(p *parser, g groups) (element, bool) {
	it, next, nextWeek := p.first(g, "weekday"), g.has("next") || g.has("coming"), g.has("week")
	on := func(today time.Time) []time.Time { return weekdays(time.Weekday(it.value), today, next, nextWeek) }
	e := element{kind: aDay, led: p.firm(g), on: on, weekday: it.value + 1, next: next || nextWeek}
	if nextWeek {
		return e, p.unitIn(g["week"], Amount{Days: 7}) && p.leads(g) && (it.code == 'w' || len(it.text) > 3)
	}
	return e, p.leads(g) && (it.code == 'w' || next || p.weekdayStands(it, g))
}

// weekdays finds the dates that a weekday can be.
func weekdays(weekday time.Weekday, today time.Time, next, nextWeek bool) []time.Time {
	iso := func(w time.Weekday) int { return (int(w) + 6) % 7 }
	days := (int(weekday) - int(today.Weekday()) + 7) % 7
	switch {
	case nextWeek && (weekday == time.Sunday || today.Weekday() == time.Sunday): // a week begins on Sunday or on Monday
		return nil
	case nextWeek:
		days = 7 - iso(today.Weekday()) + iso(weekday)
	case next && days == 0:
		days = 7
	case next && (iso(weekday) > iso(today.Weekday()) || days == 1): // the next one, or that of next week?
		return nil
	case days == 0:
		return []time.Time{today, today.AddDate(0, 0, 7)}
	}
	return []time.Time{today.AddDate(0, 0, days)}
}

// weekdayStands reports whether a word that may be something else, such as "sun" and "segunda", is a weekday.
func (p *parser) weekdayStands(it *item, g groups) bool {
	next, behind := p.item(g.to()), p.item(g.to()+1)
	switch {
	case next.digits > 0 && !p.counts(g.to()), among(next.code, "@MX"), next.isUnit(Amount{Days: 1}),
		among(next.code, "x,") && (behind.digits > 0 || among(behind.code, "nX")), p.beforeElement(g.from()) != nil:
		return true
	}
	return len(it.text) > 3 && p.firm(g) && (next.code != '_' || next.is("verb", "remind", "word"))
}

// unitIn reports whether some items have a unit.
func (p *parser) unitIn(s span, unit Amount) bool {
	return slices.ContainsFunc(p.items[s.from:s.to], func(it item) bool { return it.isUnit(unit) })
}

func (it *item) isUnit(unit Amount) bool { return it.code == 'u' && units[it.value] == unit }

// readDate reads a date by its numbers and its month, wherever they stand.
func readDate(p *parser, g groups) (element, bool) {
	var n []int
	year, month := 0, 0
	for _, it := range p.items[g.from():g.to()] {
		switch {
		case it.month > 0 && len(n) == 1: // December, and ten
			month = it.month
		case it.digits == 4:
			year = it.value
		case it.digits > 0 || among(it.code, "n#"):
			n = append(n, it.value)
		case among(it.code, "mj"):
			month = it.value
		case it.code == 'u' && !it.isUnit(Amount{Days: 1}):
			return element{}, false
		}
	}
	ok, monthFirst := true, p.lang.say["dates"] == "month first" // 9/25 is a month and a day, and 9/5 may be that
	switch {
	case month != 0 && len(n) == 1:
		ok = year != 0 || !p.counts(g.to()-1)
	case len(n) < 2:
		return element{}, false
	case p.code(g.to()-2) == '-' || monthFirst && n[1] > 12:
		month, n[0] = n[0], n[1]
	default:
		month, ok = n[1], !monthFirst || n[0] > 12 || n[0] == n[1]
	}
	if len(n) == 3 {
		year = 2000 + n[2]
	}
	glued := among(p.code(g.to()), "/-:.") && p.item(g.to()+1).digits > 0
	e := element{kind: aDay, led: p.firm(g), on: func(today time.Time) []time.Time { return dates(year, month, n[0], today) }}
	return e, ok && !glued && month >= 1 && month <= 12 && n[0] >= 1 && n[0] <= 31 && p.leads(g)
}

// recently bounds how long ago a date without a year may be to count as past, and not as a date of next year.
const recently = 90 * 24 * time.Hour

// dates finds a date, of this year or the next where none was said.
func dates(year, month, day int, today time.Time) []time.Time {
	for _, y := range []int{cmp.Or(year, today.Year()), cmp.Or(year, today.Year()+1)} {
		if t := time.Date(y, time.Month(month), day, 0, 0, 0, 0, time.UTC); t.Day() == day && (year != 0 || today.Sub(t) < recently) {
			return []time.Time{t}
		}
	}
	return nil
}

// readTheDay reads "the 5th", which may be the fifth of something.
func readTheDay(p *parser, g groups) (element, bool) {
	e, ok := p.dayOfMonth(g, false)
	next := p.item(g.to())
	return e, ok && (next.code == 0 || next.digits > 0 || among(next.code, "@,nXi") || p.lead(g) == 'o' && next.is("verb"))
}

// readDayOfMonth reads a day with the word for it, and perhaps which month: "dia 5 do mês que vem".
func readDayOfMonth(p *parser, g groups) (element, bool) {
	e, ok := p.dayOfMonth(g, g.has("month") && p.code(g["month"].from) == 'N' || p.code(g.to()-1) == 'V')
	return e, ok && p.unitIn(g[""], Amount{Days: 1}) && (!g.has("month") || p.unitIn(g["month"], Amount{Months: 1}))
}

func (p *parser) dayOfMonth(g groups, nextMonth bool) (element, bool) {
	n, next := p.first(g, "day").value, p.item(g.to())
	on := func(today time.Time) []time.Time {
		for month := range 3 {
			t := time.Date(today.Year(), today.Month()+time.Month(month), n, 0, 0, 0, 0, time.UTC)
			if t.Day() == n && (nextMonth && month == 1 || !nextMonth && !t.Before(today)) {
				return []time.Time{t}
			}
		}
		return nil
	}
	return element{kind: aDay, led: true, on: on}, n >= 1 && n <= 31 && p.leads(g) && !(next.glued && among(next.code, "/:-h"))
}
