// Package events tells the host application what happened: a log, numbered by one sequencer, and subscriptions that have it
// posted to them. Whatever happens is written to an outbox in its own transaction; nothing here is waited for by a conversation.
package events

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"
)

// types lists every type of event. docs/events.md explains them, proto/openapi.yaml has the fields of their data.
var types = []string{
	"session.activated", "session.advanced", "session.paused", "session.parked", "session.resumed", "session.completed", "session.stopped",
	"session.closed",
	"message.accepted", "message.delivered", "message.undelivered", "message.received",
	"consent.opted_in", "consent.opted_out",
	"engagement.state_changed", "engagement.goodbye_response", "engagement.unprompted_return", "engagement.preference_changed",
	"engagement.tier_completed", "engagement.magic_moment", "engagement.run_finished",
	"ticket.opened", "ticket.assigned", "ticket.answered", "ticket.closed",
	"goal.scheduled", "goal.rescheduled", "goal.started", "goal.completed", "goal.failed", "goal.cancelled",
}

// Types lists every type of event.
func Types() []string { return slices.Clone(types) }

var (
	// ErrLost is a write of a sequencer that another one has taken over from.
	ErrLost = errors.New("another process numbers the events now")
	// ErrNoSubscription is a subscription that the organisation does not have.
	ErrNoSubscription = errors.New("the organisation has no such subscription")
	// ErrNoDelivery is a delivery that it does not have.
	ErrNoDelivery = errors.New("the organisation has no such delivery")
	// ErrPaused is a delivery of a paused subscription, which is not tried again before that is resumed.
	ErrPaused = errors.New("the subscription of this delivery is paused; resume the subscription first, then replay")
	// errEnded is a delivery of an organisation that has ended.
	errEnded = errors.New("the organisation has ended")
	// ErrTooMany is one subscription more than an organisation may have.
	ErrTooMany = errors.New("the organisation has 20 subscriptions; delete one first")
	// ErrRotating is a second rotation while events are still signed with the secret before: it would end the one that receivers use.
	ErrRotating = errors.New("the secret was rotated within 24 hours, and receivers may still check with the one before; " +
		"rotate when they are over, or make a new subscription")
	// ErrFull is one stream more than may be open.
	ErrFull = errors.New("as many streams of events are open as may be; close one, or try again")
	// ErrDraining is a stream of a process that ends.
	ErrDraining = errors.New("the process ends; connect again")
)

// ErrAhead is a reader that was further than the log goes: it reads another log, or the database was restored.
var ErrAhead = errors.New("after is beyond the end of the log: it is of another environment, or the log was restored from a backup")

// DeletedError is a reader that has missed something: the log does not go back so far.
type DeletedError struct{ UpTo int64 }

func (*DeletedError) Error() string { return "events that were asked for are not kept any more" }

// MaxSubscriptions bounds the subscriptions of an organisation.
const MaxSubscriptions = 20

// Event is one event of the log.
type Event struct {
	Seq         int64
	ID          string
	OrgID       string
	Type        string
	Subject     string
	Time        time.Time
	CausationID string
	Data        json.RawMessage // an object
	RecordedAt  time.Time       // when it got its number; never earlier than that of the event ahead of it
}

// Source is a CloudEvent's source.
func (e Event) Source() string { return "/paceline/orgs/" + e.OrgID }

// JSON is the event in the JSON format of CloudEvents, as the API shows it, too.
func (e Event) JSON() (json.RawMessage, error) {
	return json.Marshal(map[string]any{
		"specversion": "1.0", "id": e.ID, "source": e.Source(), "type": e.Type, "subject": e.Subject,
		"time": e.Time.UTC().Format(time.RFC3339Nano),
		"seq":  strconv.FormatInt(e.Seq, 10), "causationid": e.CausationID, "data": e.Data,
	})
}

// Incoming is an event of messaging's outbox. Onboarding knows its person by the phone where messaging does not know the profile.
type Incoming struct {
	Event

	Row       int64
	ProfileID string
	Phone     string
}

// Status of a subscription.
type Status string

// The statuses.
const (
	Active Status = "active"
	Paused Status = "paused"
)

// Why a subscription is paused.
const (
	PausedByHand  = "by hand"
	pausedFailing = "every delivery failed for three days"
	pausedGone    = "the subscriber answered 410 Gone"
	pausedBehind  = "it fell behind what the log keeps"
)

// Subscription is a URL that events are posted to.
type Subscription struct {
	ID, OrgID      string
	URL            string
	Types          []string // empty for all
	Body           bool     // the text of messages is fetched and added
	Secret         []byte
	OldSecret      []byte // valid until OldSecretUntil
	OldSecretUntil time.Time
	Status         Status
	PausedReason   string
	Cursor         int64
	FailingSince   time.Time
	Ended          bool // its organisation
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Wants reports whether an event is posted to the subscription.
func (s Subscription) Wants(e Event) bool {
	return len(s.Types) == 0 || slices.Contains(s.Types, e.Type)
}
