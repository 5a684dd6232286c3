package timeparse

import (
	"slices"
	"strings"
)

// parser reads one text in one language.
type parser struct {
	lang     *language
	text     string
	items    []item
	codes    string // of the items, a byte each
	elements []element
	time     []bool // items that are in an element, or may belong to a time besides
	marked   bool   // an item alone may be a time, whatever else the text has
	doubtful bool   // an item is marked, or changes a time
}

// scan finds the elements, the first form that matches at each item.
func (p *parser) scan() {
	codes := make([]byte, len(p.items))
	for i := range p.items {
		codes[i] = p.items[i].code
	}
	p.codes = string(codes)
	for i := 0; i < len(p.items); {
		e, ok := p.at(i)
		if !ok {
			i++
			continue
		}
		e.from = i
		p.elements = append(p.elements, e)
		i = e.to
	}
}

// longestForm bounds what a form may have, in items, and so what a long text costs.
const longestForm = 40

// at reads the element that begins at an item.
func (p *parser) at(i int) (element, bool) {
	if i >= len(p.items) || among(p.codes[i], " _!,.&c<>ZEVOAbe") || p.continues(i) || p.torn(i) {
		return element{}, false
	}
	codes := p.codes[i:min(len(p.codes), i+longestForm)]
	if !strings.ContainsAny(codes[:min(len(codes), 10)], "an12349DTwyMmjXPLFG#qkuH") { // "in", "of" and the like begin no form alone
		return element{}, false
	}
	for _, f := range p.lang.forms {
		found := f.pattern.FindStringSubmatchIndex(codes)
		if found == nil {
			continue
		}
		for k := range found {
			if found[k] >= 0 {
				found[k] += i
			}
		}
		e, ok := f.read(p, found)
		if e.to == 0 {
			e.to = found[1]
		}
		if ok && !(p.items[e.to-1].digits > 0 && p.continues(e.to+1)) && !p.torn(e.to) {
			return e, true
		}
	}
	return element{}, false
}

// torn reports whether a word is glued to what stands before an item: "10abc".
func (p *parser) torn(i int) bool {
	before := p.item(i - 1)
	return p.item(i).glued && p.item(i).alphanumeric() && (before.alphanumeric() || strings.ContainsRune("ºª", before.kind))
}

// continues reports whether figures at an item are glued by a mark to others before: the 30 of "9;30", "13,30", "9'30".
func (p *parser) continues(i int) bool {
	return p.item(i).digits > 0 && p.item(i).glued && p.item(i-1).kind != 'a' && p.item(i-1).glued && p.item(i-2).digits > 0
}

// next and before are the nearest items that are no space.
func (p *parser) next(i int) int {
	for i++; p.code(i) == ' '; i++ {
	}
	return i
}

func (p *parser) before(i int) int {
	for i--; p.code(i) == ' '; i-- {
	}
	return i
}

var nothing item

func (p *parser) item(i int) *item {
	if i < 0 || i >= len(p.items) {
		return &nothing
	}
	return &p.items[i]
}

func (p *parser) code(i int) byte { return p.item(i).code }

func (p *parser) has(c class) bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.is(c) })
}

// inside returns the element that an item is in.
func (p *parser) inside(i int) *element {
	for k := range p.elements {
		if e := &p.elements[k]; i >= e.from && i < e.to {
			return e
		}
	}
	return nil
}

// beforeElement returns the element that ends before an item, with nothing but a comma between them.
func (p *parser) beforeElement(i int) *element {
	k := p.before(i)
	if p.code(k) == ',' {
		k = p.before(k)
	}
	return p.inside(k)
}

// starts reports whether only times and what says nothing stand before an item: "hey, remind me".
func (p *parser) starts(i int) bool {
	for k := p.before(i); k >= 0; k = p.before(k) {
		if it := &p.items[k]; p.inside(k) == nil && (it.digits > 0 || it.kind == 'a' && !it.is(polite|remind)) {
			return false
		}
	}
	return true
}

// counts reports whether the number at an item says how many: "3 eggs", "2 large pizzas".
func (p *parser) counts(i int) bool {
	k := p.next(i)
	if among(p.code(k), "%$") || p.item(k).is(measure) {
		return true
	}
	for words := 0; words < 3 && p.code(k) == '_'; k, words = p.next(k), words+1 {
		it := &p.items[k]
		other := it.is(verb | remind | polite | clause | report | book | vague | doubt | limit | soft)
		switch {
		case it.is(measure), !other && strings.HasSuffix(it.text, "s") && !strings.HasSuffix(it.text, "ss"):
			return true
		case it.is(verb | remind | polite | clause):
			return false
		}
	}
	return false
}

// ends reports whether a bare hour may end before an item: what follows is not what it counts.
func (p *parser) ends(i int) bool {
	k := p.next(i - 1)
	it := p.item(k)
	switch {
	case among(it.code, "n123490%$uHhsF"), it.code == 'a' && p.lang.english, it.classes == 0 && it.code == '_' && len(it.text) <= 2: // "9 pn"
		return false
	case it.kind != 'a' && it.glued && p.item(k+1).glued && p.item(k+1).digits > 0:
		return false
	}
	return !p.counts(i - 1)
}

// found are the words of time as the text has them.
func (p *parser) found() string {
	var words []string
	for i := 0; i < len(p.items); i++ {
		from := i
		for p.time[i] || i > from && p.code(i) == ' ' && p.time[i+1] {
			i++
		}
		if i > from {
			words = append(words, p.text[p.items[from].start:p.items[i-1].end])
		}
	}
	return strings.Join(words, ", ")
}

// sure reports whether words of time of this language alone are in the text.
func (p *parser) sure(other *language) bool {
	for i, it := range p.items {
		if p.time[i] && (it.is(core) && other.words[it.text].code <= '_' || it.code == '@' && it.kind == 'a') {
			return true
		}
	}
	return false
}

// goal is the text without its words of time.
func (p *parser) goal() string {
	const space = " \t\r\n"
	var b strings.Builder
	at := 0
	for _, e := range p.elements {
		if e.named || e.kind == aDuration {
			continue
		}
		b.WriteString(strings.TrimRight(p.text[at:p.items[e.from].start], space+",;-–—("))
		b.WriteByte(' ')
		at = p.items[e.to-1].end
		at += len(p.text[at:]) - len(strings.TrimLeft(p.text[at:], space+",;:-–—)."))
		if strings.Trim(p.text[at:], "!?.…") == "" {
			at = len(p.text)
		}
	}
	b.WriteString(p.text[at:])
	return strings.TrimRight(strings.Join(strings.Fields(b.String()), " "), " ,;:-–—(")
}
