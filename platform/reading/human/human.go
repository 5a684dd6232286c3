// Package human reads whether a text asks to speak to a person, in words of every language that is known.
package human

import (
	"bufio"
	"embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"paceline.internal/platform/letters"
)

//go:embed words/*.txt
var files embed.FS

// askers has the words that ask for a person, of all languages together: people write in whichever they like.
type askers struct {
	within patterns // found in a clause
	whole  patterns // the whole text
	// The same with flowWords in them.
	flowWithin, flowWhole patterns
}

type patterns []*regexp.Regexp

// flowWords stands for the words of a flow, in the files and in a text. No word of a text equals it, because it is no letter.
const flowWords = "@"

// loaded reads the files once; they are part of the program, so that one that cannot be read is a fault of the build.
var loaded = sync.OnceValue(func() (a askers) { //nolint:gochecknoglobals // constant data
	entries, err := files.ReadDir("words")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		file, err := files.Open("words/" + entry.Name())
		if err != nil {
			panic(err)
		}
		named := map[string]string{}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			a.add(strings.TrimSpace(lines.Text()), named)
		}
		if err := file.Close(); err != nil {
			panic(err)
		}
	}
	return a
})

// add reads a line. Regular expressions take linear time for every text.
func (a *askers) add(line string, named map[string]string) {
	name, alternatives, names := strings.Cut(line, " = ")
	wholes, withins := &a.whole, &a.within
	if strings.Contains(line, flowWords) {
		wholes, withins = &a.flowWhole, &a.flowWithin
	}
	switch pattern, whole := strings.CutPrefix(line, "= "); {
	case line == "", strings.HasPrefix(line, "#"):
	case whole:
		*wholes = append(*wholes, compile("^ "+pattern+" $", named))
	case names:
		named[name] = alternatives
	default:
		*withins = append(*withins, compile(pattern, named))
	}
}

// reference is a named list of alternatives in a line.
var reference = regexp.MustCompile(`\{(\w+)\}`)

// compile makes a pattern for words that each have a space around them. A token is a run of alternatives, which may be several words.
func compile(line string, named map[string]string) *regexp.Regexp {
	line = reference.ReplaceAllStringFunc(line, func(ref string) string {
		alternatives, known := named[ref[1:len(ref)-1]]
		if !known {
			panic("human: " + ref + " is not named in: " + line)
		}
		return strings.ReplaceAll(alternatives, " ", "_")
	})
	tokens := strings.Fields(strings.TrimPrefix(line, "^ "))
	pattern := " "
	if strings.HasPrefix(line, "^") {
		pattern = "^ "
	}
	for _, token := range tokens {
		alternatives, optional := strings.CutSuffix(token, "?")
		switch {
		case token == "$":
			pattern += "$"
		case optional:
			pattern += "(?:(?:" + alternatives + ") )?"
		default:
			pattern += "(?:" + alternatives + ") "
		}
	}
	return regexp.MustCompile(strings.ReplaceAll(pattern, "_", " "))
}

// Asked reports whether a text asks for a person, by the words of every language. Words of a flow's own, in more, count where the text is
// little else or asks for them: "a nurse please", "can I talk to a nurse". "My sister is a nurse" mentions them.
func Asked(text string, more []string) bool {
	a, whole, parts := loaded(), spaced(letters.Words(text)), clauses(text)
	if a.whole.match(whole) || slices.ContainsFunc(parts, a.within.affirmedIn) {
		return true
	}
	return slices.ContainsFunc(more, func(phrase string) bool { return a.askFor(phrase, whole, parts) })
}

// askFor reports whether a text asks for words of a flow.
func (a *askers) askFor(phrase, whole string, parts []clause) bool {
	said := spaced(letters.Words(phrase))
	if strings.TrimSpace(said) == "" || !strings.Contains(whole, said) {
		return false
	}
	with := func(text string) string { return strings.ReplaceAll(text, said, spaced([]string{flowWords})) }
	short := with(whole)
	// One word behind them is a courtesy or an hour in whatever language.
	if strings.HasPrefix(short, " "+flowWords+" ") && len(strings.Fields(short)) <= 2 || a.flowWhole.match(short) {
		return true
	}
	return slices.ContainsFunc(parts, func(c clause) bool {
		c.words = with(c.words)
		return a.flowWithin.affirmedIn(c)
	})
}

func (all patterns) match(text string) bool {
	return slices.ContainsFunc(all, func(pattern *regexp.Regexp) bool { return pattern.MatchString(text) })
}

func (all patterns) affirmedIn(c clause) bool { return slices.ContainsFunc(all, c.affirms) }

// clause is a part of a text between signs that end one, in words with a space around each. What negates one does not negate the next.
type clause struct {
	words    string
	question bool
}

func clauses(text string) (all []clause) {
	for text != "" {
		end := strings.IndexAny(text, ".,;:!?¿¡()\n\r。，！？…—–")
		part, sign := text, ""
		if end >= 0 {
			part, sign, text = text[:end], text[end:], text[end:]
			text = strings.TrimLeft(text, ".,;:!?¿¡()\n\r。，！？…—–")
		} else {
			text = ""
		}
		if words := letters.Words(part); len(words) > 0 {
			all = append(all, clause{words: spaced(words), question: strings.HasPrefix(sign, "?")})
		}
	}
	return all
}

func spaced(words []string) string { return " " + strings.Join(words, " ") + " " }

// affirms reports whether a clause matches a pattern where nothing before it negates or reports it.
func (c clause) affirms(pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(pattern.FindAllStringIndex(c.words, -1), func(at []int) bool {
		matched := strings.Fields(c.words[at[0]:at[1]])
		before := strings.Fields(c.words[:at[0]])
		return !c.negated(before, matched[0]) && !(verbs[matched[0]] && reports(before))
	})
}

// negations turn what follows them round: "I don't need to talk to someone".
var negations = set(`t dont cant wont didnt not no never without cannot nao n nunca jamais sem tampoco sin ni nadie jamas ne pas sans nor
	neither nobody ninguem`)

// bridges are the words that a negation reaches across. Any other ends it: "I don't understand I want to talk to a human".
var bridges = set(`want wanna need needs wants wish like have having has to do be am is are it you me us that think believe a an any
	the would
	will can could gonna going ready interested in asked asking trying necessary required reason point of for time rather prefer care feel
	comfortable one just even i we please
	quiero quiere necesito necesita hace falta deseo es necesario que me te le se nos tengo tiene de gusta gustaria puedo ganas quisiera favor
	yo por hay
	quero queria preciso precisa precisar necessario tenho tem gosto gostaria posso vontade eu com
	veux voudrais souhaite besoin il faut la peine envie d je j y ai a suis vous`)

// subjects after a negation begin another clause, or a question: "no I want", "can't I". In French the imperative does.
var subjects = set("i we you there someone somebody yo eu je j passez mettez transferez appelez let lets please por")

// canWords make a negated question, such as "¿no puedo hablar con una persona?", an invitation.
var canWords = set("puedo podria puede pueden posso poderia pode podem tem peux puis pourrais peut")

// longestNegation bounds across how many words a negation reaches.
const longestNegation = 7

func (c clause) negated(before []string, first string) bool {
	next, invites := first, c.question && slices.ContainsFunc(append(slices.Clone(before), first), func(w string) bool { return canWords[w] })
	for n := 0; n < longestNegation && len(before) > 0; n++ {
		word := before[len(before)-1]
		before = before[:len(before)-1]
		switch {
		case negations[word] && !subjects[next] && !invites:
			return true
		case !negations[word] && !bridges[word] && !adverb(word):
			return false
		}
		next = word
	}
	return false
}

func adverb(word string) bool {
	return strings.HasSuffix(word, "ly") || strings.HasSuffix(word, "mente") || strings.HasSuffix(word, "ment")
}

// verbs lists the words that begin a request, but also a report such as "I talk to a representative every day".
var verbs = set("talk speak chat hablar platicar falar conversar parler discuter")

// reporters tell of a habit or a plan right before a verb: "I talk to a representative every day", "vou falar com a equipe".
var reporters = set(`i we they he she usually always often sometimes normally vou vamos vais vai va voy vas will ll gonna used had hate
	yesterday already siempre sempre toujours`)

// requests before a subject make it a request: "can I talk to a human".
var requests = set("can could may should shall do t if wish might")

func reports(before []string) bool {
	if len(before) == 0 {
		return false
	}
	last, word := before[len(before)-1], ""
	if len(before) > 1 {
		word = before[len(before)-2]
	}
	switch last {
	case "to", "a": // "I am going to", "I used to", "voy a"
		return word == "going" || word == "used" || word == "had" || word == "voy" || word == "va" || word == "vamos"
	case "i", "we":
		return !requests[word]
	}
	return reporters[last]
}

func set(words string) map[string]bool {
	of := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		of[word] = true
	}
	return of
}
