package session

import (
	"strconv"
	"strings"
)

// Key is the idempotency key of a scheduled message. The session is the episode, so a second run of the same person
// has its own keys, and no key ever blocks a legitimate message.
func Key(profileID, sessionID string, step StepID) string {
	return "onboarding:" + profileID + ":" + sessionID + ":" + string(step)
}

// OpeningKey is the idempotency key of the opening message. A session has one opening.
func OpeningKey(profileID, sessionID string) string {
	return Key(profileID, sessionID, "opening")
}

// DirectKey is the idempotency key of a message that answers a reply, such as the explanation. place is Record.Place: the
// same message may be due again later, but not twice in one place, however often the session is parked and resumed there.
func DirectKey(profileID, sessionID string, text TextKey, place int) string {
	name := strings.ToLower(strings.TrimPrefix(string(text), "ONBOARDING_"))
	return Key(profileID, sessionID, StepID(name+":"+strconv.Itoa(place)))
}
