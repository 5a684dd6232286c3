package when

// told reports whether an element belongs to what a person shall be told, in a goal that begins with its whole time: "in 20 minutes
// tell Ana that I arrive at 9".
func (p *parser) told(e *element) bool {
	lead := p.lead()
	if lead == 0 || e.from < lead || e.kind != aDay && e.kind != aClock && e.kind != aPart {
		return false
	}
	asked, content := false, false
	for i := lead; i < e.from; i++ {
		it := p.item(i)
		if p.inside(i) {
			continue
		}
		switch it.text {
		case "if", "whether", "when", "then", "se", "caso", "quando", ",", ".", ";", "!", "?": // a condition, or another task
			return false
		}
		if it.is(and) && !it.accent {
			return false
		}
		content = content || asked && it.is(that|clause)
		asked = asked || it.is(report|remind)
	}
	return content
}

// lead is the item after the time that a text begins with, 0 if it begins with none that is whole: an amount, or a day and a time of day.
func (p *parser) lead() int {
	if len(p.elements) == 0 || !p.start(p.elements[0].from) {
		return 0
	}
	seen := map[elementKind]bool{}
	to := p.elements[0].from
	for i := range p.elements {
		e := &p.elements[i]
		if e.named || !p.beside(to, e.from) {
			break
		}
		seen[e.kind], to = true, e.to
	}
	if seen[aWrong] || seen[aPassed] || !seen[aRelative] && !(seen[aDay] && seen[aClock]) {
		return 0
	}
	return to
}

// converted reports whether the text asks for nothing but one amount in another unit: "convert 90 minutes to hours", "how many hours
// are in a week".
func (p *parser) converted() bool {
	k := 0
	asked := func() bool {
		for p.reads(k, "are") || p.reads(k, "is") || p.reads(k, "there") || p.reads(k, "tem") || p.reads(k, "ha") || p.reads(k, "existem") ||
			p.reads(k, "cabem") {
			k++
		}
		if p.reads(k, "in") || p.reads(k, "em") || p.reads(k, "n") {
			k++
		}
		_, to := p.amountBody(k)
		to, k = k, to
		return k > to && p.over(k)
	}
	switch p.item(0).text {
	case "how":
		if p.reads(1, "many") && p.is(2, unit) {
			k = 3
			return asked()
		}
	case "quantos", "quantas", "quanto", "qtos", "qtas", "qto":
		if p.is(1, unit) {
			k = 2
			return asked()
		}
	case "convert", "converte", "converta", "transforma":
		_, to := p.amountBody(1)
		switch p.item(to).text {
		case "to", "into", "in", "em", "para", "pra":
			return to > 1 && p.is(to+1, unit) && p.over(to+2)
		}
	}
	return false
}

// over reports whether nothing but marks stands from item i on.
func (p *parser) over(i int) bool {
	for ; i < len(p.items); i++ {
		if p.item(i).kind != mark {
			return false
		}
	}
	return true
}

// property finds an amount that only describes what the goal finds or makes: "find a 30 minute recipe", "grava um vídeo de 1 minuto",
// "files older than 30 days". It stays in the goal. What counts time itself, such as a timer, is no such thing.
func (p *parser) property(i int) int {
	older := p.reads(i, "than") && (p.reads(i-1, "older") || p.reads(i-1, "newer")) && p.lang == english
	more := p.lang != english && p.is(i, bound) && (p.reads(i, "mais") || p.reads(i, "menos")) && p.reads(i-1, "com") && p.thing(i-2)
	if older || more {
		_, next, ok := p.count(i + 1)
		if ok && p.is(next, unit) && p.item(next).value >= int(days) && !p.is(next+1, and|or|vague|after|ago|fromNow|bound) &&
			!p.reads(next+1, "de") {
			return next + 1
		}
		return 0
	}
	n, next, ok := p.count(i)
	if !ok || n == 0 || !p.is(next, unit) && !p.reads(next, "-") {
		return 0
	}
	if p.lang != english {
		if p.is(next, unit) && p.reads(i-1, "de") && p.program(i-1) && !p.is(next+1, in|ago|vague) && !p.reads(next+1, "em") {
			return next + 1
		}
		if p.is(next, unit) && p.item(next).value <= int(hours) && p.reads(i-1, "de") && p.thing(i-2) && p.is(i-3, once) && p.made(i-4) {
			return next + 1
		}
		return 0
	}
	if p.reads(next, "-") && p.item(next).glued {
		next++
	}
	if p.is(next, unit) && !p.is(next, short) && p.item(next).value <= int(hours) && p.item(next).text[len(p.item(next).text)-1] != 's' &&
		p.is(i-1, once) && p.made(i-2) && p.thing(next+1) {
		return next + 1
	}
	return 0
}

// made reports whether item i, perhaps with "me", is a verb at the beginning of the text that finds or makes something.
func (p *parser) made(i int) bool {
	if p.reads(i, "me") {
		i--
	}
	switch p.item(i).text {
	case "find", "search", "suggest", "recommend", "book", "play", "record", "write", "show", "grava", "grave", "gravar", "procura", "procure",
		"acha",
		"ache", "busca", "busque", "encontra", "encontre", "sugere", "sugira", "recomenda", "recomende":
		return p.start(i)
	}
	return false
}

// program reports whether what ends before item i is something that has a length, and waits for nothing: "treino de perna de 20 minutos".
func (p *parser) program(i int) bool {
	for k := i - 1; k >= max(0, i-3); k-- {
		switch p.item(k).text {
		case "massagem", "treino", "podcast", "video", "aula", "filme", "playlist", "meditacao", "caminhada", "corrida", "alongamento", "curso",
			"plano", "episodio", "documentario", "assinatura", "yoga", "pilates":
			return true
		}
		if k < i-1 && !p.reads(k, "de") && !p.reads(k+1, "de") {
			return false
		}
	}
	return false
}

// thing reports whether item i names something that does not count time itself.
func (p *parser) thing(i int) bool {
	switch p.item(i).text {
	case "timer", "alarm", "countdown", "delay", "wait", "break", "pause", "warning", "notice", "window", "gap", "interval", "snooze",
		"alarme", "lembrete", "cronometro", "contagem", "pausa", "intervalo", "soneca", "espera", "prazo", "aviso", "atraso", "temporizador":
		return false
	}
	return p.item(i).plain() || p.is(i, counted)
}

// conditional reports whether the text begins with what has to happen first: "if it rains", "se chover". Not with mere politeness.
func (p *parser) conditional() bool {
	switch p.item(0).text {
	case "if", "unless":
		return p.lang == english && !p.reads(1, "possible") && !p.reads(1, "you")
	case "se", "caso":
		switch p.item(1).text {
		case "puder", "der", "possivel", "for", "nao", "vc", "voce", "poder":
			return false
		}
		return p.lang != english && p.item(1).kind == word && p.item(1).from >= 0
	}
	return false
}
