package session

import (
	"strconv"
	"strings"

	"paceline.internal/services/onboarding/flow"
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

// DirectKey is the idempotency key of a text of the deployment's own conversation that answers a reply, such as the explanation. place is
// Record.Place: the same text may be due again later, but not twice in one place, however often the session is parked and resumed there.
func DirectKey(profileID, sessionID string, text TextKey, place int) string {
	name := strings.ToLower(strings.TrimPrefix(string(text), "ONBOARDING_"))
	return Key(profileID, sessionID, StepID(name+":"+strconv.Itoa(place)))
}

// ReplyKey is the idempotency key of a text that answers a reply. In a published flow it names the step and the visit.
func ReplyKey(r Record, text flow.SendText) string {
	if r.Flow == "" {
		return DirectKey(r.ProfileID, r.ID, TextKey(text.Text), r.Place())
	}
	return Key(r.ProfileID, r.ID, StepID(text.Key))
}
