package inbox

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/sms"
)

// What keeps a person from being erased or exported.
var (
	// ErrPseudonymKey means that a person who is erased could not keep their STOP.
	ErrPseudonymKey = errors.New("PSEUDONYM_KEY is not set, or is not the one that other people were erased under: give messaging the key " +
		"that it had, or make the first one with openssl rand -hex 32, and keep it for good")
	// ErrExportTooLarge means that a part of an export would have to be left out.
	ErrExportTooLarge = errors.New("more is kept about this person than fits into one export; read it in pages: GET /v1/messages, " +
		"/v1/consents/{phone}, /v1/outbound and /v1/audit")
)

// Person is who is erased or exported.
type Person struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID
	Phone     sms.Phone
}

// Erasure is how far the erasure of a person is.
type Erasure struct {
	Pseudonym string
	// WaitsFor is a message that is on its way or in doubt, or a text of the queue that is being sent; uuid.Nil once all is erased.
	WaitsFor uuid.UUID
}

// ErasedConsent is what is left of a person's consent.
type ErasedConsent struct {
	Ledgers []consent.ErasedLedger // one for each time they were erased, oldest first
	// SuppressedAt is since when their STOP is in force that they said before they were erased; zero when there is none.
	SuppressedAt time.Time
}
