package timeparse

import (
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
		kind := kindOf(r)
		end := at + size
		for ; kind == 'a' || kind == '0'; end += size {
			if r, size = utf8.DecodeRuneInString(text[end:]); size == 0 || kindOf(r) != kind && !inside(kind, text[end:], r, size) {
				break
			}
		}
		if kind != ' ' {
			w := word{start: at, end: end, kind: kind, glued: len(words) > 0 && words[len(words)-1].end == at}
			w.text = string(kind)
			if kind == 'a' || kind == '0' {
				w.text = reading.Normalise(text[at:end])
			}
			if kind == 'a' {
				first, _ := utf8.DecodeRuneInString(text[at:])
				w.capital = unicode.IsUpper(first)
				w.accent = strings.ToLower(text[at:end]) != w.text
			}
			words = append(words, w)
		}
		at = end
	}
	return words
}

// inside reports whether what begins with r goes on with a word of letters: an apostrophe before a letter, and an accent on its own.
func inside(kind rune, rest string, r rune, size int) bool {
	if kind != 'a' {
		return false
	}
	next, _ := utf8.DecodeRuneInString(rest[size:])
	return unicode.Is(unicode.Mn, r) || strings.ContainsRune("'’", r) && unicode.IsLetter(next)
}

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

// item is what the vocabulary makes of one word or of several.
type item struct {
	entry
	word

	digits int // how many, where it is a number in figures
}

// items finds the longest entries of the vocabulary in a row of words. A hyphen inside of an entry is as good as a space.
func (l *language) items(words []word) []item {
	items := make([]item, 0, 2*len(words))
	for at := 0; at < len(words); {
		it, to := l.longest(words, at)
		if it.classes == 0 && it.kind == 'a' && it.glued && len(items) > 0 && items[len(items)-1].digits > 0 {
			if first, rest, ok := l.split(it.word); ok { // "9amtomorrow"
				words[at] = rest
				it, to = first, at
			}
		}
		if at > 0 && !it.glued {
			items = append(items, item{entry: entry{code: ' '}, word: word{start: it.start, end: it.start}})
		}
		items = l.joined(append(items, it))
		at = to
	}
	return items
}

// longest returns the longest entry at a word, and the word after it.
func (l *language) longest(words []word, at int) (item, int) {
	it := item{word: words[at]}
	to, phrase := at+1, ""
	for i := at; i < len(words) && i < at+l.longestPhrase; i++ {
		w := &words[i]
		if w.kind == '-' && i > at && w.glued {
			continue
		}
		if i > at {
			phrase += " "
		}
		phrase += w.text
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
	case it.code != 0:
	case it.kind == '0':
		it.figures()
	case it.kind == 'a':
		it.code = '_'
		if base, ish := strings.CutSuffix(it.text, "ish"); ish && l.words[base].code > 0 && l.words[base].code != '_' { // "noonish"
			it.classes = vague
		}
	case it.kind < utf8.RuneSelf:
		it.code = byte(it.kind)
	default:
		it.code = '!'
	}
	if it.code == 'H' && it.capital && len(it.text) == 2 { // "call HR"
		it.code = '_'
	}
	if it.code == 'x' && it.accent {
		it.code = '@'
	}
	if it.code == '&' && it.accent { // "é" is a verb
		it.code, it.classes = '_', clause
	}
	if it.code == '_' && !l.english && !it.capital && len(it.text) > 2 && infinitive(it.text) {
		it.classes |= verb
	}
	return it, to
}

func infinitive(s string) bool {
	return strings.HasSuffix(s, "ar") || strings.HasSuffix(s, "er") || strings.HasSuffix(s, "ir")
}

// figures gives a row of digits its value and a code by its length.
func (it *item) figures() {
	it.digits = len(it.text)
	it.code = "12349"[min(it.digits, 5)-1]
	for _, d := range it.text {
		if d < '0' || d > '9' || it.digits > 5 {
			it.value, it.code = -1, '9'
			return
		}
		it.value = 10*it.value + int(d-'0')
	}
}

// split parts a word that stands behind digits after a mark of the time of day.
func (l *language) split(w word) (first item, rest word, ok bool) {
	for n := min(2, len(w.text)-1); n > 0; n-- {
		head, tail := l.words[w.text[:n]], l.words[w.text[n:]]
		if (head.code == 'A' || head.code == 'h') && tail.classes != 0 && len(w.text) == w.end-w.start {
			first = item{entry: head, word: w}
			first.end = w.start + n
			rest = w
			rest.text, rest.start = w.text[n:], first.end
			return first, rest, true
		}
	}
	return item{}, w, false
}

// joined makes one number of the words of one at the end: "twenty five", "vinte e cinco", "cento e vinte".
func (l *language) joined(items []item) []item {
	last := len(items) - 1
	if items[last].code != 'n' {
		return items
	}
	at := last - 1
	and := false
	for at >= 0 && (items[at].code == ' ' || items[at].code == '-' || items[at].code == '&' && !l.english) {
		and = and || items[at].code == '&'
		at--
	}
	if at < 0 || at == last-1 || items[at].code != 'n' || and == l.english {
		return items
	}
	tens, ones := items[at].value, items[last].value
	if tens >= 20 && tens < 100 && tens%10 == 0 && ones > 0 && ones < 10 || tens == 100 && ones > 0 && ones < 100 {
		items[at].value += ones
		items[at].end = items[last].end
		return items[:at+1]
	}
	return items
}
