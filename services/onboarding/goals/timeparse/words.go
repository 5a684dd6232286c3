package timeparse

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"paceline.internal/platform/reading"
)

// word is a word, a row of digits or a mark of a text.
type word struct {
	text       string // as reading.Normalise has it
	start, end int    // bytes of the original
	glued      bool   // nothing stands between it and the word before
	kind       rune   // 'a' for letters, '0' for digits, else the mark itself
	accent     bool
	capital    bool
}

// cut cuts a text into words.
func cut(text string) []word {
	var words []word
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		kind, end := kindOf(r), at+size
		for kind == 'a' || kind == '0' {
			next, size := utf8.DecodeRuneInString(text[end:])
			behind, _ := utf8.DecodeRuneInString(text[end+size:])
			apostrophe := strings.ContainsRune("'’", next) && unicode.IsLetter(behind)
			if size == 0 || kindOf(next) != kind && (kind != 'a' || !apostrophe && !unicode.Is(unicode.Mn, next)) {
				break
			}
			end += size
		}
		w := word{text: string(kind), start: at, end: end, kind: kind, glued: len(words) > 0 && words[len(words)-1].end == at}
		if kind == 'a' || kind == '0' {
			w.text = reading.Normalise(text[at:end])
			w.capital = unicode.IsUpper(r)
			w.accent = strings.ToLower(text[at:end]) != w.text
		}
		if kind != ' ' {
			words = append(words, w)
		}
		at = end
	}
	return words
}

func (w *word) alphanumeric() bool { return w.kind == 'a' || w.kind == '0' }

func kindOf(r rune) rune {
	switch {
	case unicode.IsSpace(r) || unicode.Is(unicode.Cf, r):
		return ' '
	case unicode.IsDigit(r):
		return '0'
	case unicode.IsLetter(r) && r != 'ª' && r != 'º':
		return 'a'
	case strings.ContainsRune("–—−", r):
		return '-'
	}
	return r
}

// infinitive finds what is done, of which Portuguese has more than a list could.
var infinitive = regexp.MustCompile(`.[aei]r$`)

// item has one word, or several that the vocabulary knows together, with its classes.
type item struct {
	entry
	word

	digits int // how many, where it is a number in figures
}

// items finds the longest entries of the vocabulary in a row of words, with an item for each space between them.
func (l *language) items(words []word) []item {
	items := make([]item, 0, 2*len(words))
	for at := 0; at < len(words); {
		it, to := l.longest(words, at)
		if at > 0 && !it.glued {
			items = append(items, item{entry: entry{code: ' '}, word: word{start: it.start, end: it.start}})
		}
		items = append(items, it)
		at = to
	}
	return items
}

// longest returns the longest entry at a word, and the word after it. A hyphen inside of an entry is as good as a space.
func (l *language) longest(words []word, at int) (item, int) {
	it := item{word: words[at]}
	to, phrase := at+1, ""
	for i := at; i < min(len(words), at+l.longestPhrase); i++ {
		if words[i].kind == '-' && words[i].glued && i > at {
			continue
		}
		phrase = strings.TrimPrefix(phrase+" "+words[i].text, " ")
		if found, ok := l.words[phrase]; ok {
			it.entry, it.text, to = found, phrase, i+1
		} else if !l.begins[phrase] {
			break
		}
	}
	it.end = words[to-1].end
	for _, w := range words[at+1 : to] {
		it.accent = it.accent || w.accent
	}
	switch {
	case it.code == 0 && it.kind == '0':
		it.figures()
	case it.code == 0 && it.kind == 'a' && !l.english && !it.capital && infinitive.MatchString(it.text):
		it.code, it.classes = '_', verb
	case it.code == 0 && it.kind == 'a', it.code == 'H' && it.capital && len(it.text) == 2: // "call HR"
		it.code = '_'
	case it.code == 0:
		it.code = min(it.text[0], '~')
	case it.code == 'x' && it.accent: // "às"
		it.code = '@'
	case it.code == '&' && it.accent: // "é"
		it.code, it.classes = '_', clause
	}
	return it, to
}

// figures gives a row of digits its value, -1 for one that no time has, and a code by its length.
func (it *item) figures() {
	it.digits = len(it.text)
	it.code = "12349"[min(it.digits, 5)-1]
	var err error
	if it.value, err = strconv.Atoi(it.text); err != nil || it.digits > 5 {
		it.value, it.code = -1, '9'
	}
}
