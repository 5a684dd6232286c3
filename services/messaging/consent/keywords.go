package consent

import (
	"slices"

	"paceline.internal/platform/reading/languages"
)

// Version names the words and rules of package languages in the ledger, so that an old event can be read by the words of its day.
var Version = languages.Version()

// Classify returns the effect of a text on the consent of a person who is in state current. The whole message must be the
// keyword, after case, diacritics, spacing, punctuation and emoji are set aside: "STOP!!" and "Opt-out" are, "stop it"
// and "vou sair hoje" are not. An opt-out or a call for help may be repeated and may say please or thanks; consent is
// never read out of more than the bare word.
func Classify(body string, current State) Effect {
	found, _ := keywords(body)
	bare := len(found) == 1
	switch {
	case slices.Contains(found, "stop"):
		return OptOut // also in "yes, stop": an opt-out is never argued away
	case slices.Contains(found, "start") && bare:
		return OptIn
	case slices.Contains(found, "restore") && bare && current == OptedOut:
		return OptIn
	case slices.Contains(found, "help") && !slices.Contains(found, "start") && !slices.Contains(found, "restore"):
		return Help
	}
	return None
}

// keyPhrases are Twilio's keywords, the FCC's (47 CFR 64.1200(a)(10)), their like in other languages, and a few sentences that can mean
// nothing else. A person who is stopped by mistake can come back; the reverse mistake is unlawful. Words that answer ordinary questions
// (no, later, chega, fim) are none. Twilio lifts its own block on START, UNSTOP and YES, and the two must agree. YES restores consent only
// of a person who is out. SIM does not: Twilio does not know it, and it may be a late answer to an older message.
var keyPhrases = languages.PhrasesOf("stop", "start", "restore", "help", "courtesy")

// keywords reads the message as a row of keywords in any language, and returns them and the language. They are nil, and the language is
// English, when a single word of the message belongs to none.
func keywords(message string) (found []string, locale Locale) {
	row := keyPhrases.Read(message)
	for _, meanings := range row {
		found = append(found, meanings[0].Key)
	}
	return found, Locale(languages.Locale(row))
}
