package letters

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Fold returns a character in lower case and without its accents, -1 for an accent that comes apart and for what shows nothing. The
// full-width letters and signs of East Asian keyboards are the plain ones. The vowel signs of Hindi or Thai are no accents, and stay.
func Fold(r rune) rune {
	if r >= '！' && r <= '～' { // the full-width forms of ASCII, in its order
		r -= '！' - '!'
	}
	r = unicode.ToLower(r)
	switch {
	case r <= unicode.MaxASCII:
		return r
	case accent(r), unicode.In(r, unicode.Me, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point):
		return -1
	}
	base := r
	for i, part := range norm.NFD.String(string(r)) {
		switch {
		case i == 0:
			base = part
		case !accent(part): // the parts of Hangul, and marks that make another letter: が is not か
			return r
		}
	}
	return base
}

// accent reports whether a mark may be left out and the word stays the same, as with é and with the points of Arabic and Hebrew.
func accent(r rune) bool {
	voices := r == '\u3099' || r == '\u309a' // of Japanese
	return unicode.Is(unicode.Mn, r) && !voices &&
		unicode.In(r, unicode.Inherited, unicode.Greek, unicode.Cyrillic, unicode.Hebrew, unicode.Arabic, unicode.Syriac)
}

// InWord reports whether a character is part of a word: a letter, a digit, or a mark of one.
func InWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// Words returns the runs of letters, with their marks, and digits of a text, folded.
func Words(text string) []string {
	return strings.FieldsFunc(strings.Map(Fold, Compose(text)), func(r rune) bool { return !InWord(r) })
}

// Leading returns the longest phrase of at most longest words that begins the words and is known, with single spaces, and its length in
// words; nothing where there is none.
func Leading(words []string, longest int, known func(phrase string) bool) (phrase string, length int) {
	for length := min(longest, len(words)); length > 0; length-- {
		if phrase := strings.Join(words[:length], " "); known(phrase) {
			return phrase, length
		}
	}
	return "", 0
}
