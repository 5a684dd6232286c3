package timeparse

import (
	"regexp"
	"slices"
	"strings"
)

// markNames has what the patterns of marks have in common: a time, an item of one, and small words between two items.
var markNames = strings.NewReplacer("TIME", "[Cr]", "~", `[dxaov@,(\-]{0,3}`)

// mark finds what may belong to a time and no form has used. The patterns of words/common.tsv are over letters: those of the classes, and B
// a possible time, g a number that is no hour, r an item of a day, C of another element, K a capitalised word.
func (p *parser) mark() {
	letters := make([]byte, len(p.items))
	for i := range p.items {
		p.items[i].time, letters[i] = p.items[i].in != nil, p.letter(i)
	}
	found := func(pattern *regexp.Regexp) bool {
		all := pattern.FindAllIndex(letters, -1)
		for _, span := range all {
			for i := span[0]; i < span[1]; i++ {
				if !p.items[i].time && !among(letters[i], "dxaov@,(-'K_&") {
					p.items[i].time, letters[i] = true, 'C'
				}
			}
		}
		return len(all) > 0
	}
	p.marked = found(p.lang.alone)
	p.doubtful = (p.marked || len(p.elements) > 0) && found(p.lang.beside) || p.marked
}

// letter returns the letter that stands for an item in the patterns.
func (p *parser) letter(i int) byte {
	it := &p.items[i]
	number := it.digits > 0 || it.code == 'n'
	switch {
	case it.in != nil && it.in.kind == aDay:
		return 'r'
	case it.in != nil:
		return 'C'
	case number && p.mayBeHour(i), it.unknown() && p.misspelt(it):
		return 'B'
	case p.strange(i):
		return 'Q'
	case number:
		return 'g'
	case it.sign != 0 && (it.sign != '\'' || it.code == '_'):
		return it.sign
	case it.code == '_' && it.capital && p.text != strings.ToUpper(p.text):
		return 'K'
	}
	return it.code
}

// mayBeHour reports whether a number that no form has used may be an hour.
func (p *parser) mayBeHour(i int) bool {
	it, before, next := &p.items[i], p.item(i-1), p.item(i+1)
	joined := next.glued && next.kind != 'a' && p.item(i+2).glued && p.item(i+2).digits > 0
	led := among(before.code, "@xi=fb") || before.is("limit", "soft")
	behind := before.in != nil || (before.kind != 'a' || before.code == '&') && before.digits == 0 && p.item(i-2).in != nil
	switch {
	case p.continues(i) && before.code == ':', joined && next.code == ':', written.MatchString(it.text), p.dotted(i):
		return true
	case it.digits > 4, p.phone(i), before.is("money", "numbered"), before.is("measure") && before.kind == 'a':
		return false
	case it.digits > 0 && it.glued && (before.code == '_' || before.kind == '-' && p.item(i-2).kind == 'a'): // "b12", "Catch-22"
		return false
	case p.continues(i): // "9,30", "9.30", "9/10"
		return p.pair(i - 2)
	case joined:
		return p.pair(i)
	case next.code == 'e': // "the 32nd"
		return p.item(i+2).in != nil
	case it.digits > 0 && next.glued && next.code == '_' && !next.is("measure"): // "9hras"
		return led || it.value <= 24
	case p.counts(i), it.value == 1 && next.code == '_' && !led, it.digits == 4 && next.code == '.' && next.glued: // "2026.pdf"
		return false
	case it.digits == 0:
		past := among(next.code, "pc") && p.code(i+2) == 'n' // "quinze pras seis"
		return led && (!among(before.code, "i=") || next.code != '_' || next.is("verb")) || behind || past
	case led || behind:
		return true
	case it.value > 24:
		return it.digits == 4 && it.value < 2400 && it.value%100 < 60 && next.code != '_' && !before.capital
	case among(before.code, "pc"):
		return !p.has("settable")
	}
	return !(next.code == '_' && next.capital && before.is("verb")) // "order 7 Up"
}

// pair reports whether two numbers that a mark joins may be a time or a date.
func (p *parser) pair(i int) bool {
	mark, second := p.code(i+1), p.item(i+2)
	money := p.item(i-1).is("money") || p.counts(i+2)
	first := p.item(i).value <= 31 || p.item(i).digits == 4
	return (!money || mark == '/') && first && second.value < 60 && (second.digits == 2 || among(mark, "/-"))
}

// written matches a date in figures alone, which no form reads: 20261205, 05122026.
var written = regexp.MustCompile(`^(?:20\d\d[01]\d[0-3]\d|[0-3]\d[0-3]\d20\d\d)$`)

// dotted reports whether a number is in a date with dots that no form has read: "5.12 at 9am", "5.12.2026".
func (p *parser) dotted(i int) bool {
	for from := i; from >= max(0, i-4); from -= 2 {
		day, month, before := p.item(from), p.item(from+2), p.item(from-1)
		dots := p.code(from+1) == '.' && month.glued && p.item(from+1).glued
		if !dots || day.digits > 2 || month.digits > 2 || day.value < 1 || month.value < 1 || before.is("money", "numbered") || p.counts(from+2) {
			continue
		}
		year := p.code(from+3) == '.' && p.item(from+4).glued && (p.item(from+4).digits == 2 || p.item(from+4).value/100 == 20)
		alone := i <= from+2 && (before.code == 'o' || p.item(from+3).in != nil || p.code(from+3) == '.' && p.item(from+4).in != nil)
		if min(day.value, month.value) <= 12 && max(day.value, month.value) <= 31 && (year || alone) {
			return true
		}
	}
	return false
}

// zoned matches how the names of zones end.
var zoned = regexp.MustCompile(`^[A-Z]{2,3}T$`)

// strange reports whether a word that we do not know may change the time next to it: between a time or the beginning and the word that
// joins what is to be done ("evryday to call"), a zone behind a time of day, or a day cut short.
func (p *parser) strange(i int) bool {
	it, before, next := &p.items[i], p.item(i-1), p.item(i+1)
	switch {
	case it.is("cut short"):
		name := it.capital && i > 0 || before.is("verb", "report", "with") && !before.is("remind") || among(before.code, "cpv&")
		return !name && (before.in != nil || next.in != nil)
	case !it.unknown():
		return false
	case before.in != nil && before.in.kind == aClock && zoned.MatchString(p.text[it.start:it.end]):
		return p.text != strings.ToUpper(p.text)
	}
	return p.starts(i) && among(next.code, "cvp") && p.item(i+2).is("verb")
}

// phone reports whether a number is a part of a long one: "555-1234", "+1 415 555 0100".
func (p *parser) phone(i int) bool {
	for _, step := range []int{1, -1} {
		for k := i + step; among(p.code(k), "-.()+12349"); k += step {
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
	return len(it.text) >= 4 && slices.ContainsFunc(p.lang.core[it.text[0]], func(right string) bool {
		if len(it.text) == 4 || strings.HasPrefix(right, it.text) { // "frid"
			return strings.HasPrefix(right, it.text) && p.lang.words[right].code != '_' && !it.capital
		}
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

// names reports whether an element only names something: "the 9am meeting", "show de sexta", "prepare for 3pm review".
func (p *parser) names(e *element) bool {
	first, before, next := p.code(e.from), p.item(e.from-1), p.item(e.to)
	switch {
	case e.kind != aDay && e.kind != aClock:
		return false
	case first == 'v' && e.kind == aDay:
		return e.from > 0 && p.beforeElement(e.from) == nil
	case before.code == 'v' && before.in == nil:
		return p.code(e.from-2) == '_'
	case (before.code == 'd' || first == 'd') && before.in == nil:
		return true
	}
	return !e.led && !p.starts(e.from) && next.code == '_' && !next.is("word")
}

// content reports whether an element may belong to what the goal is about and not say when it is meant: "tell Ana that I arrive at 9".
func (p *parser) content(e *element) bool {
	before, text := p.item(e.from-1), p.text[:p.items[e.from].start]
	switch {
	case p.starts(e.from):
		return p.code(e.from) == 'p' && p.item(e.to).is("meeting") // "wake me up for 6am flight"
	case e.kind == aPart && p.items[e.from].capital && p.item(e.to).capital && p.code(e.to) == '_', // "watch Friday Night Lights"
		e.kind == aClock && e.clock.half && p.items[e.to-1].digits > 0 && p.item(e.to).capital && p.item(e.to).unknown(): // "at 9 Elm"
		return true
	case before.is("meeting", "soft", "limit"), e.kind == aDay && before.is("numbered"), among(before.code, "cvpflb<"),
		e.kind == aClock && !e.led && among(before.code, "i="), e != p.elements[0] && before.code == '&',
		strings.Count(text, `"`)%2 == 1, strings.Count(text, "“") > strings.Count(text, "”"), strings.Count(text, "«") > strings.Count(text, "»"):
		return true
	}
	told := false
	for i := range e.from {
		it := &p.items[i]
		switch {
		case it.in != nil:
		case it.is("clause"), it.is("verse") && !e.led, it.code == ':' && !p.starts(i), it.is("meeting") && p.governed(i),
			it.is("book") && (!p.has("remind") || p.code(e.from) == 'p'), told && among(it.code, "cp") && p.asked(i):
			return true
		}
		told = told || it.is("report") && !it.is("remind")
	}
	return false
}

// governed reports whether the goal is about the thing that happens at a time: "lembra da aula de inglês às 9h".
func (p *parser) governed(i int) bool {
	if among(p.code(i-1), "dx") {
		i--
	}
	return among(p.code(i-1), "bvp")
}

// asked reports whether another person does the deed behind "to" or "para": "ask Ana to come", "pede pra Ana vir".
func (p *parser) asked(i int) bool {
	if p.code(i) == 'c' {
		return p.code(i+1) == '_' && !p.items[i+1].capital
	}
	return p.item(i+1).is("verb") || p.item(i+2).is("verb") || p.item(i+3).is("verb")
}

// past reports whether the only thing that the text says of a time is that it has passed.
func (p *parser) past() bool {
	passed := false
	for _, e := range p.elements {
		if e.kind != aPassed && e.kind != aClock && e.kind != aPart || e.named {
			return false
		}
		passed = passed || e.kind == aPassed && p.code(e.from-1) != 'v'
	}
	return passed && !p.doubtful
}
