package session

import "paceline.internal/platform/letters"

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
	for rest := letters.Words(message); len(rest) > 0; {
		phrase, length := letters.Leading(rest, longestPhrase, func(phrase string) bool { return meaning(phrase) != ordinary })
		if length == 0 {
			return Advance
		}
		if meaning(phrase) == negative {
			intent = Pause
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

// meaning holds the phrases as letters.Words makes them: lower case, without diacritics, single spaces.
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
