package conversation

import (
	"cmp"
	"fmt"

	"paceline.internal/services/onboarding/session"
)

// The reasons of parked sessions are read by operators: each says what is wrong and what to type. Messaging explains its own
// message, and what to do with it; here is added what follows for the session.

// undelivered is a message that Twilio refuses for good.
func undelivered(r session.Record, sent Sent) string {
	if sent.MessageID == "" { // its number is not texted, and Twilio was not asked
		return fmt.Sprintf("%s; once that is mended, %s; if it cannot be, POST /v1/sessions/%s:reset",
			sent.Explanation, session.ThenResume(r.ID), r.ID)
	}
	return fmt.Sprintf("Twilio %d: %s; once that is mended POST /v1/messages/%s:resolve with RESOLUTION_NOT_SENT, %s; "+
		"if it cannot be, POST /v1/sessions/%s:reset",
		sent.Code, sent.Explanation, sent.MessageID, session.ThenResume(r.ID), r.ID)
}

// undecided is a message of which messaging could not find out whether Twilio has it.
func undecided(r session.Record, sent Sent) string {
	return fmt.Sprintf("Twilio may or may not have message %s: %s, %s",
		sent.MessageID, cmp.Or(sent.Explanation, howToResolve(sent.MessageID)), session.ThenResume(r.ID))
}

// givenUp is a message that an operator gave up.
func givenUp(r session.Record, sent Sent) string {
	return fmt.Sprintf("message %s was given up; to send it after all POST /v1/messages/%s:resolve with RESOLUTION_NOT_SENT, %s; "+
		"else POST /v1/sessions/%s:reset",
		sent.MessageID, sent.MessageID, session.ThenResume(r.ID), r.ID)
}

// unsettled is a direct message that came to no end within unsettledLimit.
func unsettled(r session.Record, sent Sent) string {
	then := session.ThenResume(r.ID)
	switch {
	case sent.Outcome == Throttled && sent.Code != 0:
		return fmt.Sprintf("Twilio %d: %s; message %s was not sent for over %s and will be once that is mended, %s",
			sent.Code, sent.Explanation, sent.MessageID, unsettledLimit, then)
	case sent.Outcome == Throttled:
		return fmt.Sprintf("Twilio did not take message %s for over %s, because it cannot be reached or is asked too much at once; "+
			"see messaging's log and Twilio's status page, mend that, %s", sent.MessageID, unsettledLimit, then)
	case sent.Outcome == InFlight:
		return fmt.Sprintf("another call has been sending message %s for over %s; see messaging's log and GET /v1/messages/%s/evidence "+
			"for why it does not end, mend that, %s", sent.MessageID, unsettledLimit, sent.MessageID, then)
	}
	return fmt.Sprintf("it was asked for over %s whether Twilio took message %s, and nothing was heard; unless it is settled by now %s, %s",
		unsettledLimit, sent.MessageID, howToResolve(sent.MessageID), then)
}

// reused is a key that belongs to another message.
func reused(r session.Record, key string) string {
	return fmt.Sprintf("the key of this text was used with another recipient or body; compare GET /v1/messages?idempotency_key=%s, "+
		"put back what was changed, %s; if it cannot be, POST /v1/sessions/%s:reset", key, session.ThenResume(r.ID), r.ID)
}

func howToResolve(messageID string) string {
	return fmt.Sprintf("see GET /v1/messages/%s/evidence, then POST /v1/messages/%s:resolve", messageID, messageID)
}
