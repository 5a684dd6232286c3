package session

import "paceline.internal/platform/reading"

// Intent is the request that a reply makes of the conversation.
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
const surelyRefused = 0

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
	if reading.Refused(words) || putsOff(words) || reading.Refusal.Score(words) > surelyRefused {
		return Pause
	}
	return Advance
}
