package timeparse

import (
	"slices"
	"strings"
	"unicode"
)

// parser reads one text in one language.
type parser struct {
	lang     *language
	text     string
	items    []item
	codes    string // of the items, a byte each
	elements []element
	left     []int // items that may belong to a time, and are in no element
	marked   bool  // an item alone may be a time, whatever else the text has
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

// at reads the element that begins at an item.
func (p *parser) at(i int) (element, bool) {
	if strings.IndexByte(" _!,", p.codes[i]) >= 0 || p.items[i].digits > 0 && p.continues(i) {
		return element{}, false
	}
	for _, f := range p.lang.forms {
		found := f.pattern.FindStringSubmatchIndex(p.codes[i:])
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
		if ok && !(p.items[e.to-1].digits > 0 && p.continues(e.to+1)) {
			return e, true
		}
	}
	return element{}, false
}

// continues reports whether figures at an item are glued by a mark to others before: the 30 of "9;30", "13,30", "9'30".
func (p *parser) continues(i int) bool {
	return p.item(i).digits > 0 && p.item(i).glued && p.item(i-1).kind != 'a' && p.item(i-1).glued && p.item(i-2).digits > 0
}

// next and before are the nearest items that are no space.
func (p *parser) next(i int) int {
	for i++; i < len(p.items) && p.items[i].code == ' '; i++ {
	}
	return i
}

func (p *parser) before(i int) int {
	for i--; i >= 0 && p.items[i].code == ' '; i-- {
	}
	return i
}

// last is the last item of an hour and its minutes.
func (p *parser) last(g groups) int { return max(g.to(2), g.to(3)) - 1 }

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

func (p *parser) unitIs(i int, name string) bool {
	it := p.item(i)
	return it.code == 'u' && it.value > 0 && unitNames[it.value-1] == name
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

// beside reports whether nothing but a comma stands between two items.
func (p *parser) beside(to, from int) bool {
	return to <= from && strings.Trim(p.codes[to:from], " ,") == ""
}

// follows reports whether an element ends before an item.
func (p *parser) follows(i int) bool {
	return len(p.elements) > 0 && p.beside(p.elements[len(p.elements)-1].to, i)
}

// starts reports whether only times and what says nothing stand before an item: "hey, remind me".
func (p *parser) starts(i int) bool {
	for k := p.before(i); k >= 0; k = p.before(k) {
		it := &p.items[k]
		if it.kind == 'a' && !it.is(polite|remind) && p.inside(k) == nil || it.digits > 0 && p.inside(k) == nil {
			return false
		}
	}
	return true
}

// plural reports whether an item may be what is counted.
func (it *item) plural() bool {
	return it.is(measure) || it.code == '_' && strings.HasSuffix(it.text, "s") && !strings.HasSuffix(it.text, "ss") &&
		!it.is(verb|remind|polite|report|clause|book|vague|doubt|limit|soft)
}

// counts reports whether the number at an item says how many: "3 eggs", "2 large pizzas".
func (p *parser) counts(i int) bool {
	for k, words := p.next(i), 0; words < 3 && p.code(k) == '_'; k, words = p.next(k), words+1 {
		it := &p.items[k]
		switch {
		case it.plural():
			return true
		case it.is(verb | remind | polite | clause):
			return false
		}
	}
	return strings.IndexByte("%$", p.code(p.next(i))) >= 0 || p.item(p.next(i)).is(measure)
}

// ends reports whether a bare hour may end before an item: what follows is not what it counts.
func (p *parser) ends(i int) bool {
	k := p.next(i - 1)
	it := p.item(k)
	switch {
	case strings.IndexByte("n123490%$uHhsF", it.code) >= 0 && it.code != 0:
		return false
	case it.classes == 0 && it.code == '_' && len(it.text) <= 2, it.code == 'a' && p.lang.english: // "9 pn"
		return false
	case it.kind != 'a' && it.glued && p.item(k+1).glued && p.item(k+1).digits > 0:
		return false
	}
	return !p.counts(i - 1)
}

// found are the words of time as the text has them.
func (p *parser) found() string {
	var spans [][2]int
	for _, e := range p.elements {
		spans = append(spans, [2]int{e.from, e.to})
	}
	for _, i := range p.left {
		spans = append(spans, [2]int{i, i + 1})
	}
	slices.SortFunc(spans, func(a, b [2]int) int { return a[0] - b[0] })
	var words []string
	for k := 0; k < len(spans); k++ {
		from, to := spans[k][0], spans[k][1]
		for k+1 < len(spans) && strings.Trim(p.codes[to:spans[k+1][0]], " ") == "" {
			k++
			to = spans[k][1]
		}
		words = append(words, p.text[p.items[from].start:p.items[to-1].end])
	}
	return strings.Join(words, ", ")
}

// sure reports whether words of time of this language alone are in the text.
func (p *parser) sure(other *language) bool {
	for i := range p.items {
		it := &p.items[i]
		if p.inside(i) == nil && !slices.Contains(p.left, i) {
			continue
		}
		if it.is(core) && other.words[it.text].code <= '_' || it.code == '@' && it.kind == 'a' {
			return true
		}
	}
	return false
}

const space = " \t\r\n"

// goal is the text without its words of time.
func (p *parser) goal() string {
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

// bare are the words of a text without the marks around them.
func bare(text string) []string {
	var words []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(",;!?()[]{}\"“”…", r)
	}) {
		if word = strings.Trim(word, ".,;:!?()[]{}<>\"'“”‘’-–—…"); word != "" {
			words = append(words, word)
		}
	}
	return words
}
