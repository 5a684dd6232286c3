package send

import (
	"crypto/sha256"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/phone"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// Direction is the direction in which a message went.
type Direction string

// The two directions, as they are stored.
const (
	Outbound Direction = "outbound"
	Inbound  Direction = "inbound"
)

// Message is one message as it is stored. The invariants that tie its fields together are CHECK constraints of
// sms_messages; the methods below are the only ways in which an outbound one changes.
type Message struct {
	ID        uuid.UUID
	OrgID     uuid.UUID
	ProfileID uuid.UUID // uuid.Nil when the person is not known
	Direction Direction
	SenderID  uuid.UUID // of the stored sender that it was sent with, or written to; uuid.Nil for that of the environment
	From      string    // E.164, or the messaging service's SID while Twilio has not chosen a number
	To        string    // E.164
	Body      string
	BodyHash  [sha256.Size]byte
	Key       string // the idempotency key; empty for an inbound message
	Status    sms.Status
	SID       string // Twilio's; empty until it is known
	ErrorCode int    // Twilio's; 0 when there is none
	Segments  int

	CorrelationID  string
	AttemptToken   uuid.UUID // of the attempt that holds or last held the row
	AttemptedAt    time.Time // when that attempt was claimed; zero for an inbound message
	LeaseUntil     time.Time // no other attempt may claim it before
	Attempts       int
	UnknownPolicy  UnknownPolicy
	AbsentSince    time.Time // when the first listing began that confirms that Twilio does not have the attempt's message; else zero
	NextCheckAt    time.Time // when Twilio is asked next about the message in doubt or its final status; zero for never
	Checks         int       // how often it has been asked in this state
	FailingSince   time.Time // when the first of the listings failed that have failed in a row; zero when the last one did not
	FailedListings int       // how many those are
	AcceptedAt     time.Time // zero until Twilio has it
	// AskedAt is the time when the attempt began that Twilio has; zero until they do, and when it cannot be told which one it was.
	AskedAt       time.Time
	ConsentEffect consent.Effect      // of an inbound one: to a caller that reads no preferences
	Preferences   consent.Preferences // of an inbound one, without the locale
	LiftsHold     bool                // of an inbound one: it answers with a yes whether the texts are to go on
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// Query selects messages of one organisation, newest first.
type Query struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID  // uuid.Nil for all
	Key       string     // an idempotency key; empty for all
	Status    sms.Status // empty for all
	Words     string     // words that a person wrote, with no other filter; empty for all
	Before    uuid.UUID  // only messages older than this one; uuid.Max for the first page
	Limit     int        // how many at most, at least 1
}

// Attr is the message on a log line. It is made at once, where slog.Any would copy the whole message to the heap first.
func (m Message) Attr() slog.Attr { return slog.Attr{Key: "message", Value: m.LogValue()} }

// LogValue names the message and shows neither a number nor its body.
func (m Message) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("message_id", m.ID.String()), slog.String("status", string(m.Status)), slog.String("twilio_sid", shown(m.SID)),
		slog.Int("error_code", m.ErrorCode), slog.Int("segments", m.Segments), slog.String("correlation_id", m.CorrelationID),
	)
}

// shown is a provider's id as a log may hold it: WhatsApp's holds the person's number, in base64.
func shown(sid string) string {
	if strings.HasPrefix(sid, "wamid.") {
		return "wamid.***"
	}
	return sid
}

// Effect returns what an inbound message did to consent: a preference did nothing, to a caller that reads preferences.
func (m Message) Effect(readsPreferences bool) consent.Effect {
	if readsPreferences && m.Preferences.Any() {
		return consent.None
	}
	return m.ConsentEffect
}

// Accepted reports whether Twilio has the message.
func (m Message) Accepted() bool { return m.SID != "" }

// Matches reports whether a is a repeat of the send that this row records.
func (m Message) Matches(a Attempt) bool {
	return phone.Canonical(m.To) == a.To.String() && m.BodyHash == a.BodyHash
}

// HeldBy reports whether the row is being sent by this very attempt.
func (m Message) HeldBy(a Attempt) bool {
	return m.Status == sms.Sending && m.AttemptToken == a.Token
}

// AskedSince returns since when the person may have read a message that Twilio has: since the attempt began that took it, or since the
// first one, where it cannot be told which one that was.
func (m Message) AskedSince() time.Time {
	if m.AskedAt.IsZero() {
		return m.CreatedAt
	}
	return m.AskedAt
}

// Abandoned reports whether the attempt that holds the row has outlived its lease: its process died, or lost the
// database, and whether Twilio has the message is unknown.
func (m Message) Abandoned(now time.Time) bool {
	return m.Status == sms.Sending && !now.Before(m.LeaseUntil)
}

// Retryable reports whether a new attempt may be made: Twilio did not process the last one and its wait is over.
func (m Message) Retryable(now time.Time) bool {
	return m.Status == sms.Throttled && !now.Before(m.LeaseUntil)
}

// Quiet reports whether nothing about the last attempt can still be on its way to Twilio: its lease is over, and so
// is the longest call that it could have begun under it.
func (m Message) Quiet(now time.Time, timeout time.Duration) bool {
	return !now.Before(m.LeaseUntil.Add(timeout))
}

// Settle applies what Twilio answered to an attempt. The fence is the attempt's token on a row without a SID: an
// attempt that lost its lease may still settle its own row, whatever has been concluded from its silence
// (unknown, parked, given up, or throttled because Twilio's list did not have it), but not another attempt: if a new
// one has been claimed meanwhile, a receipt will tell. A SID is always the truth; a refusal settles
// what is in doubt, and does not overrule an operator who gave the message up. A receipt that was faster has adopted the SID
// already; then only what it could not know is added.
func (m Message) Settle(a Answer) (settled Message, changed bool) {
	outcome := a.Outcome
	if m.Accepted() {
		if outcome.Status != sms.Accepted || outcome.SID != m.SID {
			return m, false
		}
		if m.AttemptToken == a.Token { // the receipt did not say which attempt it was
			m.AskedAt = m.AttemptedAt
		}
		return m.accept(outcome, a.At), true
	}
	if m.AttemptToken != a.Token {
		return m, false
	}
	if outcome.Status == sms.Accepted {
		m.AskedAt = m.AttemptedAt
		return m.accept(outcome, a.At), true
	}
	if m.Status != sms.Sending && m.Status != sms.Unknown && m.Status != sms.Parked {
		return m, false
	}
	switch outcome.Status {
	case sms.Rejected:
		m.Status, m.ErrorCode = sms.Rejected, outcome.Code
		if twilio.OfAccount(outcome.Code) {
			m.Status, m.LeaseUntil = sms.Throttled, a.At.Add(mendWait)
		}
	case sms.Throttled:
		m.Status, m.ErrorCode = sms.Throttled, outcome.Code
		m.LeaseUntil = a.At.Add(throttleWait(m.Attempts, outcome.RetryAfter))
	default: // unknown, also where nothing was set: then it is not repeated
		if m.Status != sms.Sending {
			return m, false
		}
		m.Status, m.ErrorCode, m.NextCheckAt, m.Checks, m.UpdatedAt = sms.Unknown, outcome.Code, a.At, 0, a.At
		return m, true
	}
	return m.endChecks(a.At), true
}

// endChecks ends every check: what there was to find out is found out, or is for an operator to say.
func (m Message) endChecks(at time.Time) Message {
	m.AbsentSince, m.NextCheckAt, m.Checks, m.UpdatedAt = time.Time{}, time.Time{}, 0, at
	m.FailingSince, m.FailedListings = time.Time{}, 0
	return m
}

// mendWait sets how long a message waits that was refused because of our account, sender or request. Twilio has not
// processed it, so it may be sent once that is mended; its recipient is not reported as unreachable.
const mendWait = 30 * time.Second

// NeedsPerson reports whether Twilio or the carrier refused the message with a code that no retry mends. It is tried again all the same,
// and refused until a person has done what the code's remedy says.
func (m Message) NeedsPerson() bool {
	switch m.Status {
	case sms.Throttled, sms.Rejected, sms.Failed, sms.Undelivered:
		return twilio.NeedsPerson(m.ErrorCode)
	case sms.Sending, sms.Unknown, sms.Parked, sms.GivenUp, sms.Accepted, sms.Queued, sms.Sent, sms.Delivered, sms.Received:
	}
	return false
}

func (m Message) accept(outcome twilio.Outcome, at time.Time) Message {
	m = m.adopt(outcome.SID, at)
	status, err := sms.ParseProviderStatus(outcome.Reported)
	if err != nil {
		status = sms.Accepted // a word that we do not know, but a SID: they have it
	}
	m = m.reach(status)
	if outcome.From != "" {
		m.From = outcome.From
	}
	m.Segments = max(m.Segments, outcome.Segments)
	m.UpdatedAt = at
	return m
}

// adopt gives a row that has none Twilio's SID. From then on its final status is awaited, and asked for if it does not come.
func (m Message) adopt(sid string, at time.Time) Message {
	if m.Accepted() {
		return m
	}
	m = m.endChecks(at)
	m.SID, m.AcceptedAt, m.ErrorCode, m.NextCheckAt = sid, at, 0, at.Add(firstPoll)
	return m
}

// reach merges a status of Twilio's. Nothing is awaited after a final one.
func (m Message) reach(status sms.Status) Message {
	m.Status = sms.MergeReceipt(m.Status, status)
	if m.Status.Final() {
		m.NextCheckAt, m.Checks = time.Time{}, 0
	}
	return m
}

// Receive merges one delivery receipt. A row without a SID adopts the receipt's: it names our message id, so Twilio
// has the message, whatever the attempt was told or was concluded from its silence. So the receipt of a first
// attempt may come while a second one is under way, although Twilio's list has not had the first one twice: the row is then
// the first one's, and the second one's answer finds it so (messaging.sms_answer_not_adopted). A receipt of another SID, or
// with a word that we do not know, changes nothing. A row that adopts a receipt counts as accepted when the receipt came: a
// callback does not say when Twilio created the message, and an earlier guess could send the next one too soon.
func (m Message) Receive(r Receipt) (merged Message, changed bool) {
	status, err := sms.ParseProviderStatus(r.Status)
	if err != nil || (m.Accepted() && m.SID != r.SID) {
		return m, false
	}
	before := m
	if !m.Accepted() && m.Attempts == 1 {
		m.AskedAt = m.AttemptedAt
	}
	m = m.adopt(r.SID, r.At).reach(status)
	switch {
	case m.Status != status: // an older word than the one we have
	case status != sms.Failed && status != sms.Undelivered:
		m.ErrorCode = 0
	case before.Status == status:
		m.ErrorCode = max(m.ErrorCode, r.ErrorCode) // any rule does that does not depend on the order
	default:
		m.ErrorCode = r.ErrorCode
	}
	if m == before {
		return m, false
	}
	m.UpdatedAt = r.At
	return m, true
}

// throttleWait returns what Twilio asks for, or else doubles with every attempt from one second to a minute.
func throttleWait(attempts int, asked time.Duration) time.Duration {
	const longest = time.Minute
	if asked > 0 {
		return min(asked, longest)
	}
	return min(time.Second<<min(max(attempts-1, 0), 6), longest)
}
