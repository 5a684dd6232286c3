package flow

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/goals/timeparse"
	"paceline.internal/services/onboarding/words"
)

// Patterns of answers that name no choice, over folded words without apostrophes and courtesies, in every language at once.
var (
	spoken     = words.Together()
	agreeing   = spoken.Regexp(`^ (?:{answer-lead} )*{answer-yes} (?:{answer-lead} )*$`)
	declining  = spoken.Regexp(`^ (?:(?:{answer-lead}|{answer-regret}) )*{answer-no} (?:{answer-regret} )*$`)
	picking    = spoken.Regexp(`^ (?:(?:{answer-lead}|{pick}) )*(\d+|{cardinal}) (?:(?:{answer-lead}|{pick-tail}) )*$`)
	outOf      = spoken.Regexp(`(?i)(\d) ?(?:/|{out-of} ) ?(\d+)\b`)
	denying    = spoken.Regexp(` {denial} `)
	idioms     = spoken.Regexp(` (?:{idiom}) `)
	otherwise  = spoken.Regexp(` (?:{other-figure}) `)
	noDay      = spoken.Regexp(` (?:{no-day}) `)
	pastDay    = spoken.Regexp(` (?:{past-day}) `)
	pastParts  = spoken.Regexp(` (?:{past-part}) `)
	dayWish    = spoken.Regexp(` (?:{day-wish}) `)
	dayAside   = spoken.Regexp(` (?:{day-aside}) `)
	asksPast   = spoken.Regexp(` (?:{asks-past}) `)
	puttingOff = spoken.Regexp(` (?:{put-off}) `)
	nodding    = spoken.Regexp(`^ (?:{plain-yes} )+`)
	shaking    = spoken.Regexp(`^ {plain-nay} `)
	opening    = spoken.Regexp(`^ {clause-begin} `)
	echoing    = spoken.Regexp(`^ {clause-echo} $`)
	contrary   = spoken.Regexp(` {clause-contrary} `)
	hindered   = spoken.Regexp(` {hindrance} `)
	undoing    = spoken.Regexp(` {undoing} `)
	agreed     = spoken.Regexp(` {plain-yes} `)
	refusing   = spoken.Regexp(`^ {deny-begin} `)
	affirming  = spoken.Regexp(`^ {affirm-whole} $`)
	counting   = spoken.Regexp(` {how-many} `)
	courtesies = languages.Together().Regexp(` (?:{courtesy}|{greeting}) `)
	polite     = languages.Together().Regexp(` {courtesy} `)
	because    = strings.Join(languages.Together().Lines("joint"), "|")
	// explained is a number with its own sentence: "4, but I waited", "it was great, 5".
	explained = regexp.MustCompile(`(?i)^\s*\d+\s*(?:[.,;:!)–—-](?:\s|$)|(?:` + because + `)\s)|[.,;:!–—-]\s+\d+\s*[.!]*$`)
	// signs make a number another thing than a place: a sign, a currency, a decimal, or the French "at".
	signs = regexp.MustCompile(`[-+/%$€£~<>àÀ]|[.,]\d`)
	// elided is a word with an apostrophe in it.
	elided = regexp.MustCompile(`[\pL\pM]+'[\pL\pM]+`)
)

// bare returns the folded words of a text without courtesies, with a space at both ends.
func bare(text string) string {
	row := " " + apart(letters.Joined(text)) + " "
	return courtesies.ReplaceAllString(courtesies.ReplaceAllString(row, " "), " ") // twice, since two may share a space
}

// denials joins the denials of a text that have an apostrophe: don't is dont. Other words keep theirs: "l'apres" is two.
func denials(text string) string {
	return elided.ReplaceAllStringFunc(letters.Straight(text), func(word string) string {
		joined := letters.Joined(word)
		if reading.Declined(joined) || denying.MatchString(" "+fold(joined)+" ") {
			return joined
		}
		return word
	})
}

// denies reports whether a row of words that apart has made, with a space at both ends, has a denial: "not", "anything but".
func denies(row, locale string) bool { return reading.Negated(row, locale) || denying.MatchString(row) }

// replied reads a phrase that answers a question: yes, no or nothing.
func replied(text string) string {
	switch row := bare(text); {
	case declining.MatchString(row):
		return no
	case agreeing.MatchString(row):
		return yes
	}
	return ""
}

// plainly reads a text that only answers a question: yes, no or nothing.
func plainly(text string) string {
	switch phrase := replied(text); {
	case phrase == no, reading.Declined(text):
		return no
	case phrase == yes, reading.Agreed(text):
		return yes
	}
	return ""
}

// longestClause is the most words of a clause that says a yes or a no again. A longer one tells a story.
const longestClause = 7

// broken is a first word that a sign separates from the next one: "não, posso" is no "não posso".
var broken = regexp.MustCompile(`^[^\pL]*\pL+ ?[^\pL\pM\s']`)

// leadOf returns the yes or no that a text begins with.
func leadOf(text string) string {
	switch row := " " + apart(letters.Joined(text)) + " "; {
	case nodding.MatchString(row):
		return yes
	case shaking.MatchString(row):
		return no
	}
	return ""
}

// restated reads a yes or a no that a clause says again or explains, or that is a clause alone: "yes it does", "no, it's broken",
// "não posso". A clause that may mean the other one, or something else, leaves it unclear, and so does a question.
func restated(question string, said Said) string {
	row := polite.ReplaceAllString(" "+apart(letters.Joined(said.Text))+" ", " ")
	if l, found := words.All().Closest(said.Locale); found && l.Has("answer-letter", strings.TrimSpace(row)) {
		return yes
	}
	lead, clause := leadOf(said.Text), nodding.ReplaceAllString(shaking.ReplaceAllString(row, " "), " ")
	number := len(strings.Fields(clause))
	timed := timeparse.Read(said.Text, said.Locale, said.zone(), said.At).Kind != timeparse.None
	other := contrary.MatchString(clause) || puttingOff.MatchString(row) || idioms.MatchString(row)
	if number == 0 || number > longestClause || timed || other || strings.ContainsAny(said.Text, "?¿") || digits.MatchString(row) {
		return ""
	}
	asks := " " + fold(reading.WithoutFooters(question)) + " "
	inverse := hindered.MatchString(asks) || undoing.MatchString(asks) // "Do you want to cancel?"
	refused := refusing.MatchString(row) && !broken.MatchString(said.Text)
	switch doubtful := inverse || undoing.MatchString(clause) || agreed.MatchString(clause); { // "não vou" may mean that they cancel
	case refused && doubtful:
		return ""
	case refused:
		return no
	case lead == "" && !inverse && affirming.MatchString(row):
		return yes
	}
	return fitting(lead, clause, inverse)
}

// fitting returns the yes or no before a clause if the clause fits it. A question about what is broken or ends turns that round.
func fitting(lead, clause string, inverse bool) string {
	denied := slices.ContainsFunc(languages.All(), func(l languages.Language) bool { return denies(clause, l.Locale) })
	hinders, undoes, echoes := hindered.MatchString(clause), undoing.MatchString(clause), echoing.MatchString(clause)
	switch {
	case !echoes && !(inverse && undoes) && !opening.MatchString(clause):
	case lead == yes && !denied && (echoes || (hinders || undoes) == inverse):
		return yes
	case lead == yes, agreed.MatchString(clause), denied && undoes:
	case lead == no && !inverse && (denied || hinders), lead == no && inverse && (echoes && denied || !denied && !hinders && !undoes):
		return no
	}
	return ""
}

// placeOf reads the place, from 1, that is all that a text says: "2", "option 2 please", "two". It is 0 for any other text: "after 4" and
// "2 people" are none.
func placeOf(text string) int {
	match := picking.FindStringSubmatch(idioms.ReplaceAllString(bare(text), " "))
	if match == nil || signs.MatchString(text) {
		return 0
	}
	if n, err := strconv.Atoi(match[1]); err == nil {
		return n
	}
	for _, l := range words.All() {
		at := slices.IndexFunc(l.Lines("cardinal"), func(line string) bool { return slices.Contains(strings.Split(line, "|"), match[1]) })
		if at >= 0 {
			return at + 1
		}
	}
	return 0 // more than an int holds
}

// affirms returns the one choice that has a word of an answer, yes or no.
func (e edition) affirms(choices []string, answer string) string {
	says, plain := map[string]func(string) bool{yes: reading.Agreed, no: reading.Declined}[answer], languages.Together().Lines("aside")
	found := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool {
		return says == nil || !slices.ContainsFunc(e.words(choice), func(word string) bool {
			return slices.Contains(plain, fold(word)) && says(word)
		})
	})
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// number reads the number that a step asks for. In the answer to a scale it is a rating, and no time, length or count of other things.
func (f *Flow) number(s Step, text, locale string) (float64, bool) {
	text = letters.Straight(text)
	rates := s.Expect.rates(f.question(s, locale))
	if rates {
		text = norm.NFKC.String(text)
		if match := outOf.FindStringSubmatch(text); match != nil && match[2] == figure(s.Expect.Max) {
			text = strings.Replace(text, match[0], match[1], 1)
		}
	}
	n, ok := number(text, locale)
	around := numeral.ReplaceAllString(text, "1") // 4.5 and 0 are ratings, and no places
	return n, ok && (!rates || explained.MatchString(around) || placeOf(around) > 0)
}

// rates reports whether a question names both ends of a scale of few numbers, and asks for no count.
func (e Expect) rates(question string) bool {
	named := digits.FindAllString(norm.NFKC.String(question), -1)
	counts := counting.MatchString(" " + fold(question) + " ")
	return e.Max <= 10 && !counts && slices.Contains(named, figure(e.Min)) && slices.Contains(named, figure(e.Max))
}

// figure writes a number as short as it is read again.
func figure(n float64) string { return strconv.FormatFloat(n+0, 'f', -1, 64) } // -0 is 0
