package session

import (
	"paceline.internal/platform/reading"
	"paceline.internal/services/onboarding/flow"
)

// Intent is the request that a reply makes of the conversation.
type Intent int

// The intents.
const (
	// Advance goes on: whatever is positive, neutral, ambiguous, unreadable or empty.
	Advance Intent = iota
	// Pause is a no or a "later": the flow answers it with its negative: text, and waits, unless negative: has a step to go on to.
	Pause
	// Remark answers nothing: a reaction to a message, a quote of one, or an automatic reply.
	Remark
)

// surelyRefused is the score above which a text that no rule knows is a refusal: chosen like the bounds of consent. Below it the
// conversation goes on.
const surelyRefused = -0.6

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
	switch {
	case refuses(words):
		return Pause
	case reading.Agreed(words):
		return Advance
	case reading.Refusal.Score(words) > surelyRefused:
		return Pause
	}
	return Advance
}

// IntentAt reads a reply by what the session waits for. Where a number, a choice, a day or a text was asked for, only words that refuse and
// say nothing else pause: "no pude dormir" says how the night was.
func IntentAt(f *flow.Flow, r Record, message string) Intent {
	intent := IntentOf(message)
	at, err := Position(f, r)
	asked := f.Steps[at.Step].Expect.Type
	if intent != Pause || err != nil || asked == "" || asked == flow.Reply || asked == flow.YesNo { // OnReply returns the error
		return intent
	}
	if kind, words := reading.Theirs(message); kind == reading.Own && !refuses(words) {
		return Advance
	}
	return intent
}

// refuses reports whether a message consists of words that are known to refuse.
func refuses(words string) bool { return reading.Refused(words) || putsOff(words) }
