package consent

import "paceline.internal/platform/reading"

// Asked has the last messages that we sent a person before they wrote. The zero value has none.
type Asked struct {
	Sent []string // the last messages, newest first
	Goal bool     // the newest confirms a goal, and says how to undo it
}

// wish is Revocation in the light of what was asked: words that we sent are not the person's, and what takes back a goal that we have just
// confirmed is about the goal. A keyword next to our words counts.
func (a Asked) wish(body string) (Wish, Locale) {
	own := reading.WithoutQuoted(body, a.Sent)
	switch {
	case a.Goal && reading.TakesBack(own) != reading.TakesNothing:
		return NoWish, English
	case own != body && own != "" && Classify(own, OptedIn) == OptOut:
		return Clear, English
	}
	return Revocation(own)
}
