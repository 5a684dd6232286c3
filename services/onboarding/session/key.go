package session

import (
	"strconv"
	"strings"
)

// Key is the idempotency key of a scheduled message. The session is the episode, so a second run of the same person
// has keys of its own, and no key ever blocks a legitimate message.
func Key(profileID, sessionID string, step StepID) string {
	return "onboarding:" + profileID + ":" + sessionID + ":" + string(step)
}

// OpeningKey is the idempotency key of the opening text. A session has one opening.
func OpeningKey(profileID, sessionID string) string {
	return Key(profileID, sessionID, "opening")
}

// DirectKey is the idempotency key of a text that answers a reply, such as the explanation. turn is the number of
// transitions that the session made before this one: the same text may be due again later, but not twice in a turn.
func DirectKey(profileID, sessionID string, text TextKey, turn int) string {
	name := strings.ToLower(strings.TrimPrefix(string(text), "ONBOARDING_"))
	return Key(profileID, sessionID, StepID(name+":"+strconv.Itoa(turn)))
}

// AlarmDedupID is what QStash recognises a repeated publish by. It refuses a colon. A new generation is a new alarm
// for the same step, set after the one before brought nothing.
func AlarmDedupID(sessionID string, step StepID, generation int) string {
	return "onboarding-" + sessionID + "-" + string(step) + "-" + strconv.Itoa(generation)
}
