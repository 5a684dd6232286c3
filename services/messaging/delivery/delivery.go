// Package delivery sends each text at most once, keeps what became of it, and takes in the texts that people send.
package delivery

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/telemetry"
	"paceline.internal/services/messaging/twilio"
)

// What the verbs of this package refuse. The texts never hold a phone number or a body.
var (
	// ErrInvalid is wrapped by every complaint about a request's fields.
	ErrInvalid = errors.New("invalid request")
	// ErrKeyReused means that the idempotency key was used before for another recipient or another body.
	ErrKeyReused = errors.New("the idempotency key was used for another recipient or another body; every text needs its own key")
	// ErrNoSender means that the organisation owns no number to send from.
	ErrNoSender = errors.New("the organisation has no sender; DEFAULT_ORG_ID owns the one that is configured")
	// ErrUnknownSender means that no organisation owns the number that a text was sent to.
	ErrUnknownSender = errors.New("no organisation owns the number that this text was sent to")
	// ErrMessageNotFound means that the caller's organisation has no such message.
	ErrMessageNotFound = errors.New("there is no such message")
	// ErrUnavailable means that the database, or whatever else is needed, cannot be had in time; asking again is safe.
	ErrUnavailable = errors.New("a dependency is unavailable")
	// ErrLocked means that another transaction has the message's row; nothing was changed.
	ErrLocked = errors.New("another transaction has locked the message")
	// ErrNotResolvable is wrapped by every reason why an operator's word on a message is not taken.
	ErrNotResolvable = errors.New("not resolvable")
	// ErrOwnOptOut means that an operator wants to lift what the person has said.
	ErrOwnOptOut = errors.New("the person has opted out in their own words, and only they can lift that: by texting START to the number " +
		"that texts them")
	// ErrOldEvidence means that the evidence of an opt-in says nothing about the opt-out in force.
	ErrOldEvidence = errors.New("evidence.collected_at is not after the opt-out in force, so it says nothing about it; " +
		"only a later wish of the person lifts that")
	// ErrConsentNotFound means that nothing is known about a number's consent in the caller's organisation.
	ErrConsentNotFound = errors.New("there is no consent record for this phone number")
)

// Sender is the one sender of this deployment and the organisation that owns it.
type Sender struct {
	OrgID      uuid.UUID
	Number     string // E.164; may be empty when ServiceSID is not
	ServiceSID string // Twilio's messaging service, preferred for sending; may be empty when Number is not
}

// Of is what orgID sends from: the messaging service or else the number. It is ErrNoSender for everybody but the owner.
func (s Sender) Of(orgID uuid.UUID) (string, error) {
	switch {
	case orgID != s.OrgID || (s.ServiceSID == "" && s.Number == ""):
		return "", ErrNoSender
	case s.ServiceSID != "":
		return s.ServiceSID, nil
	default:
		return s.Number, nil
	}
}

// Owner is the organisation that a text to a number, or through a messaging service, belongs to; ErrUnknownSender
// when nobody's.
func (s Sender) Owner(number, serviceSID string) (uuid.UUID, error) {
	if (s.Number != "" && number == s.Number) || (s.ServiceSID != "" && serviceSID == s.ServiceSID) {
		return s.OrgID, nil
	}
	return uuid.Nil, ErrUnknownSender
}

// Config is what a Service works with. Every field is needed but the copy and the threads.
type Config struct {
	Store     messageStore
	Inbox     inboxStore
	Doubts    doubtStore
	Carrier   carrier
	Sender    Sender
	Copy      ReplyCopy     // may be empty
	PublicURL string        // the origin that Twilio reaches us by
	Timeout   time.Duration // of one call to Twilio; shorter than Lease
	Lease     time.Duration // how long an attempt holds a row
	StopWait  time.Duration // how long a STOP waits for what is on its way, on the machine's clock; see DefaultStopWait
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   *Metrics
	Threads   telemetry.Threads // puts each receipt into the trace of its conversation
}

// Service sends and receives. It is safe for concurrent use and holds no state of its own but who waits for a settled send.
type Service struct {
	Config

	settled bell
	replies waker
}

// messageStore keeps the rows of a send. Every method is one transaction; postgres.Store implements it.
type messageStore interface {
	// Claim inserts the row of a first attempt if consent allows it, or reports the row that has the key already.
	Claim(ctx context.Context, a Attempt) (Claim, error)
	// Reclaim makes the attempt on a throttled row, or reports why it may not.
	Reclaim(ctx context.Context, a Attempt) (Claim, error)
	// Expire applies Message.Expire to the stored row, unless somebody settled it first, and returns the row either way.
	Expire(ctx context.Context, m Message, now time.Time, timeout time.Duration) (Message, error)
	// Settle applies Message.Settle to the stored row and returns the row after it. An answer that the recipient has
	// opted out is recorded as such in the same transaction.
	Settle(ctx context.Context, a Answer) (Message, error)
}

// inboxStore keeps what Twilio reports. Every method is one transaction; postgres.Store implements it.
type inboxStore interface {
	// RecordReceipt keeps the receipt, applies Message.Receive, and returns the message after it.
	RecordReceipt(ctx context.Context, r Receipt) (Recorded, error)
	// RecordInbound stores the text and applies its effect on consent, once per SID.
	RecordInbound(ctx context.Context, t Text) (Message, error)
	// SetConsent writes an operator's note and returns the ledger.
	SetConsent(ctx context.Context, n Note) (Ledger, error)
	// OnItsWay reports whether an attempt to text a number is still being made: one whose lease is not over by after.
	OnItsWay(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (bool, error)
}

// doubtStore is what operators see and say of messages in doubt, and of people on hold; postgres.Store implements it.
type doubtStore interface {
	// Evidence is everything known about a message of an organisation; ErrMessageNotFound when it has no such message.
	Evidence(ctx context.Context, orgID, id uuid.UUID) (Evidence, error)
	// Resolve applies Message.Resolve to the stored row, with its evidence, in one transaction, and returns the row after it.
	Resolve(ctx context.Context, r Resolution) (m Message, changed bool, err error)
	// SetHold keeps the version of a hold, unless a later one is kept already.
	SetHold(ctx context.Context, h Hold) error
}

// carrier hands one message to Twilio, which always has an outcome, and reads one back; twilio.Client implements it.
type carrier interface {
	Send(ctx context.Context, m twilio.Outgoing) twilio.Outcome
	Fetch(ctx context.Context, sid string) (twilio.Stored, error)
}

// New makes a Service.
func New(cfg Config) *Service { return &Service{Config: cfg, replies: make(waker, 1)} }

// Replies is rung when a text was recorded that may have left a reply to send.
func (s *Service) Replies() <-chan struct{} { return s.replies }

// waker wakes one who rests, and does not wait for them.
type waker chan struct{}

func (w waker) wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// callback is where Twilio reports about a message: our own id makes even a send whose answer was lost traceable. The
// fragment is Twilio's retry policy and never reaches us: every kind of failure, three times, four seconds each.
func (s *Service) callback(id uuid.UUID) string {
	return s.PublicURL + "/api/webhooks/twilio/status?message_id=" + id.String() + "#rt=4000&rc=3&rp=all"
}

// storable drops what Postgres cannot keep in text or jsonb. Only for words of the outside world that we take as they
// come; what we send is refused instead.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}
