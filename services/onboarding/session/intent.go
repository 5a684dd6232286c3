package session

import (
	"strings"
	"unicode"
)

// Intent is what a reply asks of the conversation.
type Intent int

// The intents.
const (
	// Advance goes on: whatever is positive, neutral, ambiguous, unreadable or empty.
	Advance Intent = iota
	// Pause waits: an explicit negative and nothing else.
	Pause
)

// IntentOf reads a reply in any language at once. Only a message that consists of listed negatives, repeated or with
// thanks and please, in any case and with any punctuation or emoji, pauses: "No, thanks!" and "não, obrigada" do;
// "no problem" and "maybe later today" go on. No person is left waiting because we did not understand.
func IntentOf(message string) Intent {
	intent := Advance
	for rest := Words(message); len(rest) > 0; {
		p, length := leading(rest)
		switch p {
		case ordinary:
			return Advance
		case negative:
			intent = Pause
		case courtesy:
		}
		rest = rest[length:]
	}
	return intent
}

// phrase is what one or more words mean on their own.
type phrase int

const (
	ordinary phrase = iota
	negative
	courtesy
)

// meaning holds the phrases as Words makes them: lower case, without diacritics, single spaces.
func meaning(s string) phrase {
	switch s {
	case "later", "no", "not now", "nope", "nah", "not yet",
		"depois", "mais tarde", "outra hora", "nao", "naum", "n", "agora nao", "nao agora", "por enquanto nao", "ainda nao":
		return negative
	case "please", "pls", "plz", "thanks", "thank you", "thank u", "thx", "ty",
		"thanks a lot", "thanks so much", "thank you so much", "thank you very much",
		"por favor", "pfv", "obrigado", "obrigada", "muito obrigado", "muito obrigada", "obg", "valeu", "vlw":
		return courtesy
	}
	return ordinary
}

// longestPhrase is the number of words of the longest phrase in meaning.
const longestPhrase = 4

// leading is the longest known phrase at the beginning of the message, and its length in words.
func leading(message []string) (phrase, int) {
	for length := min(longestPhrase, len(message)); length > 0; length-- {
		if p := meaning(strings.Join(message[:length], " ")); p != ordinary {
			return p, length
		}
	}
	return ordinary, 0
}

// Words are the runs of letters and digits of a message in lower case, without diacritics and invisible characters.
func Words(message string) []string {
	return strings.FieldsFunc(strings.Map(fold, message), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// fold lower-cases, takes the diacritics off the letters that the phrases use, composed or as combining marks, and
// drops invisible characters.
func fold(r rune) rune {
	switch r = unicode.ToLower(r); r {
	case 'á', 'à', 'â', 'ã':
		return 'a'
	case 'é', 'ê':
		return 'e'
	case 'í':
		return 'i'
	case 'ó', 'ô', 'õ':
		return 'o'
	case 'ú', 'ü':
		return 'u'
	case 'ç':
		return 'c'
	}
	if unicode.In(r, unicode.Mn, unicode.Cf) {
		return -1
	}
	return r
}
