package reading

import (
	"regexp"
	"strings"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

// Kind is the sort of a text, apart from the words in it.
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

// forms has the patterns, over Normalise, of texts that phones and mail programs write, in every language at once.
type forms struct {
	reactions                                   []reaction
	footers, automatic, forwarded, quotedHeader languages.Pattern
	signatures                                  *regexp.Regexp
}

type reaction struct {
	kind    Kind
	pattern languages.Pattern
	emoji   bool // the first group is the emoji
}

const (
	quoted = ` ?".*" ?`
	sign   = `(\S+)`
)

var known = readForms(languages.Together())

func readForms(l languages.Language) forms {
	literal := func(key string) string {
		var quoted []string
		for _, line := range l.Lines(key) {
			quoted = append(quoted, regexp.QuoteMeta(line))
		}
		return `(?:` + strings.Join(quoted, "|") + `)`
	}
	f := forms{
		footers:      l.Regexp(literal("footer") + ` {footer-end}[.!?]?`),
		signatures:   regexp.MustCompile(`(?s)[-. ~|]*\b` + literal("signature") + `\b.{0,60}$`),
		automatic:    l.Regexp(`(?s)(?:^|[^\pL])(?:` + literal("automatic") + `|{automatic-form})`),
		forwarded:    l.Regexp(`(?s)^(?:-+ ?)?{forward}(?: ?:| ?-+).*$`),
		quotedHeader: l.Regexp(`(?s)\b{wrote} ?: ?>.*$`),
	}
	for _, of := range [...]struct {
		key  string
		kind Kind
	}{{"liked", Liked}, {"noted", Noted}, {"disliked", Disliked}, {"emoji", Noted}} {
		for _, line := range l.Lines(of.key) {
			// What was reacted to without quotation marks is one of the things that have no words: "loved a day off" is a person's text.
			form := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(line, `"`)), `\*`, sign)
			f.reactions = append(f.reactions, reaction{
				kind: of.kind, emoji: of.key == "emoji", pattern: l.Regexp(`(?s)^` + form + `(?:` + quoted + `|{picture})$`),
			})
		}
	}
	return f
}

// fewWords is the most words of a text between quotation marks that a person may have meant themselves: "stop texting me".
const fewWords = 8

var (
	wholeQuote = regexp.MustCompile(`(?s)^".*"[.!?]?$`)
	someQuote  = regexp.MustCompile(`"[^"]{6,}"`)
	quoteMark  = regexp.MustCompile(`^>+ ?`)
	// numberSign is a # that stands for a word, and before no figure: "wrong #", "take my # off".
	numberSign = regexp.MustCompile(`(\pL) ?#( \pL|[ .!?,]*$)`)
)

// Theirs tells the words of a person from what their phone added or repeated: reactions, quotes, our footers, signatures, automatic
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
	if isAutomatic(normal) {
		return Automatic, ""
	}
	said := known.signatures.ReplaceAllString(known.quotedHeader.ReplaceAllString(normal, ""), "")
	said = strings.TrimSpace(quoteMark.ReplaceAllString(strings.TrimSpace(said), ""))
	long := len(strings.Fields(said)) > fewWords
	if (known.forwarded.MatchString(said) || wholeQuote.MatchString(said)) && (long || known.footers.MatchString(said)) {
		return Quoted, ""
	}
	if rest := strings.TrimSpace(someQuote.ReplaceAllString(said, " ")); strings.ContainsFunc(rest, unicode.IsLetter) {
		said = rest
	}
	said = spelledOut(strings.TrimSpace(known.footers.ReplaceAllString(said, " ")))
	if !hasWord(said) && hasWord(normal) {
		return Quoted, ""
	}
	return Own, said
}

// spelledOut writes the word for a # that stands for it, in the language of the text.
func spelledOut(said string) string {
	if !strings.Contains(said, "#") {
		return said
	}
	word := languages.Of(languages.Guess(letters.Words(said))).Text("number-sign")
	return numberSign.ReplaceAllString(said, "${1} "+word+"${2}")
}

// isAutomatic reports whether a text has a form that phones and carriers write, and does not ask about it: a person writes "is this an
// automated message?".
func isAutomatic(normal string) bool {
	at := known.automatic.FindStringIndex(normal)
	if at == nil {
		return false
	}
	rest := normal[at[1]:]
	end := strings.IndexAny(rest, ".!?")
	return end < 0 || rest[end] != '?'
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
