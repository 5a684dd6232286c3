package when

import "strings"

// meaning is what the elements of a text say together.
type meaning struct {
	days   []day
	clock  *clock
	part   partKind
	amount *Amount
}

// meant puts the elements together, and reports whether that leaves no doubt.
func (p *parser) meant() (meaning, bool) {
	var m meaning
	named := false
	for i := range p.elements {
		e := &p.elements[i]
		e.named = e.named || p.told(e)
		if e.named {
			named = true
			continue
		}
		if p.content(e) {
			return m, false
		}
		switch e.kind {
		case aDay:
			m.days = append(m.days, e.day)
			if !m.in(e.day.part) {
				return m, false
			}
		case aClock:
			if m.clock != nil {
				return m, false
			}
			m.clock = &e.clock
		case aPart:
			if !m.in(e.part) {
				return m, false
			}
		case aRelative:
			if m.amount != nil {
				return m, false
			}
			m.amount = &e.amount
		case aDuration: // stays in the goal
		case aPassed, aWrong:
			return m, false
		}
	}
	complete := m.clock != nil && (len(m.days) > 0 || m.amount != nil) || m.amount != nil
	switch {
	case m.clock == nil && m.amount == nil, named && !complete, p.has(soft), len(m.days) > 2:
		return m, false
	case m.amount != nil:
		onlyDays := m.amount.Exact == 0 && m.amount.Months == 0
		return m, len(m.days) == 0 && (m.clock == nil && m.part == 0 || m.clock != nil && onlyDays)
	}
	return m, true
}

// in sets the part of the day, and reports whether that is the one that was said before.
func (m *meaning) in(part partKind) bool {
	if part != 0 && m.part != 0 && part != m.part && !(part == evening && m.part == night) && !(part == night && m.part == evening) {
		return false
	}
	if part != 0 {
		m.part = part
	}
	return true
}

// content reports whether an element may belong to what the goal is about and not say when it is meant: "tell Ana that I arrive at 9".
func (p *parser) content(e *element) bool {
	if e.kind == aDuration {
		return false
	}
	first := 0
	for p.is(first, heading|nothing) && !p.is(first, question) || p.item(first).kind == mark && p.item(first).from >= 0 && first < e.from {
		first++
	}
	if p.is(first, question) && !p.is(first, function&^question) && first < e.from {
		return true
	}
	before := p.item(e.from - 1)
	if e.kind == aRelative && (before.text == "ready" || strings.HasPrefix(before.text, "pront")) { // "a dish that is ready in 20 minutes"
		return true
	}
	if e.kind == aRelative && p.is(e.from-2, that) && before.kind == word && e.from > 2 { // "a cake that bakes in 40 minutes"
		return true
	}
	if before.text == "to" || before.is(or) && before.text != "a" && before.from >= 0 && before.kind == word || before.text == "not" ||
		before.text == "nao" ||
		before.is(and) && !before.accent && e != &p.elements[0] && !before.is(at) {
		return true
	}
	return p.quoted(e) || p.afterColon(e) || p.reported(e) || p.booked(e)
}

// quoted reports whether the element stands between quotation marks.
func (p *parser) quoted(e *element) bool {
	before := p.text[:p.item(e.from).start]
	odd := strings.Count(before, `"`)%2 == 1
	return odd || strings.Count(before, "“") > strings.Count(before, "”") || strings.Count(before, "«") > strings.Count(before, "»")
}

// afterColon reports whether the element stands in what a colon begins: "text Ana: see you at 9".
func (p *parser) afterColon(e *element) bool {
	for i := range e.from {
		if !p.reads(i, ":") || p.item(i).kind != mark || p.inside(i) {
			continue
		}
		ok := i <= 3 && p.has(heading|remind)
		for k := range p.elements {
			ok = ok || p.elements[k].to == i
		}
		if ok && i <= 3 && !p.is(0, heading|remind|determiner|verb) && !p.start(i) {
			ok = false
		}
		if !ok {
			return true
		}
	}
	return false
}

// reported reports whether the element stands after words that begin a sentence in the goal: "that", "I'll", "ask Ana to come".
func (p *parser) reported(e *element) bool {
	told, asked := false, false
	for i := range e.from {
		it := p.item(i)
		switch {
		case p.inside(i):
			continue
		case it.text == "e" && it.accent && it.kind == word && p.lang != english:
			return true
		case it.is(clause) && !(it.is(question) && i == 0):
			return true
		case it.is(that) && told && e.kind == aRelative && p.happened(i+1, e.from):
			return false
		case it.is(that) && told, it.text == "if" || it.text == "whether" || it.text == "caso":
			return true
		case it.is(infinitive) && asked && (p.infinitiveAt(i+1) || p.lang != english && p.infinitiveAt(i+2) && p.item(i+1).kind == word):
			return true
		}
		told = told || it.is(report|remind)
		asked = asked || it.is(report) && !it.is(remind) && it.text != "remind" && it.text != "lembra" && it.text != "lembre" &&
			it.text != "lembrar"
	}
	return false
}

// happened reports whether the clause between two items has its verb in the past, so that an amount to come is not its own: "confere se o
// reembolso caiu daqui a duas semanas".
func (p *parser) happened(from, to int) bool {
	for i := from; i < to && p.lang != english; i++ {
		for _, ending := range []string{"ou", "iu", "eu", "aram", "iram", "eram"} {
			if it := p.item(i); it.plain() && len(it.text) > 3 && strings.HasSuffix(it.text, ending) {
				return true
			}
		}
	}
	return false
}

func (p *parser) inside(i int) bool {
	for _, e := range p.elements {
		if i >= e.from && i < e.to {
			return true
		}
	}
	return false
}

// infinitiveAt reports whether item i is a verb after "to" or "para".
func (p *parser) infinitiveAt(i int) bool {
	it := p.item(i)
	if p.lang == english {
		return it.is(verb)
	}
	if strings.TrimSuffix(it.text, "s") == "ele" || strings.TrimSuffix(it.text, "s") == "ela" || it.text == "me" {
		return true
	}
	return it.kind == word && !it.capital && len(it.text) > 2 && (strings.HasSuffix(it.text, "ar") || strings.HasSuffix(it.text, "er") ||
		strings.HasSuffix(it.text, "ir"))
}

// booked reports whether the element is when something is that shall be booked now, or where something is moved to.
func (p *parser) booked(e *element) bool {
	for i := range e.from {
		if e.kind == aRelative && p.rides(i) {
			continue
		}
		purposed := p.is(e.from, purpose)
		if purposed && (p.reads(i, "calendar") || p.reads(i, "agenda") && p.reads(i-1, "na")) { // "add lunch to my calendar for Friday"
			return true
		}
		if p.is(i, booking) && !p.is(i-1, determiner) && p.item(i-1).text != "a" && (purposed || !p.has(remind)) ||
			p.is(i, moving) && purposed && e.kind != aPart {
			return true
		}
	}
	return false
}

// rides reports whether the booking at i is of a car, which is ordered when it is wanted: "get me a cab in 20 minutes".
func (p *parser) rides(i int) bool {
	said := strings.ToLower(p.text[p.item(i).start:p.item(i).end])
	return p.is(i, booking) && (strings.HasSuffix(said, "cab") || strings.HasSuffix(said, "taxi") || strings.HasSuffix(said, "táxi") ||
		strings.HasSuffix(said, "uber"))
}
