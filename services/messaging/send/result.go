package send

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// Outcome is the stage that a send reached, in the words of the metric and the log.
type Outcome string

// The outcomes. Only Accepted and AlreadyAccepted mean that Twilio has the message.
const (
	Accepted        Outcome = "accepted"
	AlreadyAccepted Outcome = "already_accepted"
	InFlight        Outcome = "in_flight"
	Unknown         Outcome = "unknown"
	Throttled       Outcome = "throttled"
	Rejected        Outcome = "rejected"
	OptedOut        Outcome = "opted_out"
	RemindersOff    Outcome = "reminders_off" // the recipient wants no reminders, and it is one
	Held            Outcome = "held"          // by an operator's safety hold; it may be sent once that is lifted
	Paced           Outcome = "paced"         // outreach before its turn
	Suspended       Outcome = "suspended"     // the organisation may not send; it may be sent when it may again
	Capped          Outcome = "capped"        // a cap holds it; it may be sent when the time of that is over
	Parked          Outcome = "parked"        // an operator has to say
	GivenUp         Outcome = "given_up"      // an operator said so
)

// How long a caller is told to wait. A send in flight or in doubt is usually settled in seconds, by its answer or by its
// receipt, and else takes long: a crash is noticed when the lease is over. So the wait grows with the age of the send, or
// QStash would have used up its few retries by then.
const (
	unknownWaitMin = 2 * time.Second
	unknownWaitMax = 30 * time.Second
	throttledMin   = time.Second
	// heldWait sets the time after which to ask again for a message to a person who is held.
	heldWait = 30 * time.Second
	// suspendedWait sets the time after which to ask again for a message of an organisation that is suspended.
	suspendedWait = time.Minute
)

// Result is the answer to a send.
type Result struct {
	Outcome     Outcome
	Message     *Message      // nil only when nothing was ever stored
	RetryAfter  time.Duration // when to ask again; 0 when that is useless
	Explanation string        // why it was refused, parked, given up or capped, and what to do; empty when Twilio gave no code
	Number      bool          // it is rejected because its recipient may not be texted, and Twilio was not asked
}

// resultOf answers a caller after an attempt that was not made. A message that Twilio has beats everything; an opt-out beats whatever has
// not been accepted; reminders that are off, a hold, or a cap beat what could be sent now.
func resultOf(c Claim, a Attempt) Result {
	m := c.Message
	unsent := m == nil || m.Status == sms.Throttled
	switch {
	case m != nil && m.Accepted():
	case c.OptedOut:
		return Result{Outcome: OptedOut, Message: m}
	case c.RemindersOff && unsent:
		return Result{Outcome: RemindersOff, Message: m}
	case c.Held && unsent:
		return Result{Outcome: Held, Message: m, RetryAfter: heldWait}
	case c.Suspended && unsent:
		return Result{Outcome: Suspended, Message: m, RetryAfter: suspendedWait, Explanation: suspendedFact}
	case m == nil || m.Retryable(a.At) && !c.Exceeded.Until().IsZero():
		return Result{Outcome: Capped, Message: m, RetryAfter: c.Exceeded.wait(a.At), Explanation: c.Exceeded.advice(a.Limits)}
	}
	return resultOfRow(m, a.At)
}

// suspendedFact says why an organisation may not send.
const suspendedFact = "the organisation is suspended or has ended"

// resultOfRow returns what a stored message says to whoever asks for it at an instant.
func resultOfRow(m *Message, now time.Time) Result {
	if m.Accepted() {
		return Result{Outcome: AlreadyAccepted, Message: m}
	}
	wait := min(max(now.Sub(m.UpdatedAt), unknownWaitMin), unknownWaitMax)
	switch m.Status {
	case sms.Sending:
		return Result{Outcome: InFlight, Message: m, RetryAfter: wait}
	case sms.Throttled:
		result := Result{Outcome: Throttled, Message: m, RetryAfter: max(m.LeaseUntil.Sub(now), throttledMin)}
		if m.ErrorCode != 0 {
			result.Explanation = explain(m.ErrorCode)
		}
		return result
	case sms.Rejected:
		return Result{Outcome: Rejected, Message: m, Explanation: explain(m.ErrorCode)}
	case sms.Parked: // the store knows why
		return Result{Outcome: Parked, Message: m}
	case sms.GivenUp:
		return Result{Outcome: GivenUp, Message: m, Explanation: "an operator gave it up" + toResolve(m.ID)}
	case sms.Unknown, sms.Accepted, sms.Queued, sms.Sent, sms.Failed, sms.Undelivered, sms.Delivered, sms.Received:
	}
	return Result{Outcome: Unknown, Message: m, RetryAfter: wait}
}

// explainParked returns what was found and how an operator settles it.
func (s *Service) explainParked(ctx context.Context, m Message) (string, error) {
	evidence, err := s.Evidence.Evidence(ctx, m.OrgID, m.ID)
	if err != nil {
		return "", fmt.Errorf("read why message %s is parked: %w", m.ID, err)
	}
	why := "whether Twilio has it could not be found out"
	for _, item := range evidence.Items {
		if item.Kind == Ambiguous || item.Kind == Absent || item.Kind == Failed {
			why = item.Detail
		}
	}
	return why + toResolve(m.ID), nil
}

func toResolve(id uuid.UUID) string {
	return fmt.Sprintf("; to do: see GET /v1/messages/%s/evidence, then POST /v1/messages/%s:resolve", id, id)
}

// explain says in words why Twilio refuses with a code, and what to do about it.
func explain(code int) string {
	if known, ok := twilio.Explain(code); ok {
		return known.Meaning + "; to do: " + known.Remedy
	}
	return fmt.Sprintf("Twilio refused it with code %d; see https://www.twilio.com/docs/api/errors/%d", code, code)
}

// meaningOf returns what a code of a receipt means, and what to do about it.
func meaningOf(code int) twilio.Explanation {
	switch known, ok := twilio.Explain(code); {
	case ok:
		return known
	case code == 0:
		return twilio.Explanation{Meaning: "Twilio gave no code", Remedy: "look the message up in the Twilio console"}
	}
	return twilio.Explanation{
		Meaning: "Paceline does not know this code", Remedy: fmt.Sprintf("see https://www.twilio.com/docs/api/errors/%d", code),
	}
}

// meansOptedOut reports whether a code of Twilio's is its refusal to send to a person who has opted out. Other codes that
// look alike, such as 30004, may be the carrier's doing and say nothing about consent.
func meansOptedOut(code int) bool { return code == twilio.CodeOptedOut }
