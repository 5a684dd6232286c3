package timeparse

import (
	"regexp"
	"strings"
)

// mark finds what may belong to a time and no form has used.
func (p *parser) mark() {
	alone := make([]bool, len(p.items))
	for i := range p.items {
		if p.items[i].code != ' ' && p.inside(i) == nil && p.temporal(i) {
			alone[i], p.marked = true, true
		}
	}
	for i := range p.items {
		switch {
		case p.items[i].code == ' ' || p.inside(i) != nil:
		case alone[i], (p.marked || len(p.elements) > 0) && p.changes(i, alone):
			p.left = append(p.left, i)
		}
	}
}

// temporal reports whether an item may be a time, whatever stands around it.
func (p *parser) temporal(i int) bool {
	it := &p.items[i]
	before, next := p.item(p.before(i)), p.item(p.next(i))
	counted := before.digits > 0 || strings.IndexByte("naqk", before.code) >= 0 && before.code != 0
	switch {
	case it.is(vague):
		return true
	case it.is(every):
		return p.recurs(i)
	case it.is(often):
		return p.lang.english && before.code != 'd' && before.code != 'a' && next.code != '_'
	case it.is(named):
		return p.led(i) || p.starts(i) || next.code == 0 && before.code != 'v' || p.starts(i)
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
		of := next.code == 'v' && it.code == 's'
		return counted && !of || next.code == 'V' || next.code == 'L' || strings.IndexByte("NtLb", before.code) >= 0 && before.code != 0 ||
			p.led(i) || before.code == '_' && p.led(p.before(i))
	case 'A':
		return before.digits > 0 || before.code == 'n' && it.value == 12
	case 'M':
		return !p.lang.english || next.code != '_' || p.led(i) || before.code == 'd' && p.led(p.before(i)) || p.inside(p.before(i)) != nil
	case 'y':
		return p.shortDay(i)
	case '#':
		return p.ofMonth(p.next(i))
	case 'q', 'k':
		return before.code == '@' || before.code == '&' && (p.item(p.before(p.before(i))).digits > 0 || p.code(p.before(p.before(i))) == 'n')
	case 'j':
		return before.digits > 0 || next.digits > 0 || before.code == 'i' || before.code == 'N'
	case '_':
		return p.misspelt(it)
	}
	return false
}

// led reports whether what stands before an item makes it a time: "on Christmas", "after lunch", "no natal".
func (p *parser) led(i int) bool {
	k := p.before(i)
	if p.code(k) == 'd' {
		k = p.before(k)
	}
	it := p.item(k)
	return it.code != 0 && strings.IndexByte("fi@otNxL", it.code) >= 0 || it.text == "with" || it.text == "com" || it.is(vague|limit)
}

// ofMonth reports whether what stands behind an ordinal makes it a day: "first of the month", "third Tuesday".
func (p *parser) ofMonth(i int) bool {
	if p.code(i) == 'v' {
		if i = p.next(i); p.code(i) == 'd' {
			i = p.next(i)
		}
	}
	return p.code(i) != 0 && strings.IndexByte("uwyMm", p.code(i)) >= 0
}

// recurs reports whether "every" and the like stand before a word of time.
func (p *parser) recurs(i int) bool {
	k := p.next(i)
	for range 2 {
		if c := p.code(k); c != 0 && strings.IndexByte("dxa#n12_", c) >= 0 && !p.items[k].is(vague|named) {
			k = p.next(k)
		}
	}
	it := p.item(k)
	return it.code != 0 && strings.IndexByte("uHDTwyMXF", it.code) >= 0 || it.is(vague|named)
}

// shortDay reports whether "sun", "segunda" and the like are a weekday.
func (p *parser) shortDay(i int) bool {
	before, next := p.item(p.before(i)), p.item(p.next(i))
	switch {
	case next.digits > 0 || strings.IndexByte("@MXV", next.code) >= 0 && next.code != 0:
		return true
	case len(p.items[i].text) <= 3 && !p.lang.english, strings.IndexByte("dxa", before.code) >= 0 && before.code != 0 && next.code == '_':
		return before.code == 'o' && next.code == 0
	}
	return before.code != 'd' && (next.code != '_' || before.code == 'o' || p.starts(i))
}

// mayBeHour reports whether a number that no form has used may be an hour.
func (p *parser) mayBeHour(i int) bool {
	it := &p.items[i]
	k := p.before(i)
	before, next := p.item(k), p.item(p.next(i))
	glued := next.glued && p.item(p.next(i)+1).glued
	if before.code == ':' && p.item(k-1).digits > 0 || next.code == ':' && glued && p.item(p.next(i)+1).digits > 0 {
		return true
	}
	if it.digits > 4 || p.phone(i) || before.is(money|numbered) || before.is(measure) && before.kind == 'a' {
		return false
	}
	if it.digits > 0 && it.glued && (before.code == '_' || before.kind == '-' && p.item(k-1).kind == 'a') { // "b12", "Catch-22"
		return false
	}
	behind := p.inside(k) != nil || (before.kind != 'a' || before.code == '&') && before.digits == 0 && p.inside(p.before(k)) != nil
	if p.continues(i) || glued && p.item(p.next(i)+1).digits > 0 { // "9,30", "9.30", "9/10"
		return p.pair(i)
	}
	if next.code == 'e' { // "the 32nd"
		return p.inside(p.next(p.next(i))) != nil
	}
	led := before.code != 0 && strings.IndexByte("@ifb", before.code) >= 0 || before.is(limit|soft) || !p.lang.english && before.code == 'x'
	switch {
	case it.digits > 0 && next.glued && next.code == '_' && !next.is(measure):
		return led || it.value <= 24
	case p.counts(i), it.value == 1 && next.code == '_' && !led:
		return false
	case glued && it.digits == 4 && next.code == '.': // "2026.pdf"
		return false
	case it.digits == 0:
		past := strings.IndexByte("pc", next.code) >= 0 && next.code != 0 && p.code(p.next(p.next(i))) == 'n' // "quinze pras seis"
		return led && (before.code != 'i' || next.code != '_' || next.is(verb)) || behind || past
	case led || behind:
		return true
	case it.value > 24:
		return it.digits == 4 && it.value < 2400 && it.value%100 < 60 && next.code != '_' && !before.capital
	case before.code == 'p' || before.code == 'c' || before.is(limit) || before.code == 'i':
		return !p.has(settable) && !(before.code == 'p' && p.has(party))
	}
	return !(next.code == '_' && next.capital && !p.starts(i) && before.is(verb))
}

// pair reports whether two numbers that a mark joins may be a time or a date.
func (p *parser) pair(i int) bool {
	if p.continues(i) {
		i -= 2
	}
	first, second := p.item(i), p.item(i+2)
	money := p.item(p.before(i)).is(money) || p.counts(i+2)
	return (!money || p.code(i+1) == '/') && first.value <= 31 && second.value < 60 && (second.digits == 2 || p.code(i+1) == '/' || p.code(i+1) == '-')
}

// dated finds what is written like a date, though there may be no such day.
var dated = regexp.MustCompile(`4[-.][12][-.][12]|[12][-.][12][-.][24]`)

// phone reports whether a number is a part of a long one: "555-1234", "+1 415 555 0100".
func (p *parser) phone(i int) bool {
	total := p.items[i].digits
	joined := func(k int) bool {
		c := p.code(k)
		return c != 0 && strings.IndexByte(" -.()+", c) >= 0
	}
	from, to := i, i+1
	for ; p.item(from-1).digits > 0 || joined(from-1); from-- {
		total += p.item(from - 1).digits
	}
	for ; p.item(to).digits > 0 || joined(to); to++ {
		total += p.item(to).digits
	}
	return total >= 7 && !dated.MatchString(p.codes[from:to])
}

// changes reports whether an item makes of the time next to it another one.
func (p *parser) changes(i int, alone []bool) bool {
	it := &p.items[i]
	time := func(k int) bool { return k >= 0 && k < len(alone) && (alone[k] || p.inside(k) != nil) }
	skip := func(k int, step func(int) int) int {
		for n := 0; n < 3 && p.code(k) != 0 && strings.IndexByte("dxaov@,(-", p.code(k)) >= 0 && !time(k); n++ {
			k = step(k)
		}
		return k
	}
	after, before := skip(p.next(i), p.next), skip(p.before(i), p.before)
	ahead := time(after)
	switch {
	case it.is(doubt), it.is(named):
		return true
	case it.is(soft):
		return ahead || time(before)
	case it.is(limit | every):
		return ahead || p.item(after).digits > 0
	case it.is(often):
		return ahead || time(before)
	}
	switch it.code {
	case 'E':
		for k, n := p.before(i), 0; n < 3; k, n = p.before(k), n+1 {
			if p.inside(k) != nil {
				return true
			}
		}
		return ahead
	case 'b':
		return time(p.next(i)) || p.item(p.next(i)).digits > 0
	case '<', '>', 'N', 'L', 't', 'V', 'c', '#', 'G':
		return ahead && (it.code != 'c' || alone[after] || p.lang.english && p.inside(after).kind == aClock)
	case '0', 'q', 'k':
		return ahead || time(before)
	case 'u', 'H', 'h', 's':
		return true
	case '(':
		return p.inside(p.before(i)) != nil
	case '+', '-':
		return p.inside(p.before(i)) != nil && p.item(p.next(i)).digits > 0
	case 'i', 'v', 'o':
		e := p.inside(p.next(i))
		return it.code == 'i' && e != nil && e.kind == aClock && !e.led || p.inside(p.before(i)) != nil && p.abroad(p.next(i), it.code != 'o')
	}
	return false
}

// abroad reports whether an item behind a time of day may be where it is that time: "in Boston", "de Lisboa".
func (p *parser) abroad(i int, capital bool) bool {
	it := p.item(i)
	return it.code == '_' && (capital && it.capital && p.text != strings.ToUpper(p.text) || it.is(soft|doubt))
}

// misspelt reports whether a word that nobody knows is one slip from a word of time.
func (p *parser) misspelt(it *item) bool {
	if it.classes != 0 || len(it.text) < 5 {
		return false
	}
	for right, e := range p.lang.words {
		if e.is(core) && len(right) >= 5 && right[0] == it.text[0] && strings.IndexByte(right, ' ') < 0 && near(it.text, right) {
			return true
		}
	}
	return false
}

// near reports whether a word is another one with a slip: a letter too many, too few or wrong, or two that changed places; two slips in a
// long word.
func near(a, right string) bool {
	allowed := 1
	if len(right) >= 8 {
		allowed = 2
	}
	if len(a)-len(right) > allowed || len(right)-len(a) > allowed {
		return false
	}
	var before []int
	row := make([]int, len(right)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		line := make([]int, len(right)+1)
		line[0] = i + 1
		for j := range len(right) {
			cost := 1
			if a[i] == right[j] {
				cost = 0
			}
			line[j+1] = min(line[j]+1, row[j+1]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == right[j-1] && a[i-1] == right[j] {
				line[j+1] = min(line[j+1], before[j-1]+1)
			}
		}
		before, row = row, line
	}
	return row[len(right)] <= allowed
}
