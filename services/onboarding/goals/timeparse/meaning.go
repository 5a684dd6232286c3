package timeparse

import "strings"

// meaning collects what the elements of a text say together.
type meaning struct {
	days   []day
	clock  *clock
	part   int // of parts
	amount *Amount
	about  bool
}

// meant puts the elements together, and reports whether that leaves no doubt.
func (p *parser) meant() (meaning, bool) {
	var m meaning
	named := false
	for i := range p.elements {
		e := &p.elements[i]
		e.named = p.names(e)
		named = named || e.named
		if !e.named && e.kind != aDuration && (p.content(e) || !m.add(e)) {
			return m, false
		}
	}
	complete := m.clock != nil && len(m.days) > 0 || m.amount != nil
	switch {
	case p.doubtful, m.clock == nil && m.amount == nil, named && !complete, len(m.days) > 2:
		return m, false
	case m.amount != nil:
		onlyDays := m.amount.Exact == 0 && m.amount.Months == 0
		return m, len(m.days) == 0 && (m.clock == nil && m.part == 0 || m.clock != nil && onlyDays)
	}
	return m, true
}

// add adds an element, and reports whether it fits to the others.
func (m *meaning) add(e *element) bool {
	m.about = m.about || e.about
	part := e.part
	switch e.kind {
	case aDay:
		m.days = append(m.days, e.day)
		part = e.day.part
	case aClock:
		if m.clock != nil {
			return false
		}
		m.clock = &e.clock
	case aRelative:
		if m.amount != nil {
			return false
		}
		m.amount = &e.amount
	case aPassed:
		return false
	case aPart, aDuration: // a duration stays in the goal
	}
	fits := part == 0 || m.part == 0 || part == m.part || min(part, m.part) == night-1 // evening and night
	m.part = max(part, m.part)
	return fits
}

// names reports whether an element only names something: "the 9am meeting", "show de sexta", "prepare for 3pm review".
func (p *parser) names(e *element) bool {
	k, first := p.before(e.from), p.code(e.from)
	before, next := p.item(k), p.item(p.next(e.to-1))
	switch {
	case e.kind != aDay && e.kind != aClock:
		return false
	case first == 'v' && e.kind == aDay:
		return k >= 0 && p.beforeElement(e.from) == nil
	case before.code == 'v' && p.inside(k) == nil:
		return p.code(p.before(k)) == '_'
	case (before.code == 'd' || first == 'd') && p.inside(k) == nil:
		return true
	}
	return !e.led && !p.starts(e.from) && next.code == '_' && !next.is(polite)
}

// content reports whether an element may belong to what the goal is about and not say when it is meant: "tell Ana that I arrive at 9".
func (p *parser) content(e *element) bool {
	before, text := p.item(p.before(e.from)), p.text[:p.items[e.from].start]
	switch {
	case p.starts(e.from):
		return false
	case before.is(meeting | soft | limit), e.kind == aDay && before.is(numbered), among(before.code, "cvpflb<"),
		e.kind == aClock && !e.led && before.code == 'i', e != &p.elements[0] && before.code == '&',
		strings.Count(text, `"`)%2 == 1, strings.Count(text, "“") > strings.Count(text, "”"), strings.Count(text, "«") > strings.Count(text, "»"):
		return true
	}
	told := false
	for i := range e.from {
		it := &p.items[i]
		switch {
		case p.inside(i) != nil:
		case it.is(clause), it.is(verse) && !e.led, it.code == ':' && !p.starts(i), it.is(meeting) && p.governed(i),
			it.is(book) && (!p.has(remind) || p.code(e.from) == 'p'), told && among(it.code, "cp") && p.asked(p.next(i)):
			return true
		}
		told = told || it.is(report) && !it.is(remind)
	}
	return false
}

// governed reports whether the goal is about the thing that happens at a time: "lembra da aula de inglês às 9h".
func (p *parser) governed(i int) bool {
	k := p.before(i)
	if among(p.code(k), "dx") {
		k = p.before(k)
	}
	return among(p.code(k), "bvp")
}

// asked reports whether what stands behind "to" or "para" is done by somebody else: "ask Ana to come", "pede pra Ana vir".
func (p *parser) asked(i int) bool {
	if p.lang.english {
		return p.code(i) == '_' && !p.items[i].capital
	}
	return p.item(i).is(verb) || p.item(p.next(i)).is(verb) || p.item(p.next(p.next(i))).is(verb)
}

// past reports whether the only thing that the text says of a time is that it has passed.
func (p *parser) past() bool {
	passed := false
	for _, e := range p.elements {
		if e.kind != aPassed && e.kind != aClock && e.kind != aPart || e.named {
			return false
		}
		passed = passed || e.kind == aPassed && p.code(p.before(e.from)) != 'v'
	}
	return passed && !p.doubtful
}
