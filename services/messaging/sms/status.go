package sms

import (
	"errors"
	"fmt"
	"slices"
)

// ErrStatus is wrapped by every unknown status.
var ErrStatus = errors.New("unknown message status")

// Status is the stage that a message has reached. It is stored as it is written here.
type Status string

// What we know of our attempt, before Twilio has taken the message.
const (
	// Sending means that an attempt holds the row. Twilio's own "sending" is Queued here, so that this one word never
	// has to be told apart by looking at another column.
	Sending Status = "sending"
	// Throttled means that Twilio certainly did not process the attempt; it is safe to try again.
	Throttled Status = "throttled"
	// Unknown means that the answer was lost: the message may or may not have gone out.
	Unknown Status = "unknown"
	// Parked means that only an operator can tell whether Twilio has the message, or may decide that it is sent again.
	Parked Status = "parked"
	// Rejected means that Twilio refused the message for good.
	Rejected Status = "rejected"
	// GivenUp means that an operator has decided that the message is never sent.
	GivenUp Status = "given_up"
)

// What Twilio and the carrier told us after taking the message.
const (
	// Accepted means that Twilio took the message and gave it a SID.
	Accepted Status = "accepted"
	// Queued means that it waits at Twilio, or is on its way to the carrier.
	Queued Status = "queued"
	// Sent means that the carrier took it. Carriers without receipts leave it there.
	Sent Status = "sent"
	// Failed means that it never left Twilio.
	Failed Status = "failed"
	// Undelivered means that the carrier reported that it could not be delivered.
	Undelivered Status = "undelivered"
	// Delivered means that it reached the handset.
	Delivered Status = "delivered"
)

// Received is the one status of an inbound message.
const Received Status = "received"

// Statuses lists every status from the lowest rank to the highest. The order is total, so that receipts may come
// late, twice and in any order and still lead to one result. Each word of Twilio outranks everything that we thought
// of our attempt; delivered outranks undelivered and failed, because a carrier may give up in a receipt and deliver
// afterwards, and never the other way round.
func Statuses() []Status {
	return []Status{
		Sending, Throttled, Unknown, Parked, Rejected, GivenUp,
		Accepted, Queued, Sent, Failed, Undelivered, Delivered,
		Received,
	}
}

// ParseStatus reads a status as we store it.
func ParseStatus(stored string) (Status, error) {
	if s := Status(stored); slices.Contains(Statuses(), s) {
		return s, nil
	}
	return "", fmt.Errorf("%w %q", ErrStatus, stored)
}

// ParseProviderStatus reads the status of an outbound message as Twilio writes it in a receipt or a resource.
// It is never one of the attempt's own. A word that Twilio adds later is an error, never a guess.
func ParseProviderStatus(wire string) (Status, error) {
	switch wire {
	case "accepted", "scheduled":
		return Accepted, nil
	case "queued", "sending":
		return Queued, nil
	case "sent", "partially_delivered":
		return Sent, nil
	case "failed", "canceled":
		return Failed, nil
	case "undelivered":
		return Undelivered, nil
	case "delivered", "read":
		return Delivered, nil
	}
	return "", fmt.Errorf("%w of Twilio %q", ErrStatus, wire)
}

// Final reports whether no later word of Twilio is to be waited for. After a failure there may still be one, but hardly ever
// is. Sent is not final: it is the last word only of carriers without receipts, and Twilio does not say which those are.
func (s Status) Final() bool {
	switch s {
	case Failed, Undelivered, Delivered, Received:
		return true
	case Sending, Throttled, Unknown, Parked, Rejected, GivenUp, Accepted, Queued, Sent:
	}
	return false
}

// MergeReceipt is the status after a receipt: the higher of the two by rank. It is commutative, associative and
// idempotent, so every order and repetition of the same receipts gives the same status. An unknown status ranks
// below all others.
func MergeReceipt(current, received Status) Status {
	if rank(received) > rank(current) {
		return received
	}
	return current
}

func rank(s Status) int { return slices.Index(Statuses(), s) }
