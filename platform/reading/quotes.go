package reading

import (
	"slices"
	"strings"
	"unicode"

	"paceline.internal/platform/letters"
)

const (
	// fewestQuoted is the fewest words of one of our messages that count as repeated. A person may say fewer by chance.
	fewestQuoted = 6
	// shortestRun is the fewest words in a row that count as repeated.
	shortestRun = 3
)

// WithoutQuoted returns what is left of a text when the messages are taken out that it repeats, as it was written: those of which it has
// more than two thirds of the words, in runs. A text that repeats none stays as it is. What is left may be empty.
func WithoutQuoted(text string, sent []string) string {
	for _, message := range sent {
		said, theirs := placed(text), placed(message)
		if len(theirs) < fewestQuoted {
			continue
		}
		runs := repeated(said, theirs)
		length := 0
		for _, r := range runs {
			length += r.length
		}
		if 3*length <= 2*len(theirs) {
			continue
		}
		for _, r := range slices.Backward(runs) {
			before, after := text[:said[r.at].begin], text[said[r.at+r.length-1].end:]
			text = strings.TrimRightFunc(before, marksQuote) + "\n" + strings.TrimLeftFunc(after, unicode.IsPunct)
		}
		text = strings.TrimSpace(text)
		if !hasWord(Normalise(text)) {
			return ""
		}
	}
	return text
}

func marksQuote(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"“„«>'‘`, r) }

// place is a word in its normal form, and where the text has it.
type place struct {
	word       string
	begin, end int
}

// placed returns the words of a text with their places.
func placed(text string) (words []place) {
	begin := -1
	end := func(at int) {
		if begin < 0 {
			return
		}
		if word := strings.ReplaceAll(Normalise(text[begin:at]), "'", ""); word != "" {
			words = append(words, place{word, begin, at})
		}
		begin = -1
	}
	for at, r := range text {
		switch inWord := letters.InWord(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune("'’", r); {
		case !inWord:
			end(at)
		case begin < 0:
			begin = at
		}
	}
	end(len(text))
	return words
}

// run has some words in a row.
type run struct{ at, length int }

// repeated returns the runs of said that are in theirs, too, in the same order: the longest one, and those before and after it.
func repeated(said, theirs []place) []run {
	if len(said) < shortestRun || len(theirs) < shortestRun {
		return nil
	}
	var longest run
	from := 0 // of it in theirs
	lengths := make([]int, len(theirs)+1)
	for i := range said {
		for j, w := range slices.Backward(theirs) { // so that lengths[j] is still that of the word before
			if said[i].word != w.word {
				lengths[j+1] = 0
				continue
			}
			lengths[j+1] = lengths[j] + 1
			if n := lengths[j+1]; n > longest.length {
				longest, from = run{i + 1 - n, n}, j+1-n
			}
		}
	}
	if longest.length < shortestRun {
		return nil
	}
	end := longest.at + longest.length
	runs := append(repeated(said[:longest.at], theirs[:from]), longest)
	for _, r := range repeated(said[end:], theirs[from+longest.length:]) {
		runs = append(runs, run{r.at + end, r.length})
	}
	return runs
}
