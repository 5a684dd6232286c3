package timeparse

import "strings"

// meaning is what the elements of a text say together.
type meaning struct {
	days   []day
	clock  *clock
	part   partKind
	amount *Amount
	about  bool
}

// meant puts the elements together, and reports whether that leaves no doubt.
func (p *parser) meant() (meaning, bool) {
	var m meaning
	if len(p.left) > 0 {
		return m, false
	}
	named := false
	for i := range p.elements {
		e := &p.elements[i]
		if e.named = p.names(e); e.named {
			named = true
			continue
		}
		if e.kind != aDuration && p.content(e) || !m.add(e) {
			return m, false
		}
	}
	complete := m.clock != nil && (len(m.days) > 0 || m.amount != nil) || m.amount != nil
	switch {
	case m.clock == nil && m.amount == nil, named && !complete, len(m.days) > 2:
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
	switch e.kind {
	case aDay:
		m.days = append(m.days, e.day)
		return m.in(e.day.part)
	case aClock:
		if m.clock != nil {
			return false
		}
		m.clock = &e.clock
	case aPart:
		return m.in(e.part)
	case aRelative:
		if m.amount != nil {
			return false
		}
		m.amount = &e.amount
	case aPassed:
		return false
	case aDuration: // stays in the goal
	}
	return true
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

// names reports whether an element only names something: "the 9am meeting", "show de sexta", "prepare for 3pm review".
func (p *parser) names(e *element) bool {
	if e.kind != aDay && e.kind != aClock {
		return false
	}
	k := p.before(e.from)
	before := p.item(k)
	switch of := p.code(e.from) == 'v' && e.kind == aDay; {
	case of:
		return k >= 0 && !p.touches(k)
	case before.code == 'v' && p.inside(k) == nil:
		return p.code(p.before(k)) == '_'
	case (before.code == 'd' || p.code(e.from) == 'd') && p.inside(k) == nil:
		return true
	}
	next := p.item(p.next(e.to - 1))
	return !e.led && !p.starts(e.from) && next.code == '_' && !next.is(polite)
}

// touches reports whether an element ends at an item, or before a comma there.
func (p *parser) touches(k int) bool {
	return p.inside(k) != nil || p.code(k) == ',' && p.inside(p.before(k)) != nil
}

// content reports whether an element may belong to what the goal is about and not say when it is meant: "tell Ana that I arrive at 9".
func (p *parser) content(e *element) bool {
	if p.starts(e.from) {
		return false
	}
	if before := p.item(p.before(e.from)); before.is(meeting|soft|limit) || e.kind == aDay && before.is(numbered) || strings.IndexByte("cvpflb<", before.code) >= 0 && before.code != 0 ||
		before.code == '&' && e != &p.elements[0] {
		return true
	}
	text := p.text[:p.items[e.from].start]
	if strings.Count(text, `"`)%2 == 1 || strings.Count(text, "“") > strings.Count(text, "”") || strings.Count(text, "«") > strings.Count(text, "»") {
		return true
	}
	told, asked := false, p.has(remind)
	for i := range e.from {
		it := &p.items[i]
		switch {
		case p.inside(i) != nil:
			continue
		case it.is(clause), it.is(verse) && !e.led, it.is(book) && !(asked && p.code(e.from) != 'p'), it.is(meeting) && p.governed(i), it.code == ':' && !p.starts(i):
			return true
		case told && (it.code == 'c' || it.code == 'p') && p.infinitiveAt(p.next(i)):
			return true
		}
		told = told || it.is(report) && !it.is(remind)
	}
	return false
}

// governed reports whether what happens at a time is what the goal is about: "lembra da aula de inglês às 9h".
func (p *parser) governed(i int) bool {
	k := p.before(i)
	if c := p.code(k); c == 'd' || c == 'x' {
		k = p.before(k)
	}
	return k >= 0 && strings.IndexByte("bvp", p.codes[k]) >= 0
}

// infinitiveAt reports whether what stands behind "to" or "para" is done by somebody else: "ask Ana to come", "pede pra Ana vir".
func (p *parser) infinitiveAt(i int) bool {
	if p.lang.english {
		return p.code(i) == '_' && !p.item(i).capital
	}
	for range 3 {
		if p.item(i).is(verb) {
			return true
		}
		i = p.next(i)
	}
	return false
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
	return passed && len(p.left) == 0
}
