package when

import "time"

// Amount is how long after now something is meant: months, days and weeks keep the time of day, hours and minutes are exact.
type Amount struct {
	Months, Days int
	Exact        time.Duration
}

// maxCount is more of any unit than any plan of a scheduler allows.
const maxCount = 1_000_000

// count reads a number in figures or in words: 25, "twenty five", "vinte e cinco".
func (p *parser) count(i int) (n, next int, ok bool) {
	it := p.item(i)
	if !it.is(number) || it.num < 0 {
		return 0, i, false
	}
	n, next = it.num, i+1
	if it.text == "cento" && p.lang != english && p.is(next, and) { // "cento e vinte"
		if low, to, ok := p.count(next + 1); ok && low < 100 && p.item(next+1).kind == word {
			return n + low, to, true
		}
	}
	if it.kind != word || n < 20 || n > 90 || n%10 != 0 {
		return n, next, true
	}
	if p.reads(next, "-") || p.lang != english && p.reads(next, "e") {
		next++
	}
	if low := p.item(next); low.is(number) && low.kind == word && low.num > 0 && low.num < 10 {
		return n + low.num, next + 1, true
	}
	return n, i + 1, true
}

// quantity is a number or the article that counts.
func (p *parser) quantity(i int) (n, next int, ok bool) {
	if n, next, ok = p.count(i); ok {
		return n, next, true
	}
	if p.is(i, once) {
		return 1, i + 1, true
	}
	return 0, i, false
}

// amountBody reads an amount: "an hour and a half", "1h30", "2 hours and 5 minutes".
func (p *parser) amountBody(i int) (Amount, int) {
	var total Amount
	last := years + 1
	for next := i; ; {
		one, u, to := p.single(next)
		if to == next || u >= last { // a larger unit after a smaller one is another amount
			break
		}
		if last <= years && u == hours && p.is(to, on|at) && p.is(to+1, part) { // "daqui a 10 dias, 9h da manhã"
			break
		}
		total.Months += one.Months
		total.Days += one.Days
		total.Exact += one.Exact
		i, last = to, u
		next = to
		if p.is(next, and) || p.reads(next, ",") {
			next++
		}
		if u == hours && p.item(next).kind == digits && p.item(next).num < 60 && !p.is(next+1, number|measure) { // "1h30", "1 hora e 30"
			glued := p.item(next).glued
			if !p.is(next+1, unit) && (glued || p.bareEnd(next+1)) {
				total.Exact += time.Duration(p.item(next).num) * time.Minute
				return total, next + 1
			}
		}
		if m, after, ok := p.count(next); u == hours && ok && p.lang != english && p.is(next-1, and) && p.item(next).kind == word &&
			m >= 5 && m < 60 && (p.item(after).from < 0 || p.is(after, verb|remind)) { // "duas horas e quinze"
			total.Exact += time.Duration(m) * time.Minute
			return total, after
		}
		if u < minutes || p.is(next, and) {
			break
		}
	}
	return total, i
}

// single reads an amount of one unit.
func (p *parser) single(i int) (Amount, unitKind, int) {
	if it := p.item(i); it.is(fixed) && it.num > 0 {
		return Amount{Exact: time.Duration(it.num) * time.Minute}, hours, i + 1
	}
	if p.lang != english && p.reads(i, "meio") && p.is(i+1, unit) && unitKind(p.item(i+1).value) == minutes {
		return Amount{Exact: 30 * time.Second}, minutes, i + 2
	}
	n, next, ok := p.quantity(i)
	if !ok || n > maxCount || p.is(i, coming) {
		return Amount{}, 0, i
	}
	halves := 2 * n
	switch {
	case (p.reads(next, ".") || p.reads(next, ",")) && p.item(next).glued && p.reads(next+1, "5") && p.item(next+1).glued:
		halves, next = halves+1, next+2
	case p.is(next, and) && p.is(next+1, once) && p.is(next+2, half): // "two and a half hours"
		halves, next = halves+1, next+3
	case p.is(next, and) && (p.is(next+1, half) || p.reads(next+1, "meio")) && p.is(next+2, unit): // "duas e meia horas"
		halves, next = halves+1, next+2
	case p.reads(next, "½"):
		halves, next = halves+1, next+1
	case p.item(i).kind == digits && p.reads(next, "1") && !p.item(next).glued && p.reads(next+1, "/") && p.reads(next+2, "2"):
		// "1 1/2 hours"
		halves, next = halves+1, next+3
	}
	if p.is(next, once) && p.is(next+1, unit) && p.is(i, number) && p.item(i).kind == word {
		next++ // "half of an hour", "a couple of an"
	}
	if p.lang == english && p.reads(next, "-") && p.reads(next+1, "ish") && p.item(next+1).glued {
		next++
	}
	if p.lang == english && p.reads(next, "ish") && p.item(next).glued { // "20ish minutes"
		next++
	}
	it := p.item(next)
	if !it.is(unit) || it.is(number) {
		return Amount{}, 0, i
	}
	u := unitKind(it.value)
	next++
	switch {
	case p.is(next, and) && p.is(next+1, once) && p.is(next+2, half): // "an hour and a half"
		halves, next = halves+1, next+3
	case p.is(next, and) && (p.is(next+1, half) || p.reads(next+1, "meio")) && !p.is(next+2, unit): // "uma hora e meia"
		halves, next = halves+1, next+2
	}
	amount, ok := unitAmount(halves, u)
	if !ok {
		return Amount{}, 0, i
	}
	return amount, u, next
}

// unitAmount is a number of halves of a unit.
func unitAmount(halves int, u unitKind) (Amount, bool) {
	n := halves / 2
	switch {
	case halves == 0:
		return Amount{}, false
	case u == seconds && halves%2 == 0:
		return Amount{Exact: time.Duration(n) * time.Second}, true
	case u == minutes:
		return Amount{Exact: time.Duration(halves) * 30 * time.Second}, true
	case u == hours:
		return Amount{Exact: time.Duration(halves) * 30 * time.Minute}, true
	case halves%2 != 0: // half a day is 12 hours or until the afternoon
		return Amount{}, false
	case u == days:
		return Amount{Days: n}, true
	case u == weeks:
		return Amount{Days: 7 * n}, true
	case u == fortnights:
		return Amount{Days: 14 * n}, true
	case u == months:
		return Amount{Months: n}, true
	case u == years:
		return Amount{Months: 12 * n}, true
	default:
		return Amount{}, false
	}
}

// relative reads an amount from now: "in 5 minutes", "daqui a 2 horas", "10 minutes from now".
func (p *parser) relative(i int) element {
	none := element{}
	if awaited := p.awaited(i); awaited.to > i {
		return awaited
	}
	first := i
	if p.is(i, purpose) && p.is(i+1, in) { // "para daqui a 10 minutos", "for in 10 minutes"
		first++
	}
	led := p.is(first, in|after) && !p.is(first, vague)
	if led {
		first++
		if p.reads(first, "just") || p.reads(first, "exactly") || p.reads(first, "exatamente") || p.reads(first, "mais") &&
			p.item(first).to-p.item(first).from == 1 || p.reads(first, "another") {
			first++
		}
	}
	exact := first
	first = p.approximate(first)
	amount, next := p.amountBody(first)
	if next == first || !led && first > exact && !p.is(next, fromNow) {
		return none
	}
	if led && p.is(first, once) && p.item(next-1).value == int(seconds) { // "in a second" is said, not counted
		return none
	}
	if p.lang != english && p.is(first-1, after) && (p.reads(next-1, "h") || p.reads(next-1, "hs")) { // "após 17h"
		return none
	}
	switch {
	case p.is(next, fromNow):
		next++
	case !led:
		return p.fromDay(amount, next)
	case p.reads(next, "time"):
		next++
	case (p.reads(next, "'") || p.reads(next, "’")) && p.reads(next+1, "time"):
		next += 2
	case p.reads(next, "s'"):
		next++
	}
	if amount.Exact == 0 && amount.Months == 0 { // "in 2 days": a day, that a time of day may join
		return element{kind: aRelative, to: next, amount: amount}
	}
	return element{kind: aRelative, to: next, amount: amount}
}

// awaited reads an amount that the goal waits for before what it does: "wait 10 minutes then", "espera meia hora e liga", "10 mins then",
// "two hours later". Who only waits, or waits "and" does what is no verb, may mean one thing.
func (p *parser) awaited(i int) element {
	if !p.start(i) || p.item(i).kind == mark {
		return element{}
	}
	if reached := p.reached(i); reached.to > i {
		return reached
	}
	first, led := p.waiting(i)
	first = p.approximate(first)
	amount, next := p.amountBody(first)
	if next == first || amount.Exact == 0 {
		return element{}
	}
	if p.lang == english && !led && p.reads(next, "later") && p.item(next).to-p.item(next).from == 1 {
		return element{kind: aRelative, to: next + 1, amount: amount}
	}
	joined := false
	for p.reads(next, ",") || p.is(next, and) && !p.item(next).accent {
		joined = joined || p.is(next, and)
		next++
	}
	then := p.item(next)
	if then.to-then.from == 1 && p.item(next+1).kind != mark && !p.is(next+1, or) && !p.reads(next+1, "disso") {
		switch then.text {
		case "then", "depois", "dps", "dai", "ai", "entao":
			return element{kind: aRelative, to: next + 1, amount: amount}
		}
	}
	if joined && p.lang != english && then.text == "em" && then.is(vague) { // "em seguida"
		return element{kind: aRelative, to: next + 1, amount: amount}
	}
	if led && joined && then.is(verb) && !then.is(enduring) {
		return element{kind: aRelative, to: next, amount: amount}
	}
	return element{}
}

// waiting reads the words that ask to wait. "Wait 10 minutes and call" may mean one thing that is done now; "give it 10 minutes and call"
// does not.
func (p *parser) waiting(i int) (first int, led bool) {
	more := func(k int) int {
		if p.lang != english && p.reads(k, "ai") {
			k++
		}
		if p.reads(k, "uns") || p.reads(k, "umas") || p.is(k, lasting) || p.reads(k, "another") ||
			p.reads(k, "mais") && p.item(k).to-p.item(k).from == 1 {
			k++
		}
		return k
	}
	switch it := p.item(i); {
	case p.lang == english && (it.text == "wait" || it.text == "hold" && it.to-it.from == 2):
		return more(i + 1), false
	case p.lang == english && it.text == "give" && (p.reads(i+1, "it") || p.reads(i+1, "me")):
		return more(i + 2), true
	case p.lang != english && it.text == "me" && p.reads(i+1, "da"):
		return more(i + 2), true
	}
	if p.lang != english {
		switch p.item(i).text {
		case "espera", "espere", "aguarda", "aguarde", "segura", "segure", "conta", "conte", "da", "de":
			if p.item(i).to-p.item(i).from == 1 {
				return more(i + 1), p.reads(i, "segura") || p.reads(i, "conta") || p.reads(i, "da")
			}
		}
	}
	return i, false
}

// reached reads when a clock or an amount is reached: "quando der 18 horas", "assim que passar meia hora".
func (p *parser) reached(i int) element {
	if p.lang == english || !p.reads(i, "quando") && !p.reads(i, "qdo") && !p.reads(i, "qnd") && !p.reads(i, "assim") {
		return element{}
	}
	k := i + 1
	clocks := false
	switch p.item(k).text {
	case "der", "derem", "for", "forem":
		clocks = true
	case "passar", "passarem", "completar", "completarem", "fizer":
	default:
		return element{}
	}
	if k++; clocks {
		if c, to := p.clockBody(k, true); to > k && c.plainNumber == 0 {
			return element{kind: aClock, to: to, clock: c}
		}
	}
	if amount, to := p.amountBody(k); to > k && amount.Exact > 0 {
		return element{kind: aRelative, to: to, amount: amount}
	}
	return element{}
}

// approximate skips a word that makes an amount approximate: "in about 10 minutes" is meant as 10. What counts with "uns" or "mais ou
// menos" may be any number and is asked back.
func (p *parser) approximate(i int) int {
	switch p.item(i).text {
	case "about", "abt", "around", "roughly", "approximately", "approx", "circa", "like":
		if p.lang == english && p.item(i).to-p.item(i).from == 1 {
			return i + 1
		}
	case "cerca", "em", "aproximadamente":
		if p.lang != english && p.is(i, bound) {
			return i + 1
		}
	}
	return i
}

// fromDay reads days and weeks that are counted from a day: "a week from tomorrow".
func (p *parser) fromDay(amount Amount, next int) element {
	if amount.Exact != 0 || amount.Months != 0 || !p.reads(next, "from") && !(p.lang == english && (p.reads(next, "after") ||
		p.reads(next, "on"))) ||
		p.reads(next, "on") && amount.Days%7 != 0 {
		return element{}
	}
	d, to := p.dayBody(next + 1)
	if to == next+1 || p.reads(next, "after") && d.kind == offset && d.offset != 1 {
		return element{}
	}
	d.plus = amount.Days
	return element{kind: aDay, to: to, day: d}
}

// ago reads an amount that has passed, and days that have.
func (p *parser) ago(i int) element {
	// "e-mail de ontem"
	of := p.is(i-1, on) && p.item(i-1).kind == word && p.item(i-1).text != "on" && p.item(i-1).text != "em" || p.item(i-1).text == "from"
	if p.is(i, passed) {
		return element{kind: aPassed, to: i + 1, named: of}
	}
	if p.is(i, last) && p.is(i+1, weekday|part|month) && !p.is(i+1, counted) {
		return element{kind: aPassed, to: i + 2, named: of}
	}
	if p.is(i, weekday) && p.is(i+1, last) {
		return element{kind: aPassed, to: i + 2}
	}
	first := i
	if p.reads(i, "ha") {
		first++
	}
	_, next := p.amountBody(first)
	if next == first {
		return element{}
	}
	if p.is(next, ago) || first > i && p.lang != english {
		if p.is(next, ago) {
			next++
		}
		return element{kind: aPassed, to: next, named: of && first == i}
	}
	return element{}
}

// duration reads how long something takes: "for 30 minutes".
func (p *parser) duration(i int) element {
	if !p.is(i, lasting) || p.is(i+1, half|quarter) && !p.is(i+1, fixed) {
		return element{}
	}
	first := i + 1
	_, next := p.amountBody(first)
	if next == first || p.is(next, every|pastHour|ago) {
		return element{}
	}
	return element{kind: aDuration, to: next}
}
