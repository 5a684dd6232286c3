package consent

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/human"
	"paceline.internal/platform/reading/languages"
)

// RulesVersion names the rules of this package, and their words, in the ledger where they have decided, as Version names the keywords.
var RulesVersion = languages.Version()

// Wish is the wish about receiving texts that a text in free words expresses.
type Wish int

// The wishes.
const (
	NoWish  Wish = iota // nothing
	Unclear             // it may be a revocation: an operator has to decide
	Clear               // it is one
)

// Revocation reads a wish to receive no more texts out of free words, and the language that it was said in. A clear one is a clause
// that says nothing else: "please stop texting me", "não quero mais receber", with courtesies around it, and with nothing anywhere in
// the text that takes it back, jokes, or speaks of a time ("until tomorrow"). Where the same words are only part of a clause, stand
// before such a time, or are those of an annoyed person ("leave me alone"), it is unclear. The rules err towards unclear: what is
// stopped by mistake costs a conversation, and what is missed breaks the law, but an operator who looks is right both times. Under them
// is the net of doubtful.
//
// A sentence that the model finds like a revocation is unclear, too: the rest of a long text hides it in the score of the whole.
//
// Reactions are not the person's words. Of a text with a quote or a signature, or that looks like an automatic reply, the person's words
// are read first, and then the whole, which can only be unclear. What neither rules nor net know is Unclear where the model of
// package reading finds it like a revocation; and what only the net knows is not, where the model is sure that it is none.
func Revocation(body string) (Wish, Locale) {
	kind, own := reading.Theirs(body)
	switch kind {
	case reading.Liked, reading.Noted, reading.Disliked:
		return NoWish, English
	case reading.Own:
		said, whole := body, own == reading.Normalise(body)
		if !whole { // something was taken out
			said = own
		}
		wish, locale := wishOf(said, own)
		if wish == NoWish {
			wish, locale = wishOfSentences(said)
		}
		if wish != NoWish || whole {
			return wish, locale
		}
	case reading.Quoted, reading.Automatic:
	}
	// A person may put words between quotation marks, or write some that phones write, too: what was taken out may be theirs.
	whole := reading.WithoutFooters(body)
	wish, locale := wishOf(whole, whole)
	return min(wish, Unclear), locale
}

func wishOf(body, own string) (Wish, Locale) {
	parts, text := partsOf(body)
	wish, locale := byRules(parts, text)
	if wish != NoWish { // also in a language of which the model has no texts
		return wish, locale
	}
	score := reading.Revocation.Score(own)
	if signed(body, text) {
		return Unclear, English
	}
	if locale, found := spelled(text); found {
		return Unclear, locale
	}
	if locale, caught := doubtful(body, text); caught && (score > surelyOrdinary || saysOnlyNotThem(body)) {
		return Unclear, locale
	}
	if !asksOtherwise(own) && like(body, text, score, likeARevocation) {
		return Unclear, Locale(languages.Guess(letters.Words(own)))
	}
	return NoWish, English
}

// asksOtherwise reports whether the model is not asked: who asks for a person gets one, who reads what was meant, and "keep sending me
// texts" has the words of a revocation and is none.
func asksOtherwise(text string) bool { return human.Asked(text, nil) || reading.Affirmed(text) }

// like reports whether a score is above a bound, and the rules know no better: "no more reminders, please" is about these alone.
func like(body, text string, score, bound float64) bool {
	sure := score > surelyARevocation || !negated.MatchString(text) && !plain.MatchString(text)
	return score > bound && sure && !PreferencesOf(body).Any()
}

// Bounds of reading.Revocation, chosen by models that were made without the texts that they then read.
const (
	likeARevocation   = -0.19
	surelyARevocation = 3  // whatever the rules say of a "don't stop" in it: "I'll block you if you don't stop"
	surelyOrdinary    = -1 // for words that may revoke

	sentenceLikeOne = 1   // of a sentence among others
	clauseLikeOne   = 2.5 // of a part of a sentence
	clauseWords     = 3   // fewer may be of one thought with the next: "stop and think"
)

var (
	sentences = regexp.MustCompile(`[.!?…]+(?:\s+|$)|\n+|\s+[-–—~]+\s*\p{Lu}\p{L}+$`) // the last is a name at the end: "- Bob"
	clauses   = regexp.MustCompile(`(?i)[.!?…,;:]+(?:\s+|$)|\n+|\s+(?:` + strings.Join(together.Lines("joint"), "|") + `)\s+`)
)

// wishOfSentences reads the sentences of a text one by one, and then its clauses. A keyword alone in a sentence is unclear: "ok. END".
func wishOfSentences(body string) (Wish, Locale) {
	if asksOtherwise(reading.Normalise(body)) {
		return NoWish, English
	}
	for _, part := range sentences.Split(body, -1) {
		if _, locale := keywords(part); Classify(part, OptedIn) == OptOut {
			return Unclear, locale
		}
		if wish, locale := wishOfPart(part, sentenceLikeOne); wish != NoWish {
			return wish, locale
		}
	}
	for _, part := range clauses.Split(body, -1) {
		if len(strings.Fields(part)) < clauseWords {
			continue
		}
		if wish, locale := wishOfPart(part, clauseLikeOne); wish != NoWish {
			return wish, locale
		}
	}
	return NoWish, English
}

// wishOfPart asks the model.
func wishOfPart(part string, bound float64) (Wish, Locale) {
	own := reading.Normalise(part)
	score := reading.Revocation.Score(own)
	if score <= bound {
		return NoWish, English
	}
	if _, text := partsOf(part); !like(part, text, score, bound) {
		return NoWish, English
	}
	return Unclear, Locale(languages.Guess(letters.Words(own)))
}

// rules are the patterns of one language over folded words. They are regular expressions, so that they take linear time for every message.
type rules struct {
	locale                            Locale
	joints                            []string
	clear, unclear, doubtful, notThem languages.Pattern
}

var allRules = func() (all []rules) {
	for _, l := range append(slices.Clone(languages.All()), languages.Others()) {
		all = append(all, rules{
			locale: Locale(l.Locale), joints: l.Lines("joint"),
			clear:    l.Regexp(`^{polite}(?:{clear}{thanks}|{clear-no}{again})$`),
			unclear:  l.Regexp(` {unclear}|(?:^|,) {unclear-begin}|(?:^|,) {polite}{unclear-clause}{thanks} (?:,|$)`),
			doubtful: l.Regexp(` {doubt} | {doubt-end}{thanks} (?:,|$)|(?:^|,) {polite}{doubt-clause}{thanks} (?:,|$)`),
			notThem:  l.Regexp(`(?:^|[^\pL\pM\pN])(?i:{not-them})` + capital),
		})
	}
	return all
}()

// What is read in every language at once: a person may mix them.
var (
	together  = languages.Together()
	negated   = together.Regexp(` {negated} `)
	plain     = together.Regexp(`^ (?:{courtesy} )?(?:{plain-no}|{plain})(?:[ ,\d]| {courtesy})* $`)
	untilThen = together.Regexp(` {until} `)
	qualified = together.Regexp(` {qualifier} `)
)

// byRules asks the rules of every language, and returns the surest of their answers.
func byRules(parts [][]string, text string) (Wish, Locale) {
	var before [][]string // what is said for a time
	if at := untilThen.FindStringIndex(text); at != nil {
		before, _ = partsOf(text[:at[0]])
	}
	found, locale := NoWish, English
	for _, r := range allRules {
		said := slices.ContainsFunc(r.clausesOf(parts), r.clear.MatchString)
		switch {
		case said && !qualified.MatchString(text):
			return Clear, r.locale
		case found != NoWish:
		case said, slices.ContainsFunc(r.clausesOf(before), r.clear.MatchString), r.unclear.MatchString(negated.ReplaceAllString(text, " ")):
			found, locale = Unclear, r.locale
		}
	}
	return found, locale
}

// partsOf cuts a text where its punctuation does, and folds what is between: the words, and the forms of not as one word each. It also
// gives the whole text back so, with a comma for the punctuation.
func partsOf(body string) (parts [][]string, text string) {
	var all []string
	for _, part := range strings.FieldsFunc(elided.ReplaceAllString(body, "$1$2$3"), punctuates) {
		if folded := slices.DeleteFunc(contracted(letters.Words(part)), strengthens); len(folded) > 0 {
			parts, all = append(parts, folded), append(all, strings.Join(folded, " "))
		}
	}
	return parts, " " + strings.Join(all, " , ") + " "
}

// elided is a short word with an apostrophe before the word that it belongs to: "n'envoyez". People write it without one, too.
var elided = regexp.MustCompile(`(?i)(^|[^\pL\pM])([cdjlmnst]|qu)['’](\pL)`)

// clausesOf cuts the parts of a text where words of the language begin another thought.
func (r rules) clausesOf(parts [][]string) (clauses []string) {
	for _, words := range parts {
		for len(words) > 0 {
			n := slices.IndexFunc(words, func(word string) bool { return slices.Contains(r.joints, word) })
			if n < 0 {
				n = len(words)
			}
			if n > 0 {
				clauses = append(clauses, strings.Join(words[:n], " "))
			}
			words = words[min(n+1, len(words)):]
		}
	}
	return clauses
}

// punctuates tells the marks between thoughts from those within a word.
func punctuates(r rune) bool {
	return r == '\n' || (unicode.IsPunct(r) && !strings.ContainsRune("'’‘-‐‑_&", r))
}

// strengthens tells a word that only makes the next one stronger.
func strengthens(word string) bool { return slices.Contains(together.Lines("stronger"), word) }

// contracted puts together what an apostrophe has torn apart, and writes the forms of "not" alike: don't, do not and dont are
// one word.
func contracted(text []string) []string {
	var out []string
	for _, word := range text {
		last := len(out) - 1
		switch {
		case last < 0:
		case word == "t" && strings.HasSuffix(out[last], "n"), word == "not" && (out[last] == "do" || out[last] == "can"):
			out[last] = strings.TrimSuffix(strings.TrimSuffix(out[last], "n"), "t") + "nt"
			continue
		case word == "m" || word == "d" || word == "s" || word == "re" || word == "ve" || word == "ll":
			out[last] += word
			continue
		}
		if word == "cannot" {
			word = "cant"
		}
		out = append(out, word)
	}
	return out
}
