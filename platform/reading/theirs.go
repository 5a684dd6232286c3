package reading

import (
	_ "embed"
	"regexp"
	"strings"
	"unicode"
)

// Kind is what a text is, apart from the words in it.
type Kind int

// The kinds.
const (
	// Own is a text that has words of the person.
	Own Kind = iota
	// Liked, Noted and Disliked are reactions to a message: events, and no answer. The last one is a no.
	Liked
	Noted
	Disliked
	// Quoted repeats a message and adds nothing.
	Quoted
	// Automatic was written by the phone, or by the carrier.
	Automatic
)

//go:embed theirs.tsv
var theirs string

// forms are the patterns of theirs.tsv, over Normalise.
type forms struct {
	reactions                    []reaction
	footers, signatures, machine *regexp.Regexp
}

type reaction struct {
	kind    Kind
	pattern *regexp.Regexp
	emoji   bool // the first group is the emoji
}

const (
	quoted = ` ?".*" ?`
	// thing is what was reacted to. Without quotation marks it is one of those that have no words: "loved a day off" is a person's text.
	thing = `(?:` + quoted + `|(?:an? |une? |uma? |un |una |l')(?:image|photo|picture|video|movie|attachment|sticker|audio message|` +
		`voice message|link|location|contact|imagem|foto|anexo|figurinha|audio|imagen|archivo adjunto|piece jointe|message audio))`
	sign = `(\S+)`
	// end is what a footer of ours goes on with. "I reply stop to every text" is none.
	end = `(?:opt ?-?out|end|cancel|unsubscribe|stop|quit|leave|sair|cancelar|parar|salir|dejar|terminar|ne plus|arreter|se desabonner|` +
		`vous desabonner)\b(?:(?: (?:messages?|texts?|reminders?|en|recevoir|de|les|receber|recibir|mensagens|mensajes))*)`
)

var known = readForms(theirs)

func readForms(file string) forms {
	var f forms
	kinds := map[string]Kind{"good": Liked, "neutral": Noted, "bad": Disliked, "emoji": Noted}
	parts := map[string][]string{}
	for line := range strings.Lines(file) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		column := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		kind, isReaction := kinds[column[0]]
		if !isReaction {
			parts[column[0]] = append(parts[column[0]], regexp.QuoteMeta(column[2]))
			continue
		}
		pattern := regexp.QuoteMeta(strings.TrimSuffix(column[2], `"`))
		pattern = strings.ReplaceAll(pattern, `\*`, sign)
		f.reactions = append(f.reactions, reaction{
			kind: kind, emoji: column[0] == "emoji", pattern: regexp.MustCompile(`(?s)^` + pattern + thing + `$`),
		})
	}
	either := func(kind string) string { return `(?:` + strings.Join(parts[kind], "|") + `)` }
	f.footers = regexp.MustCompile(either("footer") + end + `[.!?]?`)
	f.signatures = regexp.MustCompile(`(?s)[-. ~|]*\b` + either("signature") + `.{0,60}$`)
	f.machine = regexp.MustCompile(`(?:^|[^\pL])` + either("automatic"))
	return f
}

// fewWords is the most words of a text between quotation marks that a person may have meant themselves: "stop texting me".
const fewWords = 8

var (
	forwarded  = regexp.MustCompile(`(?s)^(?:(?:fwd?|enc|rv|tr|encaminhad[ao]|forwarded message) ?: ?|-+ ?original message ?-+).*$`)
	wholeQuote = regexp.MustCompile(`(?s)^".*"[.!?]?$`)
	someQuote  = regexp.MustCompile(`"[^"]{6,}"`)
	quoteMark  = regexp.MustCompile(`^>+ ?`)
	header     = regexp.MustCompile(`(?s)\b(?:on|em|el|le) \w{2,}[^>]{0,60}(?:wrote|escreveu|escribio|a ecrit) ?: ?>.*$`)
)

// Theirs tells the words of a person from what their phone added or repeated: reactions, quotes, footers of ours, signatures, automatic
// replies. The words are normalised, and empty unless the text is Own.
func Theirs(text string) (Kind, string) {
	normal := Normalise(withoutQuotedLines(text))
	for _, r := range known.reactions {
		if found := r.pattern.FindStringSubmatch(normal); found != nil && (!r.emoji || isEmoji(found[1])) {
			if r.emoji && isNo(found[1]) {
				return Disliked, ""
			}
			return r.kind, ""
		}
	}
	if known.machine.MatchString(normal) && !strings.Contains(normal, "?") { // "is this an automated message?" is a person's
		return Automatic, ""
	}
	said := known.signatures.ReplaceAllString(header.ReplaceAllString(normal, ""), "")
	said = strings.TrimSpace(quoteMark.ReplaceAllString(strings.TrimSpace(said), ""))
	long := len(strings.Fields(said)) > fewWords
	if (forwarded.MatchString(said) || wholeQuote.MatchString(said)) && (long || known.footers.MatchString(said)) {
		return Quoted, ""
	}
	if rest := strings.TrimSpace(someQuote.ReplaceAllString(said, " ")); strings.ContainsFunc(rest, unicode.IsLetter) {
		said = rest
	}
	said = strings.TrimSpace(known.footers.ReplaceAllString(said, " "))
	if !hasWord(said) && hasWord(normal) {
		return Quoted, ""
	}
	return Own, said
}

// withoutQuotedLines drops the lines that begin with ">", as mail programs quote, unless there are no others.
func withoutQuotedLines(text string) string {
	var own []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), ">") {
			own = append(own, line)
		}
	}
	if rest := strings.Join(own, ""); hasWord(rest) {
		return rest
	}
	return text
}

func hasWord(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r > 0x2000 })
}

func isEmoji(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r > 0x2000 && !unicode.IsLetter(r) })
}

// WithoutFooters returns the normalised text without the instructions that our own messages end with. It is for readers who must miss
// nothing, in what Theirs takes out neither.
func WithoutFooters(text string) string {
	return strings.TrimSpace(known.footers.ReplaceAllString(Normalise(text), " "))
}

// isNo reports whether an emoji is a no.
func isNo(emoji string) bool {
	return strings.ContainsAny(emoji, "👎😡🤬🛑🚫⛔🙅💩❌😠")
}
