// Package send hands each message to Twilio at most once, and keeps how it ended: the claim, Twilio's answer, receipts, the
// evidence of what is in doubt, and an operator's resolution.
package send

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1" //nolint:depguard // Sending is stored in the form of the RPC
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// What the verbs of this package refuse. The texts of the errors never hold a phone number or a body.
var (
	// ErrKeyReused means that the idempotency key was used before for another recipient or another body.
	ErrKeyReused = errors.New("the idempotency key was used for another recipient or another body; every text needs its own key")
	// ErrMessageNotFound means that the caller's organisation has no such message.
	ErrMessageNotFound = errors.New("there is no such message")
	// ErrStopped means that the database went back in time: nothing is sent until Twilio's record was read back. Asking again is safe.
	ErrStopped = fmt.Errorf("%w: the database went back in time; sending waits until Twilio's record of it is read back "+
		"(docs/runbooks/restore.md#the-database-went-back)", sms.ErrUnavailable)
	// ErrNotResolvable is wrapped by every reason why an operator's resolution of a message is not taken.
	ErrNotResolvable = errors.New("not resolvable")
)

// Config configures a Service. Every field is needed but the threads.
type Config struct {
	Store         store
	Evidence      evidenceStore
	Carrier       carrier // of the environment's account
	Limiter       limiter // of outreach
	Senders       *senders.Directory
	Numbers       phone.Policy  // which recipients are texted, where an organisation has decided nothing
	Caps          Caps          // the same
	PublicURL     string        // the origin that Twilio reaches us by
	Timeout       time.Duration // of one call to Twilio; shorter than Lease
	Lease         time.Duration // how long an attempt holds a row
	StopWait      time.Duration // how long WaitForInFlight waits, on the machine's clock; see DefaultStopWait
	Now           func() time.Time
	Log           *slog.Logger
	Metrics       *Metrics
	Conversations telemetry.Conversations // puts each receipt into the trace of its conversation
}

// Service sends. It is safe for concurrent use. Its only state: who waits for a settled send, the classes of numbers, the decisions of
// organisations.
type Service struct {
	Config

	settled notifier
	numbers classCache
	decided settingsCache
}

// store keeps the rows of a send. Every method is one transaction; Store implements it.
type store interface { //nolint:interfacebloat // one send asks all of them
	// Claim takes the row of an attempt, a new one or one that Twilio did not process, if consent, reminders and holds allow it;
	// or reports the row that has the key. A row with an abandoned attempt becomes unknown. ErrKeyReused.
	Claim(ctx context.Context, a Attempt) (Claim, error)
	// Look returns what a claim would find, without making one.
	Look(ctx context.Context, a Attempt) (ClaimPreview, error)
	// Settle applies Message.Settle to the stored row and returns the row after it. An answer that the recipient has
	// opted out is recorded as such in the same transaction.
	Settle(ctx context.Context, claimed Message, a Answer) (Message, error)
	// Sending returns what an organisation has decided about how texts are sent for it.
	Sending(ctx context.Context, orgID uuid.UUID) (*messagingv1.Sending, error)
	// HasInFlight reports whether an attempt to send to a number is still being made: one with a lease that is not over by after.
	HasInFlight(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (bool, error)
}

// evidenceStore keeps what Twilio reports, what is known of a message in doubt, and what an operator says about it; Store implements it.
type evidenceStore interface {
	// RecordReceipt keeps the receipt, applies Message.Receive, and returns the message after it.
	RecordReceipt(ctx context.Context, r Receipt) (Recorded, error)
	// Evidence is everything known about a message of an organisation; ErrMessageNotFound when it has no such message.
	Evidence(ctx context.Context, orgID, id uuid.UUID) (Evidence, error)
	// Resolve applies Message.Resolve to the stored row, with its evidence, in one transaction, and returns the row after it.
	Resolve(ctx context.Context, r Resolution) (m Message, changed bool, err error)
}

// limiter paces outreach; outbound.Outreach implements it.
type limiter interface {
	// Reserve takes the turn of a message of a sender, or says how long until there may be one.
	Reserve(ctx context.Context, from senders.Sender, segments int, now time.Time) (wait time.Duration, err error)
	// ReserveSends takes the turns of the first messages that have one now, and says how long until there may be another.
	ReserveSends(ctx context.Context, orgID uuid.UUID, segments []int, now time.Time) (n int, wait time.Duration, err error)
	// Cancel gives back the turn of a message that was not sent.
	Cancel(ctx context.Context, from senders.Sender, segments int) error
}

// carrier hands one message to Twilio, which always has an outcome, and says what Twilio has; twilio.Client implements it.
type carrier interface {
	Send(ctx context.Context, m twilio.Outgoing) twilio.Outcome
	Fetch(ctx context.Context, sid string) (twilio.Stored, error)
	List(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error)
}

// carrierOf returns the account that a message was, or is, sent through.
func carrierOf(ctx context.Context, stored *senders.Directory, environment carrier, m Message) (carrier, error) {
	if m.SenderID == uuid.Nil {
		return environment, nil
	}
	return stored.Client(ctx, m.OrgID, m.SenderID)
}

// New makes a Service.
func New(cfg Config) *Service { return &Service{Config: cfg} }

// callback returns where Twilio reports about a message: our own id makes even a send with a lost answer traceable. The
// fragment is Twilio's retry policy and never reaches us: every kind of failure, three times, four seconds each.
func (s *Service) callback(id uuid.UUID) string {
	return s.PublicURL + "/api/webhooks/twilio/status?message_id=" + id.String() + "#rt=4000&rc=3&rp=all"
}

// Storable drops what Postgres cannot keep in text or jsonb. Only for words of the outside world that we take as they
// come; what we send is refused instead.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}
