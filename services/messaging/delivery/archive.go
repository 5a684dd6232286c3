package delivery

import (
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/sms"
)

// Query selects messages of one organisation, newest first.
type Query struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID  // uuid.Nil for all
	Key       string     // an idempotency key; empty for all
	Status    sms.Status // empty for all
	Before    uuid.UUID  // only messages older than this one; uuid.Max for the first page
	Limit     int        // how many at most, at least 1
}

// Ledger is what is known about the consent of a number, and how it came to be.
type Ledger struct {
	OrgID     uuid.UUID
	Phone     sms.Phone
	State     consent.State
	UpdatedAt time.Time
	Events    []LedgerEvent // oldest first
}

// LedgerEvent is one line of the append-only ledger.
type LedgerEvent struct {
	At        time.Time
	State     consent.State // after it
	Source    Source
	Words     string    // the person's own, or the operator's reason; may be empty
	Sender    string    // our number or messaging service that it was said to; may be empty
	MessageID uuid.UUID // the inbound text that said it, else uuid.Nil
}

// Source is where a line of the ledger comes from.
type Source string

// The sources, as they are stored.
const (
	FromFirstSend Source = "first_send"   // nobody had objected when the first text went out
	FromText      Source = "inbound"      // the person's own words
	FromOperator  Source = "operator"     // taken down outside the conversation
	FromTwilio    Source = "twilio_21610" // Twilio refused: the person has opted out there
)

// Note is an operator's record of a decision about consent.
type Note struct {
	OrgID  uuid.UUID
	Phone  sms.Phone
	State  consent.State
	Reason string // required
	Sender string // what the organisation sends from; may be empty
	At     time.Time
}
