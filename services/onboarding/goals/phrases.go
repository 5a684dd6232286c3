package goals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/words"
)

// ErrWords is a file of goal words that cannot be used.
var ErrWords = errors.New("goal words refused")

// Bounds of a file of goal words.
const (
	maxPerLocale  = 20
	maxLetters    = 60 // of one
	fewestLetters = 3  // of one: fewer begin ordinary messages
)

// Words are the beginnings of a text that says a goal, in every language at once, as keywords are. The zero value has none; DefaultWords
// and ParseWords make one, and it never changes.
type Words struct{ begins [][]string } // folded, the longest first

// leads may stand before goal words: "could you please remind me".
var leads = sync.OnceValue(func() Words { return wordsFrom("goal-lead") })

// DefaultWords returns those without GOAL_WORDS_FILE.
func DefaultWords() Words { return wordsFrom("goal", "goal-ask") }

func wordsFrom(keys ...string) Words {
	var lines []string
	for _, l := range languages.All() {
		for _, key := range keys {
			lines = append(lines, l.Lines(key)...)
		}
	}
	return begins(lines)
}

func begins(phrases []string) (w Words) {
	for _, phrase := range phrases {
		w.begins = append(w.begins, strings.Fields(phrase))
	}
	w.sort()
	return w
}

// sort puts the longest first.
func (w Words) sort() {
	slices.SortStableFunc(w.begins, func(a, b []string) int { return len(b) - len(a) })
}

// ParseWords reads a file of goal words: an object of lists by locale. Every problem is reported at once, each wrapping ErrWords.
func ParseWords(file []byte) (Words, error) {
	var lists map[string][]string
	decoder := json.NewDecoder(bytes.NewReader(file))
	if err := decoder.Decode(&lists); err != nil {
		return Words{}, fmt.Errorf("%w: it must be an object of lists of words by locale: %w", ErrWords, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Words{}, fmt.Errorf("%w: something follows the object", ErrWords)
	}
	var words Words
	var problems []error
	refuse := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrWords}, args...)...))
	}
	if len(lists) == 0 {
		refuse("there is no locale in it")
	}
	for _, locale := range slices.Sorted(maps.Keys(lists)) {
		switch n := len(lists[locale]); {
		case !aLocale.MatchString(locale):
			refuse("%.20q is no locale, such as en or pt-BR", locale)
		case n == 0, n > maxPerLocale:
			refuse("%s has %d words; it may have 1 to %d", locale, n, maxPerLocale)
		}
		for _, word := range lists[locale] {
			begin := letters.Words(word)
			if problem := words.problem(word, begin); problem != "" {
				refuse("%.60q of %s %s", word, locale, problem)
				continue
			}
			words.begins = append(words.begins, begin)
		}
	}
	words.sort()
	if err := errors.Join(problems...); err != nil {
		return Words{}, err
	}
	return words, nil
}

var (
	aLocale = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z]{2,4})?$`)
	stops   = languages.PhrasesOf("stop")
)

// problem returns the fault of a word, as the end of a sentence; empty when there is none.
func (w Words) problem(word string, begin []string) string {
	folded := strings.Join(begin, " ")
	switch letters := len([]rune(strings.Join(begin, ""))); {
	case letters < fewestLetters:
		return fmt.Sprintf("has fewer than %d letters", fewestLetters)
	case len([]rune(word)) > maxLetters:
		return fmt.Sprintf("has more than %d characters", maxLetters)
	case stops.Read(word) != nil:
		return "means STOP"
	case Undoes(folded):
		return "undoes a goal"
	case slices.ContainsFunc(w.begins, func(other []string) bool { return slices.Equal(other, begin) }):
		return "is there twice"
	}
	return ""
}

// String lists them, folded.
func (w Words) String() string {
	var all []string
	for _, begin := range w.begins {
		all = append(all, strings.Join(begin, " "))
	}
	return strings.Join(all, ", ")
}

// After returns what a message says after its goal words, as it was written. Case, diacritics, punctuation and polite words before them are
// set aside.
func (w Words) After(message string) (said string, found bool) {
	for rest, led := message, true; led; rest, led = leads().after(rest) {
		if said, found := w.after(rest); found {
			return said, true
		}
	}
	return "", false
}

func (w Words) after(message string) (said string, found bool) {
	words, ends := wordsOf(message)
	for _, begin := range w.begins {
		if len(begin) <= len(words) && slices.Equal(words[:len(begin)], begin) {
			return strings.TrimFunc(message[ends[len(begin)-1]:], func(r rune) bool {
				return unicode.IsSpace(r) || strings.ContainsRune(`,;:-–—`, r)
			}), true
		}
	}
	return "", false
}

// wholes are goal words that say what is to be done: "wake me up".
var wholes = begins(words.Together().Lines("goal-whole"))

// whole returns what a message says after its goal words, or with them where they say themselves what is to be done.
func (w Words) whole(message string) (said string, found bool) {
	for rest, led := message, true; led; rest, led = leads().after(rest) {
		if _, is := wholes.after(rest); is {
			_, found = w.after(rest)
			return strings.TrimSpace(rest), found
		}
	}
	return w.After(message)
}

// reminder is a goal as its reminder says it: "call John" of "remind me to call John", which a goal from elsewhere may say.
func (w Words) reminder(goal string) string {
	if said, found := w.After(goal); found && spoken(said) != "" {
		return spoken(said)
	}
	return goal
}

var defaultWords = sync.OnceValue(DefaultWords)

// asksNothing reports whether a goal without its words of time says nothing to do: it is empty, or asks for a reminder of nothing.
// By text the words that ask were taken out, too. A sign is something, such as an emoji.
func asksNothing(goal string, source Source) bool {
	if source != SourceText {
		if said, found := defaultWords().whole(goal); found {
			goal = spoken(said)
		}
	}
	return strings.TrimFunc(goal, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) }) == ""
}

// wordsOf is letters.Words with where each word ends.
func wordsOf(message string) (words []string, ends []int) {
	begin := -1
	end := func(at int) {
		if begin >= 0 {
			if word := letters.Words(message[begin:at]); len(word) > 0 {
				words, ends = append(words, word[0]), append(ends, at)
			}
		}
		begin = -1
	}
	for at, r := range message {
		switch part := letters.InWord(r) || unicode.Is(unicode.Cf, r); {
		case !part:
			end(at)
		case begin < 0:
			begin = at
		}
	}
	end(len(message))
	return words, ends
}

// undo is the part that a message asks to take back.
type undo int

const (
	noUndo       undo = iota
	undoLast          // what was said last, which may be something else than a goal
	undoIt            // what we have just spoken of: "cancel that"
	undoReminder      // a reminder, by name
	undoNamed         // one of several, by its time or its text: "cancel the gym one"
)

// takesBack must be all that a message says, with courtesies around it. CANCEL alone is STOP.
var takesBack = words.Together().Regexp(`^(?:{undo-polite} )*{undo}(?: {undo-thanks})*$`)

// takesIt takes back what was just confirmed, and is an ordinary message elsewhere: "nevermind".
var takesIt = words.Together().Regexp(`^(?:{undo-polite} )*(?:{undo-it})(?: {undo-thanks})*$`)

// Undoes reports whether a message takes a goal back, if there is one.
func Undoes(message string) bool { return undoOf(message) != noUndo }

// undoOf reads what a message asks to take back, in every language at once.
func undoOf(message string) undo {
	said := strings.Join(letters.Words(message), " ")
	if takesBack.MatchString(said) {
		return undoLast
	}
	if takesIt.MatchString(said) {
		return undoIt
	}
	switch reading.TakesBack(message) {
	case reading.TakesIt:
		return undoIt
	case reading.TakesReminder:
		return undoReminder
	case reading.TakesNothing:
	}
	if whichOf(message) != "" {
		return undoNamed
	}
	return noUndo
}

// joins is a word between "remind me" and what is to be done, wherever the time stood.
var joins = words.Together().Regexp(`(?i)^{goal-join}(?:\s+|$)`)

// spoken is a goal that was said by text without the words that join it to "remind me"; empty when nothing is left of it.
func spoken(goal string) string {
	goal = strings.TrimSpace(joins.ReplaceAllString(strings.TrimSpace(goal), ""))
	if !strings.ContainsFunc(goal, unicode.IsLetter) && !strings.ContainsFunc(goal, unicode.IsDigit) {
		return ""
	}
	return goal
}
