package timeparse

import (
	"math"
	"time"
)

// Amount has the time from now to an instant: months, days and weeks keep the time of day, hours and minutes are exact.
type Amount struct {
	Months, Days int
	Exact        time.Duration
}

// units are those of the vocabulary, by their values.
var units = []Amount{
	{}, {Exact: time.Second}, {Exact: time.Minute}, {Exact: time.Hour}, {Days: 1}, {Days: 7}, {Days: 14}, {Months: 1}, {Months: 12},
}

// The units that forms ask for.
const (
	minute = 2
	hour   = 3
	oneDay = 4
	week   = 5
	month  = 7
)

func (a *Amount) add(n float64, u Amount) bool {
	a.Months += int(n) * u.Months
	a.Days += int(n) * u.Days
	a.Exact += time.Duration(n * float64(u.Exact))
	return n >= 0 && (n == float64(int(n)) || u.Exact > 0)
}

// amount adds up the items of an amount: "two and a half hours", "1h30", "1 hora, 20 minutos e 30 segundos".
func (p *parser) amount(from, to int) (total Amount, ok bool) {
	n, last := -1.0, Amount{}
	for i := from; i < to; i++ {
		it := &p.items[i]
		switch {
		case it.code == 'a' && p.code(p.next(i)) != 'q':
			n = 1
		case it.digits > 0 && n >= 0 && among(p.code(i-1), ".,"): // "1.5 hours"
			n += float64(it.value) / math.Pow10(it.digits)
		case it.code == 'n' || it.digits > 0:
			n = float64(it.value)
		case it.code == 'q' && n >= 0:
			n += 0.5
		case it.code == 'q':
			ok = ok && total.add(0.5, last)
		case it.code == 'F':
			ok = total.add(float64(it.value), units[minute])
			n, last = -1, units[hour]
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
		ok = ok && last.Exact == time.Hour && n < 60 && p.ends(to)
		total.Exact += time.Duration(n) * time.Minute
	}
	return total, ok && total != Amount{}
}

func readAmount(p *parser, g groups) (element, bool) {
	e := element{kind: aRelative, led: among(p.lead(g), "if")}
	for i := g.from(0); i < g.from(1); i++ {
		e.about = e.about || p.items[i].code == 'b'
	}
	amount, ok := p.amount(g.from(1), g.to(1))
	e.amount = amount
	switch last := &p.items[g.to(0)-1]; {
	case p.lead(g) == 'f' && p.code(p.next(g.to(0)-1)) == 'v': // "after 10 minutes of boiling"
		return e, false
	case last.code == 'i': // "45 minutos daqui"
		return e, ok && last.text == "daqui" && p.ends(g.to(0))
	}
	return e, ok
}

// readFrom reads an amount of days and the day that it is counted from.
func readFrom(p *parser, g groups) (element, bool) {
	amount, ok := p.amount(g.from(1), g.to(1))
	e, found := p.at(p.next(g.to(0) - 1))
	e.day.plus += amount.Days
	e.led = true
	return e, ok && found && e.kind == aDay && amount.Exact == 0 && amount.Months == 0
}
