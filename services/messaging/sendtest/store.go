package sendtest

import (
	"cmp"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
)

// Store is the stores of the rooms together: a test plays across them.
type Store struct {
	*send.Store
	Consents
	received
}

// Consents and received have names that differ from send's.
type (
	Consents struct{ *ledger.Store }
	received struct{ *inbound.Store }
)

// NewStore makes the stores on a migrated database.
func NewStore(pool postgres.DB) Store {
	consents := ledger.NewStore(pool, consent.Pseudonyms{})
	return Store{send.NewStore(pool, consents), Consents{consents}, received{inbound.NewStore(pool, consents)}}
}

// Only makes a Directory of the sender of the environment alone.
func Only(environment senders.Sender) *senders.Directory {
	environment.Status, environment.Rate = senders.Active, cmp.Or(environment.Rate, 1)
	return senders.New(senders.Config{Environment: environment, Now: time.Now})
}

// Attempt is one of a message to a number, under a key.
func Attempt(tb testing.TB, org uuid.UUID, to sms.Phone, key string) send.Attempt {
	tb.Helper()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return send.Attempt{
		Request:   send.Request{OrgID: org, To: to, Body: "hello", Key: key, UnknownPolicy: send.ConfirmAbsentThenResend},
		MessageID: uuid.Must(uuid.NewV7()), Sender: senders.Sender{OrgID: org, ServiceSID: "MG1"},
		BodyHash: sha256.Sum256([]byte("hello")), Segments: 1,
		Token: uuid.New(), At: at, LeaseUntil: at.Add(time.Minute),
	}
}
