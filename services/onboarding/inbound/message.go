package inbound

import (
	"encoding/json"
	"strconv"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
)

// Message is one message of a person as Twilio or Kapso posted it, and the payload of its job.
type Message struct {
	SID                 string `json:"twilio_sid"`
	From                string `json:"from"`
	To                  string `json:"to"`
	MessagingServiceSID string `json:"messaging_service_sid"`
	Body                string `json:"body"`
	Segments            int    `json:"segments"`
	Media               int    `json:"media"`
	OptOutType          string `json:"opt_out_type"`
	// ReceivedAt is the time when Twilio got a message that no webhook brought; zero for one that its webhook brought.
	ReceivedAt time.Time `json:"received_at,omitzero"`
	// Channel is the channel by which it came when not by SMS, such as whatsapp. Then To is an address of that channel, which only the
	// organisation that its job is of can own. It is answered by SMS.
	Channel string `json:"channel,omitempty"`
	Type    string `json:"type,omitempty"` // of that channel, such as button
	// SentAt is WhatsApp's Unix time of it. A delivery that failed is repeated for minutes, and later words may have come before it.
	SentAt string `json:"sent_at,omitempty"`
	// UserID is WhatsApp's id of a person, if their number came with it; see whatsapp.go.
	UserID string `json:"-"`
	// Account is the Twilio account that an SMS came through; empty for that of the environment.
	Account string `json:"account_sid,omitempty"`
	OrgID   string `json:"-"` // of its job
	// Owner is the organisation that must own what it was sent to; empty where messaging alone says whose that is.
	Owner string `json:"-"`
	// Before and After are SIDs of what the carrier lists of the same person before this message and after it.
	Before []string `json:"-"`
	After  []string `json:"-"`
	Queued bool     `json:"-"` // whether its answer is left to the queue, for others of the same delivery wait behind it
}

// Late reports whether a message was found in Twilio's record of it because its webhook never came.
func (m Message) Late() bool { return !m.ReceivedAt.IsZero() }

// sentAt returns when the carrier says that the person wrote.
func (m Message) sentAt() (time.Time, bool) {
	seconds, err := strconv.ParseInt(m.SentAt, 10, 64)
	return time.Unix(seconds, 0), err == nil && seconds > 0
}

// Recorded is messaging's answer for a stored message, the same on every repeat but for InForce.
type Recorded struct {
	MessageID string
	OrgID     string
	Effect    conversation.Effect
	InForce   bool // of an opt-out: no later word has undone it by now; this may change from one repeat to the next
	// Preferences has what it asks about reminders and tips, which messaging has applied.
	Preferences conversation.Preferences
	LiftsHold   bool // they were held by their own words, were asked, and want the texts to go on
}

// reply is a message of a person at work, and the payload of a job that takes up one which was held, or was being answered when
// its session was parked. Such a one answers only what it was meant for.
type reply struct {
	Place      int       `json:"place"` // session.Record.Place; conversation.AnyPlace for one as it came
	Message    Message   `json:"message"`
	ReceivedAt time.Time `json:"received_at"` // when it reached us
	lateBy     time.Duration
	ahead      bool // recorded before its job's turn, which reports it if it is late
}

// replyIn reads the message that a job carries.
func replyIn(j queue.Job) (reply, error) {
	m := reply{Place: conversation.AnyPlace}
	into := any(&m.Message)
	if j.EventType == conversation.EventResumedReply {
		into = &m
	}
	if err := json.Unmarshal(j.Payload, into); err != nil {
		return reply{}, conversation.Unreadable(j, err)
	}
	m.Message.OrgID, m.Message.From = j.OrgID, writerOf(m.Message.From)
	if m.ReceivedAt.IsZero() { // it came in its own job
		m.ReceivedAt = j.CreatedAt
	}
	return m, nil
}

// slack is by how much a carrier's clock, which has whole seconds, may differ from ours without meaning anything.
const slack = 2 * time.Second

// said returns when the person wrote, and whether that is the carrier's time, which is in whole seconds.
func (m reply) said() (at time.Time, byCarrier bool) {
	if m.Message.Late() {
		return m.Message.ReceivedAt, true
	}
	if at, known := m.Message.sentAt(); known && m.ReceivedAt.Sub(at) > slack {
		return at, true
	}
	return m.ReceivedAt, false
}

// until is the last instant at which the message can have reached us: a carrier's time has whole seconds.
func (m reply) until() time.Time {
	at, byCarrier := m.said()
	if byCarrier {
		return at.Add(time.Second - time.Microsecond)
	}
	return at
}

// heard is the message as it is read, once it is recorded.
func (m reply) heard(j queue.Job, r Recorded) conversation.Reply {
	at, byCarrier := m.said()
	return conversation.Reply{
		Heard: conversation.Heard{
			OrgID: r.OrgID, Phone: m.Message.From, MessageID: r.MessageID, Body: m.Message.Body, At: at, Effect: r.Effect,
			Preferences: r.Preferences, Job: j,
		},
		ReceivedAt: m.ReceivedAt, ByCarrier: byCarrier, LateBy: m.lateBy, LiftsHold: r.LiftsHold, Place: m.Place,
	}
}
