package when

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"paceline.internal/platform/letters"
)

// token is a word, a number or a mark of a text.
type token struct {
	text       string // in lower case and without accents
	start, end int    // bytes of the original
	glued      bool   // nothing stands between it and the token before
	kind       tokenKind
	accent     bool
	capital    bool
}

type tokenKind int

const (
	word tokenKind = iota
	digits
	mark
)

// cut cuts a text into tokens.
func cut(text string) []token {
	var tokens []token
	var last tokenKind
	open := false // the last token can grow
	for at, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[at:])
		}
		kind := mark
		switch {
		case unicode.IsSpace(r) || r == 0x200b || r == 0xfeff:
			open = false
			continue
		case r >= '0' && r <= '9':
			kind = digits
		case unicode.IsLetter(r) && r != 'ª' && r != 'º' || unicode.Is(unicode.Mn, r):
			kind = word
		case (r == '\'' || r == '’') && open && last == word && letterAt(text, at+size):
			kind, r = word, '\''
		}
		plain, accent := fold(r)
		if open && kind == last && kind != mark {
			grown := &tokens[len(tokens)-1]
			grown.text += plain
			grown.end = at + size
			grown.accent = grown.accent || accent
			continue
		}
		glued := len(tokens) > 0 && tokens[len(tokens)-1].end == at
		tokens = append(tokens, token{
			text: plain, start: at, end: at + size, glued: glued, kind: kind, accent: accent, capital: unicode.IsUpper(r),
		})
		open, last = true, kind
	}
	return tokens
}

func letterAt(text string, at int) bool {
	r, _ := utf8.DecodeRuneInString(text[at:])
	return unicode.IsLetter(r)
}

// fold returns a letter in lower case without its accent, a dash as a hyphen, and whether it was another character than in lower case.
func fold(r rune) (string, bool) {
	lower := unicode.ToLower(r)
	switch {
	case unicode.Is(unicode.Mn, r):
		return "", true
	case strings.ContainsRune("–—−", r):
		return "-", true
	case unicode.IsLetter(r) && r != 'ª' && r != 'º':
		if plain := letters.Fold(r); plain >= 0 {
			return string(plain), plain != lower
		}
		return "", true
	}
	return string(lower), false
}

// item is what the vocabulary makes of one token or of several.
type item struct {
	entry

	from, to int // tokens
	token        // the first, from its start to the end of the last
}

func (i *item) is(c class) bool { return i.class&c != 0 }

// plain is a word that the vocabulary does not know.
func (i *item) plain() bool { return i.class == 0 && i.kind == word }

// items finds the longest entries of the vocabulary in a row of tokens. A hyphen inside of an entry is as good as a space.
func (l *language) items(tokens []token) []item {
	var items []item
	for at := 0; at < len(tokens); {
		found, to := entry{}, at+1
		for node, i := l.words, at; i < len(tokens); i++ {
			t := &tokens[i]
			next := node.next[t.text]
			if next == nil && t.text == "-" && i > at && i+1 < len(tokens) && t.glued && tokens[i+1].glued {
				continue
			}
			if next == nil || t.kind == digits && t.text == "" {
				break
			}
			node = next
			if node.entry.class != 0 {
				found, to = node.entry, i+1
			}
		}
		it := item{entry: found, from: at, to: to, token: tokens[at]}
		it.end = tokens[to-1].end
		for _, t := range tokens[at:to] {
			it.accent = it.accent || t.accent
		}
		if it.kind == digits && found.class == 0 {
			it.class, it.num = number, value(it.text)
		}
		if base, ok := strings.CutSuffix(it.text, "'s"); ok && found.class == 0 {
			if node := l.words.next[base]; node != nil && node.entry.class&(dayWord|weekday|passed|tonight) != 0 {
				it.class = possessive
			}
		}
		if it.class == nothing {
			it.class = 0
		}
		items = append(items, it)
		at = to
	}
	return items
}

// value is the value of a row of digits, -1 for one that no time has.
func value(digits string) int {
	if len(digits) > 5 {
		return -1
	}
	n := 0
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return n
}

// Subsequence reports whether the words of a goal are words of the text in their order, whatever stands between and around them.
func Subsequence(goal, text string) bool {
	rest := bare(text)
	for _, want := range bare(goal) {
		found := false
		for i, have := range rest {
			if have == want {
				rest, found = rest[i+1:], true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// bare are the words of a text without the marks around them.
func bare(text string) []string {
	var words []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return unicode.IsSpace(r) || r == 0x200b || r == 0xfeff ||
			parting(r)
	}) {
		if word = strings.TrimFunc(word, around); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// parting is a mark that parts words without a space.
func parting(r rune) bool { return strings.ContainsRune(",;!?()[]{}\"“”…", r) }

// around is a mark that is no part of a word: what is written "12%" or "#3" is not "12" or "3".
func around(r rune) bool { return strings.ContainsRune(".,;:!?()[]{}<>\"'“”‘’-–—…", r) }
