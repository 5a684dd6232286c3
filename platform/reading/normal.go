// Package reading prepares what people write for those who read it: it brings letters into one form, takes out what is not the person's,
// and measures how much a text is like a revocation, or like a refusal.
package reading

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"paceline.internal/platform/letters"
)

// Normalise brings a text into the form that is read: lower case, no accents, letters that look like Latin ones as those, one kind of
// quotation marks, nothing invisible, at most two of a letter in a row, single spaces. What is stored and shown stays as it was written.
func Normalise(text string) string {
	var out strings.Builder
	var last rune
	run := 0
	for _, r := range norm.NFKD.String(strings.ToValidUTF8(text, "\uFFFD")) { // NFKD leaves what follows a byte that is no letter
		r = looksLike(letters.Fold(looksLike(r))) // some look like one in lower case alone
		if r < 0 {
			continue
		}
		if unicode.IsSpace(r) {
			r = ' '
		}
		if r == last {
			run++
		} else {
			last, run = r, 1
		}
		if run > 2 && unicode.IsLetter(r) || r == ' ' && run > 1 {
			continue
		}
		out.WriteRune(r)
	}
	return strings.TrimSpace(out.String())
}

// looksLike returns the Latin letter that a person reads in r: of the letters in frames, and of lookAlikes (Unicode TR 39).
func looksLike(r rune) rune {
	switch {
	case r >= '🄰' && r <= '🅉':
		return 'a' + r - '🄰'
	case r >= '🅐' && r <= '🅩':
		return 'a' + r - '🅐'
	case r >= '🅰' && r <= '🆉':
		return 'a' + r - '🅰'
	}
	if l, ok := lookAlikes[r]; ok {
		return l
	}
	return r
}

// lookAlikes has each character before the Latin one that it looks like: small capitals, Cyrillic, Greek, others, and marks.
var lookAlikes = pairs(
	"ᴀaʙbᴄcᴅdᴇeꜰfɢgʜhɪiᴊjᴋkʟlᴍmɴnᴏoᴘpʀrꜱsᴛtᴜuᴠvᴡwʏyᴢz" +
		"аaеeоoрpсcуyхxіiјjѕsԁdԛqԝwкkмmтtнhвbАaВbЕeКkМmНhОoРpСcТtУyХxІiЈjЅs" +
		"αaεeιiκkνvοoρpτtυuχxωwσoΑaΒbΕeΖzΗhΙiΚkΜmΝnΟoΡpΤtΥyΧx" +
		"ıiłløođdħhŧtɑaɡgℓl$s" + "’'‘'ʼ'´'`'“\"”\"„\"«\"»\"‹'›'–-—-")

func pairs(of string) map[rune]rune {
	all := []rune(of)
	found := make(map[rune]rune, len(all)/2)
	for i := 0; i+1 < len(all); i += 2 {
		found[all[i]] = all[i+1]
	}
	return found
}
