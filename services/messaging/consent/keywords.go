package consent

import (
	"slices"

	"paceline.internal/platform/letters"
)

// Version names this keyword pack in the ledger, so that an old event can be read by the words of its day. It
// changes with every change to the words below or to the matching.
const Version = "2026-11-27.1"

// Classify says what a text does to the consent of a person who is in state current. The whole message must be the
// keyword, after case, diacritics, spacing, punctuation and emoji are set aside: "STOP!!" and "Opt-out" are, "stop it"
// and "vou sair hoje" are not. An opt-out or a call for help may be repeated and may say please or thanks; consent is
// never read out of more than the bare word.
func Classify(body string, current State) Effect {
	found, _ := keywords(letters.Words(body))
	bare := len(found) == 1
	switch {
	case slices.Contains(found, stop):
		return OptOut // also in "yes, stop": an opt-out is never argued away
	case slices.Contains(found, start) && bare:
		return OptIn
	case slices.Contains(found, restore) && bare && current == OptedOut:
		return OptIn
	case slices.Contains(found, help) && !slices.Contains(found, start) && !slices.Contains(found, restore):
		return Help
	}
	return None
}

// keyword is what one phrase means on its own.
type keyword int

const (
	ordinary keyword = iota
	stop
	start
	restore
	help
	courtesy
)

// meaning holds every language at once: a person may write STOP in any of them. A phrase is written as letters.Words makes
// it: lower case, without diacritics, single spaces, a hyphen or an apostrophe as a space. The language of the phrase is
// the one that the person is answered in.
func meaning(phrase string) (keyword, Locale) {
	switch phrase {
	// Twilio's default words and the FCC's (47 CFR 64.1200(a)(10)), their Portuguese equivalents, and a few sentences
	// that can mean nothing else. A person who is stopped by mistake can come back; the reverse mistake is unlawful.
	// Words that answer ordinary questions (no, later, chega, fim) are not here.
	case "stop", "stopall", "stop all", "unsubscribe", "end", "quit", "cancel", "revoke", "optout", "opt out",
		"unsubscribe me", "opt me out", "remove me", "stop texting me", "stop messaging me",
		"do not text me", "dont text me", "don t text me":
		return stop, English
	case "parar", "pare", "parar tudo", "pare tudo", "sair", "cancelar", "cancele", "cancelar inscricao", "encerrar",
		"descadastrar", "descadastre", "descadastro", "me descadastre", "desinscrever", "remover", "remova", "me remova",
		"pare de mandar mensagens", "pare de me mandar mensagens", "nao me mande mais mensagens",
		"nao quero receber mensagens", "nao quero mais receber mensagens":
		return stop, Portuguese
	// Consent in any state, because Twilio lifts its own block on the same two.
	case "start", "unstop":
		return start, English
	// Consent only from a person who is opted out; from any other they answer the conversation ("Ready to begin?"
	// "Começar!"). Twilio lifts its block on YES, and the two must agree. SIM is missing on purpose: Twilio does not
	// know it, and it may be a late answer to an older message.
	case "yes":
		return restore, English
	case "iniciar", "comecar", "voltar", "reativar":
		return restore, Portuguese
	case "help", "info":
		return help, English
	case "ajuda":
		return help, Portuguese
	case "please", "pls", "plz", "thanks", "thank you":
		return courtesy, English
	case "por favor", "obrigado", "obrigada":
		return courtesy, Portuguese
	}
	return ordinary, English
}

// longestPhrase is the number of words of the longest phrase in meaning.
const longestPhrase = 5

// keywords reads the message as a sequence of known phrases, the longest first, and is Portuguese if one of them is. It
// is nil, and English, when a single word of the message belongs to none.
func keywords(message []string) ([]keyword, Locale) {
	var found []keyword
	locale := English
	for len(message) > 0 {
		phrase, length := letters.Leading(message, longestPhrase, func(phrase string) bool {
			k, _ := meaning(phrase)
			return k != ordinary
		})
		if length == 0 {
			return nil, English
		}
		k, l := meaning(phrase)
		found = append(found, k)
		if l == Portuguese {
			locale = Portuguese
		}
		message = message[length:]
	}
	return found, locale
}
