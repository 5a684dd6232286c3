package timeparse

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// form is one way to say a time: a pattern over the codes of a text's items, a byte each, and what makes a part of a time of the items that
// the groups of the pattern found.
type form struct {
	pattern *regexp.Regexp
	read    func(p *parser, g groups) (element, bool)
}

// groups has the items that each named group of a pattern found, and all of them without a name. A group that found nothing is not there.
type groups map[string]span

// span has the first item and the one behind the last.
type span struct{ from, to int }

func (g groups) has(name string) bool { return g[name] != span{} }
func (g groups) from() int            { return g[""].from }
func (g groups) to() int              { return g[""].to }

// shared has what patterns have in common.
var shared = strings.NewReplacer(
	"AMOUNT", `(?:SINGLE(?:,?(?: &)? SINGLE)*(?: & a? [qk]|(?: &)? [n2])?)`, "SINGLE", `(?:[an1239](?:[.,][123])?(?: & a? q)? -? [uHhs]|F)`,
	"MONTH", `[mj]`, "DATE", `(?:[ivop] )*`, "AT", `(?:[@xp] )?`,
)

// readers make elements, by the names that forms give them.
var readers = map[string]func(p *parser, g groups) (element, bool){
	"amount": readAmount, "from": readFrom, "clock": readClock, "past": readPast, "day": readDay, "weekday": readWeekday, "date": readDate,
	"the day": readTheDay, "day of month": readDayOfMonth, "part": readPart,
	"duration": readDuration,
	"passed":   func(*parser, groups) (element, bool) { return element{kind: aPassed, led: true}, true },
}

func newForm(reader, pattern string) form {
	pattern = shared.Replace(shared.Replace(pattern))
	return form{pattern: regexp.MustCompile("^(?:" + strings.ReplaceAll(pattern, " ", " ?") + ")"), read: readers[reader]}
}

type elementKind int

const (
	aDay elementKind = iota + 1
	aClock
	aPart
	aRelative
	aDuration
	aPassed
)

// element is a part of a time that a form found.
type element struct {
	kind     elementKind
	from, to int // items
	// on finds the dates that a day can be, each midnight in UTC: the first is meant if its time is still to come. There is none where two
	// ways to count give two days.
	on      func(today time.Time) []time.Time
	today   bool
	weekday int  // of a weekday, from 1 for Sunday
	next    bool // "next Friday", "Friday of next week"
	clock   clock
	part    int // of parts
	amount  Amount
	led     bool // by a word that no name has: "at", "in"
	about   bool // "about"
	named   bool // names something, and says nothing of when: "the 9am meeting"
}

// parser reads one text in one language.
type parser struct {
	lang     *language
	text     string
	items    []item
	codes    string // of the items, a byte each
	spaced   string // the codes, with the spaces between them
	offsets  []int  // of the items in spaced
	indexes  []int  // of the items at or behind the bytes of spaced
	elements []*element
	marked   bool // an item alone may be a time, whatever else the text has
	doubtful bool // an item is marked, or changes a time
}

// parse finds the elements, the first form that matches at each item, and marks what may be of a time besides.
func (l *language) parse(text string, words []word) *parser {
	p := &parser{lang: l, text: text, items: l.items(words)}
	for i := range p.items {
		it := &p.items[i]
		if i > 0 && !it.glued {
			p.spaced, p.indexes = p.spaced+" ", append(p.indexes, i)
		}
		p.offsets, p.indexes = append(p.offsets, len(p.spaced)), append(p.indexes, i)
		p.spaced, p.codes = p.spaced+string(rune(it.code)), p.codes+string(rune(it.code))
	}
	p.indexes = append(p.indexes, len(p.items))
	for i := 0; i < len(p.items); i++ {
		if e, ok := p.at(i); ok {
			e.from = i
			p.elements = append(p.elements, &e)
			for ; i < e.to; i++ {
				p.items[i].in = &e
			}
			i--
		}
	}
	p.mark()
	return p
}

// at reads the element that begins at an item.
func (p *parser) at(i int) (element, bool) {
	if p.code(i) == '_' || p.continues(i) || p.torn(i) {
		return element{}, false
	}
	for k := range p.lang.forms {
		f := &p.lang.forms[k]
		g := p.match(f, i)
		if g == nil {
			continue
		}
		e, ok := f.read(p, g)
		switch {
		case g.has("then"): // it follows, and is another element
			e.to = g["then"].from
		case e.to == 0:
			e.to = g.to()
		}
		if ok && !(p.items[e.to-1].digits > 0 && p.continues(e.to+1)) && !p.torn(e.to) {
			return e, true
		}
	}
	return element{}, false
}

// longestForm bounds what a form may have, in items and spaces, and so what a long text costs.
const longestForm = 40

// match returns the groups of a form that begins at an item.
func (p *parser) match(f *form, i int) groups {
	if i >= len(p.items) {
		return nil
	}
	from := p.offsets[i]
	found := f.pattern.FindStringSubmatchIndex(p.spaced[from:min(len(p.spaced), from+longestForm)])
	if found == nil {
		return nil
	}
	g := groups{}
	for n, name := range f.pattern.SubexpNames() {
		if n == 0 || name != "" && found[2*n] < found[2*n+1] {
			g[name] = span{p.indexes[from+found[2*n]], p.indexes[from+found[2*n+1]]}
		}
	}
	return g
}

// torn reports whether a word is glued to what stands before an item: "10abc".
func (p *parser) torn(i int) bool {
	it, before := p.item(i), p.item(i-1)
	return it.glued && it.alphanumeric() && (before.alphanumeric() || strings.ContainsRune("ºª", before.kind))
}

// continues reports whether figures at an item are glued by a mark to others before: the 30 of "9;30", "13,30", "9'30".
func (p *parser) continues(i int) bool {
	mark := p.item(i - 1)
	return p.item(i).digits > 0 && p.item(i).glued && mark.kind != 'a' && mark.glued && p.item(i-2).digits > 0
}

var nothing item

func (p *parser) item(i int) *item {
	if i < 0 || i >= len(p.items) {
		return &nothing
	}
	return &p.items[i]
}

func (p *parser) code(i int) byte { return p.item(i).code }

// lead is the code of the first item, and first the first item of a group.
func (p *parser) lead(g groups) byte                { return p.code(g.from()) }
func (p *parser) first(g groups, name string) *item { return &p.items[g[name].from] }

func (p *parser) has(class string) bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.is(class) })
}

// beforeElement returns the element that ends before an item, with nothing but a comma between them.
func (p *parser) beforeElement(i int) *element {
	if p.code(i-1) == ',' {
		i--
	}
	return p.item(i - 1).in
}

// starts reports whether only times and what says nothing stand before an item: "hey, remind me".
func (p *parser) starts(i int) bool {
	return !slices.ContainsFunc(p.items[:max(i, 0)], func(it item) bool {
		return it.in == nil && (it.digits > 0 || it.kind == 'a' && !it.is("word", "remind"))
	})
}

// counts reports whether the number at an item says how many: "3 eggs", "2 large pizzas".
func (p *parser) counts(i int) bool {
	if among(p.code(i+1), "%$") || p.item(i+1).is("measure") {
		return true
	}
	for k := i + 1; k <= i+3 && p.code(k) == '_'; k++ {
		it := &p.items[k]
		other := it.is("verb", "remind", "word", "clause", "report", "book", "vague", "doubt", "limit", "soft")
		switch {
		case it.is("measure"), !other && strings.HasSuffix(it.text, "s") && !strings.HasSuffix(it.text, "ss"):
			return true
		case it.is("verb", "remind", "word", "clause"):
			return false
		}
	}
	return false
}

// ends reports whether a bare hour may end before an item: what follows is not what it counts.
func (p *parser) ends(i int) bool {
	it := p.item(i)
	joins := it.kind != 'a' && it.glued && p.item(i+1).glued && p.item(i+1).digits > 0
	return !among(it.code, "n123490%$uHhsFa") && !joins && !(it.unknown() && len(it.text) <= 2) && !p.counts(i-1) // "9 pn"
}

// found returns the words of time as the text has them.
func (p *parser) found() string {
	var words []string
	for from := 0; from < len(p.items); from++ {
		to := from
		for p.item(to).time {
			to++
		}
		if to > from {
			words = append(words, p.text[p.items[from].start:p.items[to-1].end])
			from = to
		}
	}
	return strings.Join(words, ", ")
}

// gap has what goes with a time where it is cut out of a text.
var gap = regexp.MustCompile(`[\s,;–—(-]*\x00(?:[\s,;:–—).!?…-]*\x00)*(?:[\s,;:–—).-]*[!?.…]*$|[\s,;:–—).-]*)`)

// goal returns the text without its words of time, and without the courtesies at its end.
func (p *parser) goal() string {
	var b strings.Builder
	at := 0
	leave := func(from, to int) {
		b.WriteString(p.text[at:p.items[from].start] + "\x00")
		at = p.items[to-1].end
	}
	last := p.lastWord()
	for i := 0; i < len(p.items); i++ {
		switch e := p.items[i].in; {
		case e != nil && !e.named && e.kind != aDuration:
			leave(e.from, e.to)
			i = e.to - 1
		case i > last && p.courteous(i):
			leave(i, i+1)
		}
	}
	goal := gap.ReplaceAllString(b.String()+p.text[at:], " ")
	return strings.TrimRight(strings.Join(strings.Fields(goal), " "), " ,;:-–—(")
}

// lastWord returns the last item that is no time, sign or courtesy, -1 where there is none.
func (p *parser) lastWord() int {
	for i := len(p.items) - 1; i >= 0; i-- {
		it := &p.items[i]
		timed := it.in != nil && !it.in.named && it.in.kind != aDuration
		if sign := it.kind != 'a' && it.digits == 0; !timed && !sign && !p.courteous(i) {
			return i
		}
	}
	return -1
}

// courteous reports whether an item is a courtesy, and not what somebody is to be told: "tell Ana thanks", "say please".
func (p *parser) courteous(i int) bool {
	before := p.item(i - 1)
	switch it := &p.items[i]; {
	case it.is("please"):
		return !before.is("report") || before.is("remind")
	case it.is("thanks"):
		told := slices.ContainsFunc(p.items[:i], func(it item) bool { return it.is("report") && !it.is("remind") })
		return !told || i == 0 || before.in != nil || before.kind != 'a' || before.is("please")
	}
	return false
}
