package session

import (
	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading"
)

// Intent is what a reply asks of the conversation.
type Intent int

// The intents.
const (
	// Advance goes on: whatever is positive, neutral, ambiguous, unreadable or empty.
	Advance Intent = iota
	// Pause waits: a refusal, or a not now.
	Pause
	// Remark answers nothing: a reaction to a message, a quote of one, or an automatic reply.
	Remark
)

// surelyRefused is the score above which a text that no rule knows is a refusal. Below it the conversation goes on.
const surelyRefused = -0.3

// IntentOf reads a reply in any language at once. A message that consists of listed negatives, repeated or with thanks and please, pauses;
// so does what reading.Refusal takes for one, and a reaction that is a no. "no problem" goes on.
func IntentOf(message string) Intent {
	kind, words := reading.Theirs(message)
	switch kind {
	case reading.Own:
	case reading.Disliked:
		return Pause
	case reading.Liked, reading.Noted, reading.Quoted, reading.Automatic:
		return Remark
	}
	if refused(words) || reading.Refusal.Score(words) > surelyRefused {
		return Pause
	}
	return Advance
}

// refused reports whether a message has a listed negative and nothing else but courtesies.
func refused(message string) (no bool) {
	for rest := letters.Words(message); len(rest) > 0; {
		phrase, length := letters.Leading(rest, longestPhrase, func(phrase string) bool { return meaning(phrase) != ordinary })
		if length == 0 {
			return false
		}
		no = no || meaning(phrase) == negative
		rest = rest[length:]
	}
	return no
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
