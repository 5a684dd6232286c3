package when

import "strings"

// recurrent finds a recurrence whose word of time stands further on: "every other Friday", "todo santo dia".
func (p *parser) recurrent(i int) int {
	head := p.item(i)
	words := strings.Fields(p.text[head.start:head.end])
	switch fold, _ := folded(words[len(words)-1]); {
	case !head.is(every):
		return 0
	case fold == "cada":
	default:
		switch head.text {
		case "every", "evry", "each", "todo", "toda", "todos", "todas", "td", "tds":
		default:
			return 0
		}
	}
	many := p.lang != english && strings.HasSuffix(head.text, "s")
	for k := i + 1; k <= i+3; k++ {
		it := p.item(k)
		if it.from < 0 || it.kind == mark {
			return 0
		}
		if it.is(unit|part|weekday|event|vague) && (k == i+1 || !many || strings.HasSuffix(it.text, "s")) {
			return k + 1
		}
		if it.is(at|in|on|purpose|and|verb) && (p.lang == english || it.text[0] != 'd') { // "todo começo de mês"
			return 0
		}
	}
	return 0
}

// folded is a word in lower case without its accents, and whether it had any.
func folded(word string) (string, bool) {
	var b strings.Builder
	accents := false
	for _, r := range word {
		plain, accent := fold(r)
		b.WriteString(plain)
		accents = accents || accent
	}
	return b.String(), accents
}

// unread finds an amount after "in" that was not understood, because a word of it is misspelt or missing: "in tne minutes", "em mei hora".
func (p *parser) unread(i int) int {
	if !p.is(i, in) || p.is(i, on) && p.item(i).text != "em" {
		return 0
	}
	for k := i + 1; k <= i+3; k++ {
		it := p.item(k)
		if _, next := p.amountBody(k); next > k && k > i+1 { // another amount: "in Rome 2 hours from now"
			return 0
		}
		if it.is(unit) && !it.is(short|ordinal) {
			switch u := unitKind(it.value); {
			case u <= hours && it.text != "segundo", p.lang == english && k == i+1, strings.HasSuffix(it.text, "s") && it.text != "mes":
				return k + 1
			}
			return 0
		}
		if it.plain() && nearUnit(it.text) && (k > i+1 || len(it.text) > 4 && strings.HasPrefix(it.text, "a")) {
			return k + 1
		}
		letter := it.kind == word && len(it.text) == 1 // "half n hour", "x minutes"
		if !it.plain() && !letter && !it.is(number|once|half|quarter|every) && !(it.text == "the" && p.reads(k+1, "hour")) {
			return 0
		}
	}
	return 0
}

// nearUnit reports whether a word is a unit misspelt, or written together with the article: "houre", "anhour".
func nearUnit(word string) bool {
	for _, right := range []string{"minutes", "minute", "hours", "hour", "seconds", "minutos", "minuto", "horas", "segundos"} {
		if len(word) > 3 && (near(word, right) || word == "a"+right || word == "an"+right) {
			return true
		}
	}
	return false
}
