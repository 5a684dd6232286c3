package timeparse

import (
	"regexp"
	"slices"
	"strings"
)

// The first pattern finds what may be a time, whatever else the text has; the other what changes a time next to it. B is a possible time, g
// a number that is no hour, r an item of a day, C of another element, K a capitalised word.
var (
	alone = regexp.MustCompile(strings.Join([]string{
		`[RB]?W[dxa#g_K]{0,2}[uHDTwyYMXFBzr]`, `[gBaqkNtLbW][uHh]`, `gs(?:[^v]|$)`, `[uHhs][VL]`, `[fi@otNxLRB][d_]?[uHhs]`, // every day
		`[fi@otNxLRBU]d?[MJz]`, `^'*z`, `(?:^|[^v])z$`, `(?:^|[^da])I(?:[^_K]|$)`, // on Christmas, at lunch, daily
		`[yY][gB@MXV]`, `o[yY]$`, `oy`, `^'*y`, `(?:^|[^d])y(?:[^_K]|$)`, `[gBiN]j`, `j[gB]`, // Sun 9, na segunda
		`#v?[dxa#g_K]{0,2}[uHwyYM]`, `[gB]A`, `@[qk]`, `[gB]&q`, `rM`, `M(?:[^_K]|$)`, `[BDTwmXPZF]`, `f.`, // first of the month
	}, "|"))
	beside = regexp.MustCompile(strings.NewReplacer("~", `[dxaov@,(\-]{0,3}`, "T", "[Cr]").Replace(strings.Join([]string{
		`[Qz]`, `[SI0qk]~T`, `T~[SI0qk]`, `[RW]~(?:T|g)`, `b(?:T|g)`, `[<>NLtV#Gc]~T`, `[uHhs]`,
		`T\(`, `T[+\-]g`, `T[iv][KS]`, `ToS`, `T.{0,2}E`, `E~T`, // at 9am in Boston, 9am her time
	}, "|")))
)

// mark finds what may belong to a time and no form has used.
func (p *parser) mark() {
	p.time = make([]bool, len(p.items)+1)
	var letters []byte
	var at []int // the item of each letter
	for i := range p.items {
		p.time[i] = p.inside(i) != nil
		if p.codes[i] != ' ' {
			letters, at = append(letters, p.letter(i)), append(at, i)
		}
	}
	found := func(pattern *regexp.Regexp) bool {
		all := pattern.FindAllIndex(letters, -1)
		for _, span := range all {
			for k := span[0]; k < span[1]; k++ {
				if !p.time[at[k]] && !among(letters[k], "dxaov@,(-'K_&") {
					p.time[at[k]], letters[k] = true, 'C'
				}
			}
		}
		return len(all) > 0
	}
	p.marked = found(alone)
	p.doubtful = (p.marked || len(p.elements) > 0) && found(beside) || p.marked
}

// letter returns the letter that stands for an item in the patterns.
func (p *parser) letter(i int) byte {
	it, e := &p.items[i], p.inside(i)
	number := it.digits > 0 || it.code == 'n'
	switch {
	case e != nil && e.kind == aDay:
		return 'r'
	case e != nil:
		return 'C'
	case number && p.mayBeHour(i), it.classes == 0 && it.code == '_' && p.misspelt(it), it.code == 'M' && !p.lang.english:
		return 'B'
	case it.code == 'y' && !p.lang.english && len(it.text) <= 3:
		return 'Y'
	case it.is(often) && !p.lang.english:
		return 'S'
	case number:
		return 'g'
	}
	for n := 2; n < len(letters); n++ {
		if it.is(1 << n) {
			return letters[n]
		}
	}
	switch {
	case it.code == '_' && it.is(polite|remind):
		return '\''
	case it.code == '_' && it.capital && p.text != strings.ToUpper(p.text):
		return 'K'
	}
	return it.code
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
	mark, second := p.code(i+1), p.item(i+2)
	money := p.item(p.before(i)).is(money) || p.counts(i+2)
	first := p.item(i).value <= 31 || p.item(i).digits == 4
	return (!money || mark == '/') && first && second.value < 60 && (second.digits == 2 || among(mark, "/-"))
}

// phone reports whether a number is a part of a long one: "555-1234", "+1 415 555 0100".
func (p *parser) phone(i int) bool {
	for _, step := range []int{1, -1} {
		for k := i + step; among(p.code(k), " -.()+12349"); k += step {
			if p.item(k).digits >= 3 && p.items[i].digits > 0 {
				return true
			}
		}
	}
	return false
}

// misspelt reports whether a word is one slip from a word of time: one letter is another one, or two changed places. In a long word the
// vowels do not count: "wendsday".
func (p *parser) misspelt(it *item) bool {
	return len(it.text) >= 5 && slices.ContainsFunc(p.lang.core[it.text[0]], func(right string) bool {
		a, b := vowels.Replace(it.text), vowels.Replace(right)
		return near(it.text, right) || len(it.text) >= 7 && len(right) >= 7 && near(a, b) && (max(len(a), len(b)) >= 6 || a == b)
	})
}

var vowels = strings.NewReplacer("a", "", "e", "", "i", "", "o", "", "u", "")

func near(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}
