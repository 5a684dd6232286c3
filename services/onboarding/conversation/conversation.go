// Package conversation is the one orchestrator of sessions: who takes part, what a reply of a person leads to, which step is sent when,
// and what an operator does about what stopped. It loads, asks the pure package session for a decision, performs it and records it.
//
// Each of our messages goes through deliver, every change of a session through Store.Move, and every alarm through the outbox.
package conversation

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"paceline.internal/platform/outbox"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Config has what a Service works with.
type Config struct {
	OrgID   string // owns the configured sender, and sees dead letters that name no known session
	Store   store
	Carrier carrier
	Outbox  outbox.Rows[session.Alarm]
	QStash  outbox.Publisher
	Timer   timer           // rings in this process what is due soon; nil where QStash rings, or scheduling is disabled
	Flow    session.Flow    // the deployment's own conversation
	Flows   published       // of organisations
	Host    host            // the application that flows call
	Catalog catalog.Catalog // new sessions pin its current version
	Metrics *Metrics        // nil measures nothing
	Spans   telemetry.Conversations
	Numbers phone.Policy // whom we text
	// ActivationsPerDay limits how many sessions of a person may be begun within 24 hours; 0 for any number.
	ActivationsPerDay int
	// ActivationFlow is the published flow of an activation that names none; empty for the deployment's own conversation.
	ActivationFlow string
	// QStashReach sets how far ahead QStash's plan takes an alarm; later ones wait in the outbox.
	QStashReach time.Duration
	// SchedulingDisabled keeps alarms in the outbox. They are published once it is lifted.
	SchedulingDisabled bool

	Log *slog.Logger
	Now func() time.Time
}

// Service holds conversations. It is safe for concurrent use, and several processes may each have one.
type Service struct {
	Config

	// Alarms is the one way to QStash.
	Alarms *outbox.Outbox[session.Alarm]
	// Jobs runs webhook_jobs.
	Jobs *queue.Runner

	lastStep atomic.Int64 // when a step began, in nanoseconds since 1970
}

// New makes a Service; its Jobs are still to be set.
func New(cfg Config) *Service {
	c := &Service{Config: cfg}
	c.Alarms = c.newOutbox()
	return c
}

// View is a session and its person, as one read of the database saw them.
type View struct {
	Session     session.Record
	Phone       string // E.164
	FirstName   string
	Locale      string
	Zone        *time.Location // where the person is, as far as it is known
	Hold        bool
	HoldVersion int64
	Fields      map[string]any // that flows have learnt, as JSON has them; read for a published flow only
	Texts       []byte         // of engagement and goals that the organisation has decided; ConversationOf reads them
	// TicketID is of the ticket that is not closed, and Distress are the organisation's words, nil when it has decided nothing.
	// Conversation reads them.
	TicketID string
	Distress []string
	// SchedulingPaused says that an operator has paused the organisation: its alarms are not published, and no step is sent.
	SchedulingPaused bool
}

// Snapshot returns the part of the record that decisions need.
func (v View) Snapshot() session.Snapshot { return v.Session.Snapshot(v.Hold) }

// What a conversation meets that is no fault of the request.
var (
	// ErrHeld reports a person who was put on a safety hold between a decision and its message. It is a people.ErrConflict: the
	// next read sees the hold.
	ErrHeld = fmt.Errorf("%w: the person is on a safety hold", people.ErrConflict)
	// ErrMessageMissing reports an acceptance without a stored message or its provider id. Nothing was advanced.
	ErrMessageMissing = errors.New("messaging answered accepted without a message row that has a provider id and a time")
)

// Refusals. Each says what to do instead.
var (
	ErrNoSession       = errors.New("there is no such session in this organisation")
	ErrNoDeadLetter    = errors.New("there is no such dead letter in this organisation")
	ErrConsentRequired = errors.New("the settings of the organisation require a consent record: " +
		"give consent {source, words_shown, collected_at}")
	ErrFlowSendsNothing = errors.New("the flow sends this person nothing: its conditions lead to no text")
	ErrTicketOpen       = errors.New("the person has a ticket, with words that somebody is to read and answer; close it first: " +
		"GET /v1/tickets?profile_id={profile_id}, POST /v1/tickets/{ticket_id}:close")
	ErrEnded = errors.New("the session has ended; activate the profile to begin a new one " +
		"(after STOP the person texts START first)")
	ErrOtherOpen = errors.New("the person has another open session; reset that one first, or leave this one parked")
)

// OtherFlowOpen refuses a flow for a person who is in another conversation. It is an ErrOtherOpen.
type OtherFlowOpen struct{ Session session.Record }

func (o *OtherFlowOpen) Error() string {
	in := "the built-in conversation"
	if o.Session.Flow != "" {
		in = "the flow " + o.Session.Flow
	}
	return fmt.Sprintf("the person is in %s, in session %s; wait until it is over, or end it with POST /v1/sessions/%s:reset, "+
		"and activate again", in, o.Session.ID, o.Session.ID)
}

// Is reports that it is an ErrOtherOpen.
func (o *OtherFlowOpen) Is(target error) bool { return target == ErrOtherOpen }
