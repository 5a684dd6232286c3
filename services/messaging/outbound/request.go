// Package outbound is the queue of messages that are not onboarding's: they are stored with their time, sent at it through the one Send,
// at the sender's rate, and each comes to an end that can be seen.
package outbound

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/hours"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// What the verbs of this package refuse, besides sms.ErrInvalid and send.ErrNoSender.
var (
	// ErrKeyReused means that the idempotency key was used before for another request.
	ErrKeyReused = errors.New("the idempotency key was used for another text, purpose or time; every text needs its own key")
	// ErrNotFound means that the caller's organisation has no such message.
	ErrNotFound = errors.New("there is no such text in the queue")
	// ErrNotCancellable is wrapped by every reason why a message cannot be taken back.
	ErrNotCancellable = errors.New("not cancellable")
	// ErrConsentRequired means that the organisation texts no person without a consent record.
	ErrConsentRequired = errors.New("the settings of the organisation require a consent record, and none is known of this number: " +
		"activate the profile with consent {source, words_shown, collected_at}, or PUT /v1/consents/{phone} with opted_in and evidence")
)

// Purpose is the reason for which a message is sent. It decides what overtakes what, and how long a message is worth sending.
type Purpose string

// The purposes.
const (
	OTP           Purpose = "otp"
	Transactional Purpose = "transactional"
	Reminder      Purpose = "reminder"
	Invite        Purpose = "invite"
	PostEvent     Purpose = "post_event"
)

// Priorities sets how many levels Purpose.Priority has.
const Priorities = 4

// Purposes are all of them, the most urgent first.
func Purposes() []Purpose { return []Purpose{OTP, Transactional, Reminder, Invite, PostEvent} }

// Priority is 0 for what overtakes all others.
func (p Purpose) Priority() int {
	switch p {
	case OTP:
		return 0
	case Transactional:
		return 1
	case Reminder:
		return 2
	case Invite, PostEvent:
	}
	return Priorities - 1
}

// Urgent reports whether a message may be sent ahead of the sender's rate: its reader is waiting.
func (p Purpose) Urgent() bool { return p == OTP }

// CodeValidity bounds the use of a one-time code; its words are kept no longer than that after its end.
const CodeValidity = 5 * time.Minute

// validity is for how long a message is worth sending unless the caller says so: a code is asked for anew after minutes, a reminder is for
// something that happens today, an invitation may wait behind ten thousand others.
func (p Purpose) validity() time.Duration {
	switch p {
	case OTP:
		return CodeValidity
	case Reminder:
		return 6 * time.Hour
	case Invite:
		return 72 * time.Hour
	case Transactional, PostEvent:
	}
	return 24 * time.Hour
}

// horizon sets how far ahead a message may be planned, and how long it may be valid.
const horizon = 35 * 24 * time.Hour

// Request asks for one message at a time.
type Request struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID // uuid.Nil when there is none
	Key       string    // unique per organisation
	To        sms.Phone
	Body      sms.Body
	Purpose   Purpose
	SendAt    time.Time // zero for now; from one that has just passed the validity counts
	ExpiresAt time.Time // zero for the purpose's own validity
	// Hours tell when it may be sent, by the recipient's clock; zero is at any hour, and so is every hour for a one-time code. They are not
	// part of what is asked for: a repeat under the same key may come with others, and changes nothing.
	Hours hours.Quiet
	// ConsentRequired has it refused without a record of how the recipient agreed. It is no part of what is asked for either.
	ConsentRequired bool
	// UnknownPolicy limits what may be done when the outcome stays unknown. By default every purpose, a one-time code as well, is sent again
	// once Twilio's list has not had it twice: an operator's time costs more than a second copy would, if there ever was one.
	UnknownPolicy send.UnknownPolicy
}

// check refuses what is wrong with a request whenever it is made.
func (r Request) check() error {
	switch {
	case r.To.IsZero():
		return edge.Invalid("to", "is missing")
	case r.Body == "":
		return edge.Invalid("body", "is missing")
	case r.Key == "" || utf8.RuneCountInString(r.Key) > send.MaxKey || send.Storable(r.Key) != r.Key:
		return edge.Invalid("idempotency_key", fmt.Sprintf("must have 1 to %d characters", send.MaxKey))
	case !slices.Contains(Purposes(), r.Purpose):
		return edge.Invalid("purpose", fmt.Sprintf("must be one of %v", Purposes()))
	}
	return nil
}

// checkTimes refuses the times that cannot be kept by now.
func (r Request) checkTimes(now time.Time) error {
	switch at := r.Due(now); {
	case !r.SendAt.IsZero() && r.ExpiresAt.IsZero() && !r.SendAt.Add(r.Purpose.validity()).After(now):
		return edge.Invalid("send_at", "has passed so long ago that the text would have expired; leave it out to send now")
	case at.After(now.Add(horizon)):
		return edge.Invalid("send_at", "must be at most 35 days ahead")
	case !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(at):
		return edge.Invalid("expires_at", "must be after send_at and in the future")
	case r.ExpiresAt.After(at.Add(horizon)):
		return edge.Invalid("expires_at", "must be at most 35 days after send_at")
	}
	return nil
}

// quiet returns when a request that is due may be sent, and whether that is later than now.
func (r Request) quiet(now time.Time) (until time.Time, quiet bool) {
	if r.Purpose == OTP {
		return now, false
	}
	until = r.Hours.Next(now)
	return until, until.After(now)
}

// Due returns when a request that is made now is to be sent.
func (r Request) Due(now time.Time) time.Time {
	if r.SendAt.After(now) {
		return r.SendAt
	}
	return now
}

// Status is the status of a job of the queue.
type Status string

// The statuses.
const (
	Pending    Status = "pending"
	Processing Status = "processing"
	Completed  Status = "completed" // Twilio has it
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
)

// Statuses are all of them.
func Statuses() []Status { return []Status{Pending, Processing, Completed, Failed, Cancelled} }

// Queued is one message of the queue, with how it ended.
type Queued struct {
	Request // SendAt and ExpiresAt are as decided, never zero

	ID          uuid.UUID
	Status      Status
	NextAt      time.Time // when a pending one is looked at next; else zero
	Attempts    int       // failed ones
	Failure     Why       // of one that failed
	Explanation string
	CreatedAt   time.Time
	EndedAt     time.Time // zero until it is at its end
	Actor       *string   // the caller that stored it, or cancelled it, as it is stored; nil when none did

	// Of the message that Send has made; empty before the first attempt.
	MessageID     uuid.UUID
	MessageStatus sms.Status
	ErrorCode     int
}

// Query selects messages of one organisation, newest first. An empty field chooses all.
type Query struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID
	Status    Status
	Purpose   Purpose
	Key       string
	Before    uuid.UUID // only messages older than this one; uuid.Max for the first page
	Limit     int
}

// MessageKey is the idempotency key of what Send makes of a queued message: it is the job's own, so that every worker of the job sends
// the same.
func MessageKey(id string) string { return "outbound:" + id }

// Why tells why a message failed, for machines.
type Why string

// The failures.
const (
	Expired      Why = "expired"       // it could not be sent in time
	OptedOut     Why = "opted_out"     // the recipient has said STOP
	RemindersOff Why = "reminders_off" // the recipient wants no reminders, and it is one; an older release says OptedOut
	Rejected     Why = "rejected"      // Twilio refused it for good
	Undecided    Why = "undecided"     // whether Twilio has it could not be found out in time
	GivenUp      Why = "given_up"      // an operator gave its message up
	Broken       Why = "error"         // our error, every time
)

// Failure tells why a message is never sent. Its words hold neither a number nor a body.
type Failure struct {
	Why   Why
	Words string
}

func (f *Failure) Error() string { return f.Words }
