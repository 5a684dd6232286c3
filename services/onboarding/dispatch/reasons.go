package dispatch

import (
	"cmp"
	"fmt"

	"paceline.internal/services/onboarding/session"
)

// The reasons of parked sessions are read by operators: each says what is wrong and what to type. Messaging explains its own
// message, and what to do with it; here is added what follows for the session.

// undelivered is a text that Twilio refuses for good.
func undelivered(r session.Record, sent Sent) string {
	return fmt.Sprintf("Twilio %d: %s; once that is mended POST /v1/messages/%s:resolve with RESOLUTION_NOT_SENT, %s; "+
		"if it cannot be, POST /v1/sessions/%s:reset",
		sent.Code, sent.Explanation, sent.MessageID, session.ThenResume(r.ID), r.ID)
}

// undecided is a text of which messaging could not find out whether Twilio has it.
func undecided(r session.Record, sent Sent) string {
	return fmt.Sprintf("Twilio may or may not have message %s: %s, %s",
		sent.MessageID, cmp.Or(sent.Explanation, howToResolve(sent.MessageID)), session.ThenResume(r.ID))
}

// givenUp is a text that an operator gave up.
func givenUp(r session.Record, sent Sent) string {
	return fmt.Sprintf("message %s was given up; to send it after all POST /v1/messages/%s:resolve with RESOLUTION_NOT_SENT, %s; "+
		"else POST /v1/sessions/%s:reset",
		sent.MessageID, sent.MessageID, session.ThenResume(r.ID), r.ID)
}

// unheardOf is a direct text in doubt for so long that nobody waits any more.
func unheardOf(r session.Record, sent Sent) string {
	return fmt.Sprintf("nothing was heard for %s of whether Twilio took message %s; unless it is settled by now %s, %s",
		doubtLimit, sent.MessageID, howToResolve(sent.MessageID), session.ThenResume(r.ID))
}

// reused is a key that belongs to another text.
func reused(r session.Record, key string) string {
	return fmt.Sprintf("the key of this text was used with another recipient or body; compare GET /v1/messages?idempotency_key=%s, "+
		"put back what was changed, %s; if it cannot be, POST /v1/sessions/%s:reset", key, session.ThenResume(r.ID), r.ID)
}

func howToResolve(messageID string) string {
	return fmt.Sprintf("see GET /v1/messages/%s/evidence, then POST /v1/messages/%s:resolve", messageID, messageID)
}
