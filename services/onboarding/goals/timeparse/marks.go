package timeparse

import (
	"regexp"
	"strings"
)

// mark finds what may belong to a time and no form has used.
func (p *parser) mark() {
	alone := make([]bool, len(p.items))
	for i := range p.items {
		alone[i] = p.codes[i] != ' ' && p.inside(i) == nil && p.temporal(i)
		p.marked = p.marked || alone[i]
	}
	for i := range p.items {
		if alone[i] || p.codes[i] != ' ' && p.inside(i) == nil && (p.marked || len(p.elements) > 0) && p.changes(i, alone) {
			p.left = append(p.left, i)
		}
	}
}

// temporal reports whether an item may be a time, whatever stands around it.
func (p *parser) temporal(i int) bool {
	it := &p.items[i]
	before, next := p.item(p.before(i)), p.item(p.next(i))
	described := among(before.code, "dxa") && next.code == '_' // "the second door", "the daily report"
	switch {
	case it.is(vague):
		return true
	case it.is(every):
		return p.recurs(p.next(i))
	case it.is(often):
		return p.lang.english && !among(before.code, "da") && next.code != '_'
	case it.is(named):
		return p.led(i) || p.starts(i) || next.code == 0 && before.code != 'v'
	case it.is(meal):
		return p.led(i)
	case it.digits > 0 || it.code == 'n':
		return p.mayBeHour(i)
	}
	switch it.code {
	case 'D', 'T', 'w', 'm', 'X', 'Y', 'P', 'Z', 'F':
		return true
	case 'f':
		return next.code != 0
	case 'u', 'H', 'h', 's':
		counted := before.digits > 0 && !(next.code == 'v' && it.code == 's') || among(before.code, "naqkNtLb") || among(next.code, "VL")
		return counted || p.led(i) || before.code == '_' && p.led(p.before(i)) // "on groundhog day"
	case 'A':
		return before.digits > 0 || before.code == 'n' && it.value == 12
	case 'M':
		return !p.lang.english || next.code != '_' || p.led(i) || p.inside(p.before(i)) != nil
	case 'y':
		short := len(it.text) <= 3 && !p.lang.english
		return next.digits > 0 || among(next.code, "@MXV") || before.code == 'o' && next.code == 0 ||
			!short && !described && before.code != 'd' && (next.code != '_' || before.code == 'o' || p.starts(i))
	case 'j':
		return before.digits > 0 || next.digits > 0 || among(before.code, "iN")
	case '#':
		return p.recurs(p.next(i)) || next.code == 'v' && p.recurs(p.next(p.next(i)))
	case 'q', 'k':
		k := p.before(p.before(i))
		return before.code == '@' || before.code == '&' && (p.item(k).digits > 0 || p.code(k) == 'n')
	}
	return it.code == '_' && p.misspelt(it)
}

// led reports whether what stands before an item makes it a time: "on Christmas", "after lunch", "no natal".
func (p *parser) led(i int) bool {
	k := p.before(i)
	if p.code(k) == 'd' {
		k = p.before(k)
	}
	it := p.item(k)
	return among(it.code, "fi@otNxL") || it.text == "with" || it.text == "com" || it.is(vague|limit)
}

// recurs reports whether a word of time stands at an item, perhaps behind an article or another word: "every other Friday".
func (p *parser) recurs(i int) bool {
	for range 2 {
		if among(p.code(i), "dxa#n12_") && !p.items[i].is(vague|named) {
			i = p.next(i)
		}
	}
	return among(p.code(i), "uHDTwyMXF") || p.item(i).is(vague|named)
}

// mayBeHour reports whether a number that no form has used may be an hour.
func (p *parser) mayBeHour(i int) bool {
	it, k, n := &p.items[i], p.before(i), p.next(i)
	before, next := p.item(k), p.item(n)
	joined := next.glued && next.kind != 'a' && p.item(n+1).glued && p.item(n+1).digits > 0
	led := among(before.code, "@ifb") || before.is(limit|soft) || !p.lang.english && before.code == 'x'
	behind := p.inside(k) != nil || (before.kind != 'a' || before.code == '&') && before.digits == 0 && p.inside(p.before(k)) != nil
	switch {
	case p.continues(i) && before.code == ':', joined && next.code == ':':
		return true
	case it.digits > 4, p.phone(i), before.is(money | numbered), before.is(measure) && before.kind == 'a':
		return false
	case it.digits > 0 && it.glued && (before.code == '_' || before.kind == '-' && p.item(k-1).kind == 'a'): // "b12", "Catch-22"
		return false
	case p.continues(i): // "9,30", "9.30", "9/10"
		return p.pair(i - 2)
	case joined:
		return p.pair(i)
	case next.code == 'e': // "the 32nd"
		return p.inside(p.next(n)) != nil
	case it.digits > 0 && next.glued && next.code == '_' && !next.is(measure): // "9hras"
		return led || it.value <= 24
	case p.counts(i), it.value == 1 && next.code == '_' && !led, it.digits == 4 && next.code == '.' && next.glued: // "2026.pdf"
		return false
	case it.digits == 0:
		past := among(next.code, "pc") && p.code(p.next(n)) == 'n' // "quinze pras seis"
		return led && (before.code != 'i' || next.code != '_' || next.is(verb)) || behind || past
	case led || behind:
		return true
	case it.value > 24:
		return it.digits == 4 && it.value < 2400 && it.value%100 < 60 && next.code != '_' && !before.capital
	case among(before.code, "pc"):
		return !p.has(settable)
	}
	return !(next.code == '_' && next.capital && before.is(verb)) // "order 7 Up"
}

// pair reports whether two numbers that a mark joins may be a time or a date.
func (p *parser) pair(i int) bool {
	first, mark, second := p.item(i), p.code(i+1), p.item(i+2)
	date := among(mark, "/-")
	money := p.item(p.before(i)).is(money) || p.counts(i+2)
	return (!money || mark == '/') && first.value <= 31 && second.value < 60 && (second.digits == 2 || date)
}

// dated finds what is written like a date, though there may be no such day.
var dated = regexp.MustCompile(`4[-.][12][-.][12]|[12][-.][12][-.][24]`)

// phone reports whether a number is a part of a long one: "555-1234", "+1 415 555 0100".
func (p *parser) phone(i int) bool {
	total, from, to := 0, i, i
	part := func(k int) bool { return p.item(k).digits > 0 || among(p.code(k), " -.()+") }
	for part(from - 1) {
		from--
	}
	for ; part(to); to++ {
	}
	for k := from; k < to; k++ {
		total += p.items[k].digits
	}
	return total >= 7 && !dated.MatchString(p.codes[from:to])
}

// changes reports whether an item makes of the time next to it another one.
func (p *parser) changes(i int, alone []bool) bool {
	it := &p.items[i]
	time := func(k int) bool { return k >= 0 && k < len(alone) && (alone[k] || p.inside(k) != nil) }
	skip := func(k int, step func(int) int) int {
		for n := 0; n < 3 && among(p.code(k), "dxaov@,(-") && !time(k); n++ {
			k = step(k)
		}
		return k
	}
	after := skip(p.next(i), p.next)
	ahead, beside := time(after), time(after) || time(skip(p.before(i), p.before))
	behind := p.inside(p.before(i)) != nil
	switch {
	case it.is(doubt | named):
		return true
	case it.is(soft | often), among(it.code, "0qk"):
		return beside
	case it.is(limit | every):
		return ahead || p.item(after).digits > 0
	}
	switch it.code {
	case 'E':
		k := p.before(p.before(i))
		return ahead || behind || p.inside(k) != nil || p.inside(p.before(k)) != nil
	case 'b':
		return time(p.next(i)) || p.item(p.next(i)).digits > 0
	case '<', '>', 'N', 'L', 't', 'V', '#', 'G':
		return ahead
	case 'c':
		return ahead && (alone[after] || p.inside(after).kind == aClock)
	case 'u', 'H', 'h', 's':
		return true
	case '(':
		return behind
	case '+', '-':
		return behind && p.item(p.next(i)).digits > 0
	case 'i', 'v', 'o':
		e, where := p.inside(p.next(i)), p.item(p.next(i))
		capital := where.capital && it.code != 'o' && p.text != strings.ToUpper(p.text)
		abroad := where.code == '_' && (capital || where.is(soft|doubt)) // "in Boston", "de Lisboa"
		return it.code == 'i' && e != nil && e.kind == aClock && !e.led || behind && abroad
	}
	return false
}

// misspelt reports whether a word that nobody knows is one slip from a word of time.
func (p *parser) misspelt(it *item) bool {
	if it.classes != 0 || len(it.text) < 5 {
		return false
	}
	for right, e := range p.lang.words {
		if e.is(core) && len(right) >= 5 && right[0] == it.text[0] && near(it.text, right) {
			return true
		}
	}
	return false
}

// near reports whether two words differ by one letter, or by two that changed places.
func near(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}
