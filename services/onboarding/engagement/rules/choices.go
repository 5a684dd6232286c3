package rules

import (
	"strconv"
	"strings"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/words"
)

// Choice is an answer to the goodbye.
type Choice int

// The choices, by the digits that the goodbye offers.
const (
	NoChoice       Choice = iota
	ChoiceConfused        // 1: begin again, with help
	ChoiceBusy            // 2: remind me later
	ChoiceAllGood         // 3: leave me alone
)

// trigger returns the trigger of a message with this choice.
func (c Choice) trigger() Trigger {
	return [...]Trigger{UserMessage, GoodbyeResponse1, GoodbyeResponse2, GoodbyeResponse3}[c]
}

// ParseChoice reads a choice: a digit, a keycap, one of the words or what the goodbye writes next to the digit, and nothing else in the
// message but spaces, a full stop or an exclamation mark, brackets, quotes and emoji. "11", "+1", "1?", "1 coffee" and "not busy" are
// none. Whether one is open is Choosable's to say.
func ParseChoice(message string) Choice {
	if strings.ContainsFunc(strings.TrimRightFunc(message, closes), refuses) {
		return NoChoice
	}
	said := strings.Join(letters.Words(strings.Map(narrow, message)), " ")
	for _, choice := range []Choice{ChoiceConfused, ChoiceBusy, ChoiceAllGood} {
		if digit := strconv.Itoa(int(choice)); said == digit || words.Together().Has("choice-"+digit, said) {
			return choice
		}
	}
	return NoChoice
}

// closes are the marks that may end a choice, and emoji with what shapes them.
func closes(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(".!！…)]\"'”’*", r) ||
		unicode.In(r, unicode.So, unicode.Sk, unicode.Mn, unicode.Me, unicode.Cf)
}

// refuses are the marks that make something else of a digit or a word: a sum, a price, a question, a list, a time.
func refuses(r rune) bool {
	return (unicode.IsPunct(r) || unicode.In(r, unicode.Sm, unicode.Sc)) && !strings.ContainsRune("([\"'“‘*", r)
}

// narrow reads the full-width letters and digits of East Asian keyboards as the plain ones.
func narrow(r rune) rune {
	if r >= '！' && r <= '～' {
		return r - '！' + '!'
	}
	return r
}
