package flow

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"paceline.internal/platform/reading/languages"
)

// The phrases that answer a question, over folded words without apostrophes, in every language at once.
const (
	saysYes = `of course|certainly|definitely|absolutely|for sure|by all means|you bet|why not|with pleasure|i (?:think|guess|` +
		`hope) so|` +
		`i confirm that|(?:i|we|it|they|he|she|you) (?:do|does|did|am|is|are|was|were|would|have|has)|` +
		`com certeza|claro|claro que sim|e claro|sem duvida|pode ser|acho que sim|por que nao|isso(?: mesmo)?|quero(?: sim)?|` +
		`(?:eu )?(?:quero|gostaria)|` +
		`claro que si|por supuesto|desde luego|como no|creo que si|sin duda|bien sur(?: que oui)?|evidemment|je pense que oui|` +
		`pourquoi pas|avec plaisir`
	saysNo = `(?:of course|absolutely|definitely|certainly|probably|maybe|better|rather|id rather|i think|i guess|im afraid|` +
		`unfortunately) not|` +
		`not (?:really|at all|interested|for me|a chance)|(?:i )?(?:really )?(?:dont|do not) think so|no way|no chance|` +
		`(?:i|we|it|they|he|she|you) (?:dont|doesnt|didnt|isnt|arent|wasnt|werent|wouldnt|havent|hasnt|do not|did not|was not|` +
		`is not|am not)|im not|` +
		`claro que nao|com certeza nao|de jeito nenhum|acho que nao|nao muito|nem pensar|prefiro nao|na verdade nao|` +
		`infelizmente nao|melhor nao|` +
		`claro que no|por supuesto que no|para nada|(?:no lo )?creo que no|no (?:lo )?creo|la verdad no|de ninguna manera|mejor no|` +
		`bien sur que non|certainement pas|pas vraiment|pas du tout|je ne (?:pense|crois) pas|je pense que non|plutot non`

	// These answer whether the person comes, and the other way round whether they want to cancel.
	comes = `(?:i|we) (?:will|can|could|shall)(?: (?:be there|come|make it|attend))?|(?:ill|well) (?:be there|come|make it|` +
		`attend)|(?:im|i am|were|we are) coming|(?:ill )?be there|see you(?: \S+){0,3}|` +
		`(?:i )?confirm(?:ed)?|(?:eu )?(?:vou|posso)(?: sim| ir)?|(?:eu )?confirmo|confirmado|estarei la|ate la|ahi estare|` +
		`nos vemos|(?:je )?(?:confirme|viens)|je serai la`
	comesNot = `(?:(?:i|we) )?(?:cant|cannot|can not|couldnt|wont|will not|wont be able to|am not able to)(?: (?:come|make it|` +
		`attend|be there|do it))?|(?:(?:im|i am|we are|were) )?not coming|` +
		`unable to (?:come|attend|make it)|(?:eu )?nao (?:vou|posso|consigo)(?: poder)?(?: ir| vir| comparecer)?|no (?:puedo|voy|` +
		`podre)(?: (?:a )?(?:ir|asistir|venir))?|` +
		`je ne (?:peux|viens|pourrai) pas(?: venir)?`

	leadsYes = `yes|yeah|yep|yup|sure|ok|okay|oh|well|sim|si|oui|claro`
	plainNo  = `no|nope|nah|nao|non`
	leadsNo  = plainNo + `|oh|well`
	regrets  = `sorry|(?:im|i am) (?:sorry|afraid)|unfortunately|desculpa|desculpe|desculpas|infelizmente|perdon|lo siento|` +
		`disculpa|disculpe|desolee?|je suis desolee?`
)

// replies hold the phrases as patterns over a whole text.
type replies struct{ yes, no, comes, comesNot *regexp.Regexp }

var phrases = sync.OnceValue(func() replies {
	polite := courtesies()
	whole := func(lead, said, tail string) *regexp.Regexp {
		return regexp.MustCompile(`^(?:(?:` + lead + `|` + polite + `) )*(?:` + said + `)(?: (?:` + tail + `|` + polite + `))*$`)
	}
	return replies{
		yes: whole(leadsYes, saysYes, leadsYes), no: whole(leadsNo+"|"+regrets, saysNo+"|"+plainNo, regrets+"|"+plainNo),
		comes: whole(leadsYes, comes, leadsYes+"|then|there"), comesNot: whole(leadsNo+"|"+regrets, comesNot, regrets+"|anymore|any more"),
	}
})

// courtesies returns a pattern of the words that change nothing, the longest first.
func courtesies() string {
	lines := append(slices.Clone(languages.Together().Lines("courtesy")), "hi", "hello", "hey", "oi", "ola", "hola", "bonjour")
	slices.SortStableFunc(lines, func(a, b string) int { return len(b) - len(a) })
	for i, line := range lines {
		lines[i] = regexp.QuoteMeta(line)
	}
	return strings.Join(lines, "|")
}

// apostrophes joins what they separate: don't is dont.
var apostrophes = strings.NewReplacer("'", "", "’", "")

// cancelling finds the words of a question to which a yes is a no to coming.
var cancelling = regexp.MustCompile(`(?i)\b(?:cancel|skip|miss|annul|anul|desmarc|faltar|call (?:it )?off|reschedule|move it|` +
	`remarcar)`)

// replied reads a phrase that answers a question: yes, no or nothing. Phrases of coming count only where a yes to the question means it.
func replied(question, text string) string {
	row := fold(apostrophes.Replace(text))
	p := phrases()
	switch coming := question != "" && !cancelling.MatchString(asked(question)); {
	case p.no.MatchString(row), coming && p.comesNot.MatchString(row):
		return no
	case p.yes.MatchString(row), coming && p.comes.MatchString(row):
		return yes
	}
	return ""
}

// otherwise begins what a text says of a no: "Reply YES to keep it or NO to cancel".
var otherwise = regexp.MustCompile(`\b(?:or NO|NO|ou NÃO|NÃO|NON)\b`)

// asked returns the part of a text that says what a yes means: up to its question mark, else up to its NO.
func asked(question string) string {
	if before, _, found := strings.Cut(question, "?"); found {
		return before
	}
	if at := otherwise.FindStringIndex(question); at != nil {
		return question[:at[0]]
	}
	return question
}

// The words around a number that answers by the place of a choice. "at", "after" and names of things are none: those are times and counts.
const (
	picks = `(?:(?:i|id|ill)(?: would| will)? (?:choose|pick|chose|say|go with|vote|prefer)|(?:my|the) (?:answer|choice|pick|` +
		`vote)(?: is)?|lets go with|go with|` +
		`(?:eu )?(?:escolho|prefiro|voto|fico com)|(?:a )?minha (?:resposta|escolha|opcao)(?: e)?|(?:yo )?(?:elijo|escojo|` +
		`me quedo con)|mi (?:respuesta|eleccion|opcion)(?: es)?|` +
		`(?:je )?(?:choisis|prefere|prends)|ma repons[e](?: est)?) `
	nouns = `option|number|num|nr|n|no|choice|answer|opcao|numero|alternativa|resposta|opcion|respuesta|choix|repons[e]`
	tails = ` (?:option|choice|one|answer|opcao|alternativa|opcion|choix)`
)

// The words for a place, in every language. A weekday in Portuguese needs an article or a noun: "segunda" alone is Monday.
var (
	ordinals = []string{
		"first|primeir[oa]|primer|primera|premiere?", "second|segund[oa]|deuxieme",
		"third|terceir[oa]|tercer|tercera|troisieme", "fourth|quart[oa]|cuart[oa]|quatrieme",
		"fifth|quint[oa]|cinquieme", "sixth|sext[oa]|sixieme", "seventh|setim[oa]|septim[oa]|septieme", "eighth|oitav[oa]|octav[oa]|huitieme",
		"ninth|non[oa]|noven[oa]|neuvieme", "tenth|decim[oa]|dixieme",
	}
	cardinals = []string{
		"one|um|uno|un", "two|dois|duas|dos|deux", "three|tres|trois",
		"four|quatro|cuatro|quatre", "five|cinco|cinq", "six|seis", "seven|sete|siete|sept",
		"eight|oito|ocho|huit", "nine|nove|nueve|neuf", "ten|dez|diez|dix",
	}
	weekdays = regexp.MustCompile(`\b(?:segunda|quarta|quinta|sexta)\b`)
	days     = regexp.MustCompile(`\b(?:segunda|terca|quarta|quinta|sexta|sabado|domingo)\b`)
)

// places reads the place that a text names, and nothing else.
type places struct {
	figure, ordinal, cardinal *regexp.Regexp
	first, counted            []*regexp.Regexp // the words of each place
}

var placed = sync.OnceValue(func() places {
	around := `(?:` + leadsYes + `|then|entao|` + courtesies() + `)`
	whole := func(article, number string) *regexp.Regexp {
		return regexp.MustCompile(`^(?:` + around + ` )*` +
			`(?:` + picks + `)?` + article + `(?:(?:` + nouns + `) )?` + number + `(?: ` + around + `)*$`)
	}
	words := func(of []string) (all []*regexp.Regexp) {
		for _, word := range of {
			all = append(all, regexp.MustCompile(`^(?:`+word+`)$`))
		}
		return all
	}
	return places{
		figure:   whole(`(?:(?:the|o|a|la|el|le|l) )?`, `(\d+)(?: (?:st|nd|rd|th|a|o|e|er|ere|eme|ro|do|da|ra|to|ta))?(?:`+tails+`)?`),
		ordinal:  whole(`(?:(?:the|o|a|la|el|le|l) )?`, `(`+strings.Join(ordinals, "|")+`)(?:`+tails+`)?`),
		cardinal: whole(`(?:(?:o|el|le) )?`, `(`+strings.Join(cardinals, "|")+`)`),
		first:    words(ordinals), counted: words(cardinals),
	}
})

// signed finds what makes a number another thing than a place: a sign, a currency, a decimal, or the French "at".
var signed = regexp.MustCompile(`[-+/%$€£~<>àÀ]|[.,]\d`)

// place reads the place, from 1, that is all that a text says: "2", "option 2 please", "the second one", "dois". It is 0 for any
// other text.
func (e edition) place(choices []string, text string) int {
	row, p := apart(apostrophes.Replace(text)), placed()
	if match := p.figure.FindStringSubmatch(row); match != nil && !signed.MatchString(text) {
		n, _ := strconv.Atoi(match[1]) // more than an int holds is no place either
		return n
	}
	if match := p.cardinal.FindStringSubmatch(row); match != nil {
		return index(p.counted, match[1])
	}
	match := p.ordinal.FindStringSubmatch(row)
	switch {
	case match == nil, strings.Contains(row, "a second"):
		return 0
	case weekdays.MatchString(row) && (row == match[1] || e.hasDays(choices)):
		return 0
	}
	return index(p.first, match[1])
}

// index returns the place, from 1, of the pattern that a word matches.
func index(patterns []*regexp.Regexp, word string) int {
	return 1 + slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(word) })
}

// hasDays reports whether a choice is a weekday.
func (e edition) hasDays(choices []string) bool {
	return slices.ContainsFunc(choices, func(choice string) bool { return days.MatchString(fold(strings.Join(e.words(choice), " "))) })
}

// affirms returns the one choice that has a word of yes, or of no.
func (e edition) affirms(choices []string, answer string) string {
	found := ""
	for _, choice := range choices {
		has := slices.ContainsFunc(e.words(choice), func(word string) bool {
			return answer == yes && slices.Contains([]string{"yes", "sim", "si", "oui"}, fold(word)) ||
				answer == no && slices.Contains([]string{"no", "nao", "non"}, fold(word))
		})
		if has && found != "" {
			return ""
		}
		if has {
			found = choice
		}
	}
	return found
}

// howMany begins a question for a count, whose answer may have a name of things behind it.
var howMany = regexp.MustCompile(`(?i)\bhow (?:many|much|long|often|old)\b|\bqu?ant[oa]s?\b|\bcu[aá]nt[oa]s?\b|\bcombien\b`)

// rates reports whether a number is a rating: the question names a scale of few numbers, and asks for no count.
func (f *Flow) rates(s Step, locale string) bool {
	texts := f.texts[f.Language(locale)].Texts
	question := texts[s.Text]
	low, high := strconv.FormatFloat(s.Expect.Min, 'f', -1, 64), strconv.FormatFloat(s.Expect.Max, 'f', -1, 64)
	if s.Expect.Max > 10 || s.Expect.Min < 0 || s.Expect.Min > 1 || howMany.MatchString(question) && !scaled10.MatchString(question) {
		return false
	}
	if s.Unclear != nil {
		question += " " + texts[s.Unclear.Text]
	}
	named := digits.FindAllString(norm.NFKC.String(question), -1)
	return slices.Contains(named, low) && slices.Contains(named, high)
}

// scaled10 finds a scale behind words of a count: "how likely ... from 0 to 10", "quanto você recomendaria".
var scaled10 = regexp.MustCompile(`(?i)\b(?:scale|escala|échelle|stars|estrelas|estrellas|recom\w+|satisf\w+)\b`)

// The ways to write a rating: with a few words around it, at the beginning of a sentence that explains it, or at its end.
const (
	rating = `^(?:(?:%[1]s|its|it is|i (?:would |ll |d )?(?:give|rate|say|choose|score)|id (?:give|rate|say)|ill (?:give|say)|it|` +
		`you|them|this|him|her|us|an?|the|um|uma|un|una|` +
		`about|around|maybe|probably|perhaps|like|solid|i think|i guess|my (?:score|rating|answer)(?: is)?|(?:%[3]s)|dou|nota|` +
		`(?:eu )?daria|acho que|talvez|uns|creo que|quizas?|` +
		`(?:yo )?(?:doy|daria)|je (?:donne|dirais)|peut etre|environ) )*\d+(?: (?:out )?(?:of|de|sur|em) %[2]v)?` +
		`(?: (?:stars?|points?|estrelas?|pontos?|estrellas?|puntos?|etoiles?|i (?:think|guess)|for sure|definitely|from me|%[1]s))*$`
	explained = `(?i)^\s*\d+\s*(?:$|[.,;:!)–—-](?:\s|$)|(?:because|but|and|since|as|porque|pois|mas|e|pero|y|mais|car|parce|` +
		`[^\p{L}\p{N}\s])(?:\s|$))|[\p{L}!.,;:–—-]*[!.,;:–—-]\s+\d+\s*[.!]*$`
)

var reasoned = regexp.MustCompile(explained)

// rated reports whether the one number of a text is a rating up to most: "I waited 5 minutes" has none.
func rated(text string, most float64) bool {
	row := apart(apostrophes.Replace(strings.ReplaceAll(text, "/", " of ")))
	return reasoned.MatchString(text) || regexp.MustCompile(fmt.Sprintf(rating, leadsYes+"|"+courtesies(), most, nouns)).MatchString(row)
}

// outOf takes the end of a scale from a text: "4 out of 5", "4/5".
func outOf(text string, most float64) string {
	return regexp.MustCompile(fmt.Sprintf(`(?i)(\d)\s*(?:/|(?:out )?(?:of|de|sur|em)\s)\s*%v\b`, most)).ReplaceAllString(text, "$1")
}

// contracted writes cannot for its other forms, so that the words of a choice find it.
func contracted(row string) string {
	return strings.NewReplacer(" can t ", " cannot ", " cant ", " cannot ", " can not ", " cannot ").Replace(row)
}
