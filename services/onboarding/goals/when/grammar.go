package when

import (
	"strings"
	"unicode/utf8"
)

type elementKind int

const (
	aDay      elementKind = iota // a date, a weekday, tomorrow
	aClock                       // a time of day
	aPart                        // a part of the day
	aRelative                    // an amount from now
	aDuration                    // how long something takes
	aPassed                      // something past
	aWrong                       // temporal, and not understood
)

// element is something temporal in the text.
type element struct {
	kind     elementKind
	from, to int  // items
	named    bool // it is the name of something: "the 9am meeting"
	day      day
	clock    clock
	part     partKind
	amount   Amount
}

// parser finds the elements of a text.
type parser struct {
	lang     *language
	text     string
	items    []item
	elements []element
}

var end = item{token: token{kind: mark}, from: -1}

// item is the one at i, or the end.
func (p *parser) item(i int) *item {
	if i < 0 || i >= len(p.items) {
		return &end
	}
	return &p.items[i]
}

func (p *parser) is(i int, c class) bool     { return p.item(i).is(c) }
func (p *parser) reads(i int, t string) bool { return p.item(i).text == t && p.item(i).from >= 0 }

// scan finds the elements: at each item the longest one of those that begin there.
func (p *parser) scan() {
	if p.converted() {
		return
	}
	if p.conditional() {
		p.elements = append(p.elements, element{kind: aWrong, to: 1})
	}
	for i := len(p.elements); i < len(p.items); {
		if to := p.property(i); to > i {
			i = to
			continue
		}
		var best element
		for _, rule := range []func(int) element{p.relative, p.ago, p.dayElement, p.clockElement, p.partElement, p.duration, p.wrong} {
			if found := rule(i); found.to > i && found.to > best.to {
				best = found
			}
		}
		if best.to == 0 {
			i = max(i+1, p.neutral(i))
			continue
		}
		best.from = i
		p.elements = append(p.elements, best)
		i = best.to
	}
	for i := range p.elements {
		p.joined(&p.elements[i])
	}
	p.ranges()
}

// neutral skips words that look temporal together and are not: "segunda via", "second floor".
func (p *parser) neutral(i int) int {
	if p.street(i) {
		if d, to := p.dateBody(i + 1); to > i+1 && d.kind == date && !p.is(to, at) {
			return to
		}
	}
	if p.is(i, weekday|ordinal) && p.is(i+1, counted) {
		return i + 2
	}
	return i
}

// joined makes an element unclear that is part of a longer word, such as 9am of 9am/10am.
func (p *parser) joined(e *element) {
	before, after := e.from, e.to // the marks beside it may be glued to it, and to no other word
	for before > 0 && p.item(before).glued && loose(p.item(before-1)) {
		before--
	}
	for after < len(p.items) && p.item(after).glued && loose(p.item(after)) {
		after++
	}
	if p.item(before).glued && before > 0 && !parts(p.item(before-1)) && !parts(p.item(before)) && p.item(e.from).text != "@" ||
		after < len(p.items) && p.item(after).glued && !parts(p.item(after)) && !(after > e.to && parts(p.item(after-1))) {
		e.kind, e.named = aWrong, false
	}
}

// loose reports whether an item is a mark that does not belong to the word beside it.
func loose(it *item) bool {
	r, _ := utf8.DecodeRuneInString(it.text)
	return it.kind == mark && around(r)
}

// parts reports whether an item is a mark that parts words without a space.
func parts(it *item) bool {
	r, _ := utf8.DecodeRuneInString(it.text)
	return it.kind == mark && parting(r)
}

// ranges makes unclear what has another time beside it that is not the same: "9 to 10", "an hour or two".
func (p *parser) ranges() {
	for i := range p.elements {
		e := &p.elements[i]
		next := p.item(e.to)
		if e.kind == aWrong || e.kind == aPassed {
			continue
		}
		between := next.is(or) && !next.is(at|on) || next.text == "-" || next.text == "/" || e.kind == aClock && next.text == "a" &&
			!next.accent && p.is(e.to+1, number)
		if next.is(ish) || e.kind == aClock && p.place(e.to) || between && p.is(e.to+1, number|half|once|noon|dayWord|weekday) ||
			next.is(and) && e.kind == aClock && p.is(e.to+1, number) ||
			e.kind == aRelative && (next.is(vague|after|ago) || p.is(e.from, after) && (p.reads(e.to, "of") || p.reads(e.to, "de")) ||
				p.is(e.from-1, number) && !p.setting(e.from-1) || next.is(number) && next.kind == digits &&
				!p.is(e.to+1, meridiem|hourMark) && p.item(e.to+1).text != ":") {
			e.kind = aWrong
		}
		if next.text == "-" && p.reads(e.to+1, "ish") {
			e.kind = aWrong
		}
		if i > 0 && e.kind == aClock && p.elements[i-1].kind == aClock && p.beside(p.elements[i-1].to, e.from) {
			e.kind = aWrong
		}
	}
}

// setting reports whether the number at i is what the goal sets or chooses: "to 68", "page 3", "para 22".
func (p *parser) setting(i int) bool {
	n := p.item(i)
	if n.kind != digits || p.is(i+1, in) && p.reads(i+2, n.text) || p.inside(i) { // "de 5 em 5 minutos"
		return false
	}
	switch p.item(i - 1).text {
	case "to", "up", "para", "pra", "pro":
		return !p.is(i-2, number|quarter|half) && !p.is(i-2, unit)
	}
	return p.lang == english && p.is(i-1, counted) && !p.is(i-1, number)
}

// place reports whether what follows a time of day is where it is that time: "9am London time", "9h UTC".
func (p *parser) place(i int) bool {
	if p.lang != english && p.reads(i, "de") && p.item(i+1).plain() && p.item(i+1).capital { // "às 10h de Lisboa"
		return true
	}
	return p.is(i, place) || p.item(i).plain() && p.item(i+1).text == "time" || p.item(i).plain() && p.item(i+1).plain() &&
		p.item(i+2).text == "time"
}

// beside reports whether nothing but a comma stands between two items.
func (p *parser) beside(to, from int) bool {
	for i := to; i < from; i++ {
		if it := p.item(i); it.text != "," && it.text != "-" && !it.is(on) {
			return false
		}
	}
	return to <= from
}

// ends reports whether a bare hour may end before item i: what follows is no name of what is counted, such as eggs.
func (p *parser) ends(i int) bool {
	it := p.item(i)
	if it.from < 0 {
		return true
	}
	if it.text == "dia" {
		return true
	}
	if it.is(measure) || it.is(unit) && !it.is(foreign) {
		return false
	}
	if it.kind == mark && it.class == 0 {
		return !it.glued || loose(it)
	}
	return it.plain() && p.infinitiveAt(i) ||
		it.is(function|verb|dayWord|weekday|part|tonight|on|purpose|at|coming|this|remind|sharp|ish|or|and|bound|nothing|in|place)
}

// start reports whether only a greeting or the like stands before item i.
func (p *parser) start(i int) bool {
	for k := range i {
		if it := p.item(k); it.kind != mark && !it.is(heading|nothing) && it.text != "please" && it.text != "ok" && it.text != "hey" {
			return false
		}
	}
	return true
}

// wrong finds what is temporal and no rule has understood.
func (p *parser) wrong(i int) element {
	it := p.item(i)
	to := 0
	switch amount, next := p.loose(i); {
	case amount:
		to = next
	case it.is(nothing):
	case it.is(after) && p.lang == english && p.is(i, after):
		to = i + 1
	case it.is(after):
		to = i + 1
	case it.is(vague):
		if it.is(determiner) && p.is(i-1, determiner) {
			break // "the daily report"
		}
		to = i + 1
	case it.is(in) && it.text != "em" && it.text != "in" && p.item(i).to-p.item(i).from > 1:
		to = i + 1 // "daqui a"
	case it.is(in|after) && p.is(i+1, number) && !it.is(at) && p.bareEnd(i+2):
		to = i + 2 // "in 5"
	case it.is(in) && p.item(i+1).kind == digits && p.item(i+1).num >= 1900 && p.item(i+1).num < 2200:
		to = i + 2 // "in 2027"
	case it.is(coming) && it.is(unit):
		to = i + 1
	case it.is(possessive):
		return element{kind: aWrong, to: i + 1, named: true}
	case it.is(bound | every | coming | this | last):
		to = max(p.qualified(i), p.recurrent(i))
	case it.is(dayWord | tonight | nowClock | passed | ago&^after):
		to = i + 1
	case it.is(weekday) && !it.is(weak), it.is(weekday) && len(it.text) > 3 && !p.is(i+1, counted):
		to = i + 1
	case it.is(month):
		to = p.monthAlone(i)
		if to > i && p.lang == english && p.is(i-1, determiner) && p.item(to).plain() { // "my april fools joke"
			return element{kind: aWrong, to: to, named: true}
		}
	case it.is(part):
		to = p.partAlone(i)
	case it.is(noon), it.is(meridiem) && p.is(i-1, number) && p.item(i).text != "am":
		to = i + 1
	case it.is(event) && p.is(i-1, on|at|in|bound|coming|this|purpose) && !p.is(i-1, determiner&^this) && p.item(i-1).text != "do" &&
		p.item(i-1).text != "de":
		to = i + 1
	case it.kind == word:
		to = p.misspelt(i)
	}
	if to == 0 {
		to = p.figures(i)
	}
	return element{kind: aWrong, to: max(to, p.unread(i))}
}

// loose finds an amount of time wherever it stands.
func (p *parser) loose(i int) (bool, int) {
	if p.is(i, fixed) {
		return true, i + 1
	}
	if _, next, ok := p.quantity(i); ok && p.reads(next, "-") && p.item(next).glued && p.is(next+1, unit) { // "a 2-week pass"
		return true, next + 2
	}
	if n, next, ok := p.quantity(i); ok && p.is(next, unit) && (!p.is(next, short) || p.item(next).glued) {
		u := p.item(next)
		if u.is(ordinal|weekday|weak) && n == 1 || u.text == "m" || u.text == "s" && n > 90 || u.text == "d" && p.item(next).glued &&
			!p.bareEnd(next+1) {
			return false, 0 // "a second coffee", "30m of cable"
		}
		return true, next + 1
	}
	if p.is(i, half) && p.is(i+1, number) && !p.is(i+2, measure) && p.lang == english {
		return true, i + 2
	}
	return false, 0
}

// bareEnd reports whether a number that stands without a unit ends there.
func (p *parser) bareEnd(i int) bool {
	it := p.item(i)
	return it.from < 0 || it.kind == mark && it.class == 0 && it.text != "%" || it.is(infinitive|and|or|verb) && !it.is(measure)
}

// qualified finds what a word such as "until", "every", "next" makes of what follows.
func (p *parser) qualified(i int) int {
	next := i + 1
	for p.is(next, determiner|and|on|coming|this) && !p.is(next, number) || p.is(next, nothing) && p.reads(next, "the") {
		next++
	}
	if (p.reads(i, "about") || p.reads(i, "from")) && next > i+1 { // "about the 9am meeting"
		return 0
	}
	it := p.item(next)
	if it.is(dayWord | tonight | weekday&^weak | part | noon | event | nowClock | unit) {
		if it.is(weak) && len(it.text) <= 3 && !p.is(i, every|coming|this) || it.is(nothing) {
			return 0
		}
		if p.is(i, last|every) && it.is(event) || p.is(i, every) && p.vagueNumber(i) && !it.is(unit) {
			return 0
		}
		if it.is(unit) && p.is(i, bound) || it.is(unit) && p.is(i, this) && !p.is(i, coming) && it.is(foreign) {
			return 0
		}
		return next + 1
	}
	if it.is(month) && !it.is(foreign) {
		return next + 1
	}
	if p.is(i, bound) {
		if c, to := p.clockBody(next, true); to > next && !c.dotted && (c.plainNumber == 0 || p.ends(to) && p.hours(i)) {
			return to
		}
		if p.is(next, at) {
			if _, to := p.clockBody(next+1, true); to > next+1 {
				return to
			}
		}
		if d, to := p.dayBody(next); to > next && d.kind != 0 {
			return to
		}
		if ok, to := p.loose(next); ok {
			return to
		}
	}
	if p.is(i, every) {
		if p.is(next, number|ordinal|half) && p.is(next+1, unit) {
			return next + 2
		}
		if c, to := p.clockBody(next, true); to > next && c.plainNumber == 0 {
			return to
		}
	}
	if p.is(i, coming|this|last) && p.is(next, number|every) && p.is(next+1, unit) {
		return next + 2
	}
	return 0
}

// hours reports whether a bare number after a word such as "until" is an hour.
func (p *parser) hours(i int) bool {
	switch p.item(i).text {
	case "until", "til", "till", "by", "since", "around", "between", "from", "starting", "entre", "pelas", "la", "desde", "umas":
		return true
	}
	return p.lang != english && strings.HasSuffix(p.text[:p.item(i).end], "s") && p.item(i).to-p.item(i).from > 1 // "até as", "a partir das"
}

// monthAlone finds a month that is no part of a date.
func (p *parser) monthAlone(i int) int {
	it := p.item(i)
	led := p.is(i-1, in|on|bound|coming|this|last|every)
	switch {
	case p.lang == english && p.is(i-1, report) && !p.is(i-1, remind) && p.start(i-1) && (p.item(i+1).is(that) || p.reads(i+1, "about")):
		return 0 // "email April about the invoice"
	case it.text == "may" || it.text == "march" || it.text == "marco" && !it.accent && it.capital:
		if led && p.bareEnd(i+1) && !p.is(i-1, foreign&^on) || p.is(i-1, in) && it.text != "marco" {
			return i + 1
		}
		return 0
	case it.is(weak) && len(it.text) <= 4 && it.text != "june" && it.text != "july":
		if led && p.is(i-1, in) && p.bareEnd(i+1) && !it.is(foreign) {
			return i + 1
		}
		return 0
	}
	return i + 1
}

// partAlone finds a part of the day that no rule has understood.
func (p *parser) partAlone(i int) int {
	if p.lang != english {
		return i + 1
	}
	led := p.is(i-1, determiner|at|on|in|bound|coming|this|last|every|dayWord|weekday|vague|passed) || p.item(i-1).text == "early" ||
		p.item(i-1).text == "late" || p.item(i-1).text == "mid" || p.item(i-1).text == "by"
	if led && p.is(i-1, determiner|on|in) && p.item(i+1).plain() { // "the night light"
		return 0
	}
	if led || p.item(i+1).from < 0 || p.item(i+1).kind == mark {
		return i + 1
	}
	return 0
}

// figures finds figures that look like a time or a date and were not read as one.
func (p *parser) figures(i int) int {
	if p.is(i, at) && !(p.item(i).text == "a" && !p.item(i).accent) && (!p.is(i, purpose) || p.firm(i)) {
		if c, to := p.clockBody(i+1, true); to > i+1 {
			switch {
			case c.plainNumber == 0:
				return to
			case p.is(to, measure|counted), p.item(to).kind == mark && p.item(to).glued && !loose(p.item(to)) && p.item(to).text != "/",
				c.plainNumber > 24, p.lang != english && !p.item(i).accent && p.plural(to):
				return 0
			}
			return to
		}
		if p.item(i+1).kind == digits && p.reads(i+2, ":") && p.item(i+3).kind == digits { // "at 25:00"
			return i + 4
		}
		if n := p.item(i + 1); n.kind == digits && len(n.text) == 4 && n.num%100 < 60 && n.num < 2400 && p.ends(i+2) { // "at 1530"
			return i + 2
		}
		if p.lang == english && p.is(i+1, half|quarter) && p.is(i+2, number|pastHour|toHour) {
			return i + 3
		}
		return 0
	}
	if p.item(i).kind != digits && !p.is(i, number|half|quarter) || p.money(i) {
		return 0
	}
	// "20 past 3"
	if p.is(i+1, pastHour|toHour) && p.is(i+2, number) && p.ends(i+3) && (p.is(i+1, pastHour) || p.item(i).num%5 == 0 && p.lang == english) {
		return i + 3
	}
	if p.reads(i+1, "ish") || p.reads(i+1, "-") && p.reads(i+2, "ish") { // "5ish"
		return i + 2
	}
	if n := p.item(i).num; n >= 1 && n < 24 && p.item(i+1).from < 0 && p.frame() && !p.is(i-1, function|counted) || p.start(i) &&
		p.is(i+1, verb) && n <= 24 {
		return i + 1 // "remind me gym 6", "9 call John"
	}
	if c, to := p.clockBody(i, false); to > i && c.plainNumber == 0 && !c.words {
		if c.dotted {
			return 0
		}
		return to
	} else if to > i && c.words && p.item(i).kind == word && (p.item(to).from < 0 || p.item(to).kind == mark) {
		return to
	}
	if d, to := p.dayBody(i); to > i && d.kind != 0 {
		return to
	}
	if s := p.item(i + 1).text; (s == "/") && p.item(i+1).glued && p.item(i+2).kind == digits && p.item(i+2).glued && p.item(i).num <= 31 &&
		p.item(i+2).num <= 31 {
		return i + 3
	}
	return 0
}

// plural reports whether item i is a word that may be what is counted: "as 3 camisas".
func (p *parser) plural(i int) bool {
	it := p.item(i)
	return it.plain() && strings.HasSuffix(it.text, "s")
}

// misspelt finds a word that is one letter away from an unmistakable one.
func (p *parser) misspelt(i int) int {
	it := p.item(i)
	if it.class != 0 || len(it.text) < 6 || it.text == "domingos" && it.capital && !p.start(i) {
		return 0
	}
	for _, right := range p.lang.unmistakable() {
		if near(it.text, right) {
			return i + 1
		}
	}
	return 0
}

func (l *language) unmistakable() []string {
	if l == english {
		return []string{
			"tomorrow", "tonight", "minutes", "monday", "mondays", "tuesday", "tuesdays", "wednesday", "wednesdays", "thursday", "thursdays",
			"friday",
			"fridays", "saturday", "saturdays", "sundays", "afternoon", "morning", "mornings", "evening", "evenings", "january", "february",
			"september",
			"october", "november", "december", "tomorrow's",
		}
	}
	return []string{
		"amanha", "minutos", "segundas", "tercas", "quartas", "quintas", "sextas", "sabados", "domingos", "madrugada", "janeiro", "fevereiro",
		"setembro",
		"outubro", "novembro", "dezembro", "manhas", "noites", "tardes", "amanhas",
	}
}

// near reports whether a word is another one misspelt: one letter is wrong, or two in a long word.
func near(a, right string) bool {
	if a[0] != right[0] {
		return false
	}
	allowed := 1
	if len(right) >= 8 {
		allowed = 2
	}
	if len(a)-len(right) > allowed || len(right)-len(a) > allowed {
		return false
	}
	before, row := []int(nil), make([]int, len(right)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(right)+1)
		next[0] = i + 1
		for j := range len(right) {
			cost := 1
			if a[i] == right[j] {
				cost = 0
			}
			next[j+1] = min(next[j]+1, row[j+1]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == right[j-1] && a[i-1] == right[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(right)] <= allowed
}

// vagueNumber reports whether item i counts without a number: "some", "several".
func (p *parser) vagueNumber(i int) bool {
	switch p.item(i).text {
	case "some", "many", "several", "few", "a", "multiple", "any", "alguns", "algumas", "varios", "varias", "muitos", "muitas", "poucos",
		"poucas":
		return true
	}
	return false
}

// found are the words of time as the text has them.
func (p *parser) found() string {
	var words []string
	for _, e := range p.elements {
		words = append(words, p.text[p.item(e.from).start:p.item(e.to-1).end])
	}
	return strings.Join(words, ", ")
}

// past reports whether the only thing that the text says of a time is that it has passed.
func (p *parser) past() bool {
	passed := false
	for _, e := range p.elements {
		if e.kind != aPassed && e.kind != aClock && e.kind != aPart || e.named {
			return false
		}
		passed = passed || e.kind == aPassed
	}
	return passed
}

// strong reports whether an element holds words of this language alone.
func (p *parser) strong() bool {
	for _, e := range p.elements {
		for i := e.from; i < e.to; i++ {
			it := p.item(i)
			if it.kind == word && it.class != 0 && !it.is(foreign) && (!it.is(number) || it.is(dayWord)) || it.accent && it.is(at) {
				return true
			}
		}
	}
	return false
}

// goal is the text without its words of time.
func (p *parser) goal() string {
	var b strings.Builder
	at := 0
	for _, e := range p.elements {
		if e.named || e.kind == aDuration {
			continue
		}
		b.WriteString(strings.TrimRight(p.text[at:p.item(e.from).start], " \t\r\n,;-–—("))
		b.WriteByte(' ')
		at = p.item(e.to - 1).end
		at += len(p.text[at:]) - len(strings.TrimLeft(p.text[at:], " \t\r\n,;:-–—)."))
		if at == len(p.text) || strings.Trim(p.text[at:], "!?.…") == "" {
			at = len(p.text)
		}
	}
	b.WriteString(p.text[at:])
	return strings.TrimRight(strings.Join(strings.Fields(b.String()), " "), " ,;:-–—(")
}
