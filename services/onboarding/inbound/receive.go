// Package inbound is the conversation router: it takes a text of a person, keeps it, and decides what it answers.
package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/session"
)

// EventMessage is the type of a job that carries a text of a person.
const EventMessage = "twilio.message.received"

// Message is one text as Twilio posted it, and the payload of its job.
type Message struct {
	SID                 string `json:"twilio_sid"`
	From                string `json:"from"`
	To                  string `json:"to"`
	MessagingServiceSID string `json:"messaging_service_sid"`
	Body                string `json:"body"`
	Segments            int    `json:"segments"`
	Media               int    `json:"media"`
	OptOutType          string `json:"opt_out_type"`
}

// Effect is what a text did to consent.
type Effect int

// The effects.
const (
	EffectNone Effect = iota + 1
	EffectOptOut
	EffectOptIn
	EffectHelp
	EffectOvertaken // a word about consent that the person has taken back meanwhile
)

// Recorded is messaging's answer for a stored text, the same on every repeat.
type Recorded struct {
	MessageID string
	OrgID     string
	Effect    Effect
}

// ErrUnknownSender is a text to a number that no organisation owns. No retry can help.
var ErrUnknownSender = errors.New("inbound: no organisation owns the number that this was sent to")

// ErrInvalid is a callback without the fields that every text has.
var ErrInvalid = errors.New("inbound: MessageSid, From and To are required")

type recorder interface {
	// Record stores a text that reached us at the given time.
	Record(ctx context.Context, m Message, profileID string, received time.Time) (Recorded, error)
}

type directory interface {
	// ProfileID is whose phone it is, empty when the organisation does not know it.
	ProfileID(ctx context.Context, orgID, phone string) (string, error)
}

type queue interface {
	Enqueue(ctx context.Context, n jobs.New) (jobs.Enqueued, error)
}

type runner interface {
	Try(ctx context.Context, id string, handle jobs.Handler) error
}

type conversations interface {
	LoadConversation(ctx context.Context, orgID, phone string) (dispatch.View, error)
	Move(ctx context.Context, m session.Move, cause *dispatch.Cause) error
	Note(ctx context.Context, sessionID string, entries []session.Entry, cause *dispatch.Cause, at time.Time) error
	Hold(ctx context.Context, at session.Record, cause dispatch.Cause, entry session.Entry) error
}

type history interface {
	// LastStepAt is since when a reply may answer the newest scheduled message of a session; zero when none was taken.
	LastStepAt(ctx context.Context, sessionID string) (time.Time, error)
}

type deliverer interface {
	Deliver(ctx context.Context, o dispatch.Order) (dispatch.Done, error)
}

type publisher interface {
	Publish(ctx context.Context, a session.Alarm) error
}

// Router routes texts.
type Router struct {
	OrgID     string // owns the configured sender; jobs are stored under it
	Queue     queue
	Runner    runner
	Messaging recorder
	People    directory
	Sessions  conversations
	History   history
	Delivery  deliverer
	Alarms    publisher
	Flow      session.Flow
	Log       *slog.Logger
	Now       func() time.Time
}

// inlineBudget is how long a callback may work on a text before the loop takes it over. Twilio waits four seconds.
const inlineBudget = 3 * time.Second

// Receive stores a text as a job and has messaging record it, which applies STOP, START and HELP; then it answers it in
// the caller's time as far as the budget goes. After an error the caller is to repeat the call; the job is tried again
// all the same. Errors: ErrInvalid, ErrUnknownSender, jobs.ErrPayloadMismatch, and what the ports return.
func (r *Router) Receive(ctx context.Context, m Message) (duplicate bool, err error) {
	if m.SID == "" || m.From == "" || m.To == "" {
		return false, ErrInvalid
	}
	payload, err := json.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("encode text: %w", err)
	}
	now := r.Now()
	stored, err := r.Queue.Enqueue(ctx, jobs.New{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: r.OrgID, Key: m.SID, Source: jobs.SourceTwilio, EventType: EventMessage,
		Subject: m.From, Payload: payload, At: now, DueAt: now.Add(inlineBudget),
	})
	if err != nil {
		return stored.Duplicate, err
	}
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	recorded, err := r.record(ctx, m, stored.CreatedAt)
	if err != nil {
		return stored.Duplicate, err
	}
	err = r.Runner.Try(ctx, stored.ID, func(ctx context.Context, j jobs.Job) error {
		return r.answer(ctx, j, Resumed{Place: anyPlace, Message: m}, recorded)
	})
	if err != nil { // the text is safe in its job, and consent has been applied
		r.Log.WarnContext(ctx, "onboarding.inbound_left_to_loop", "job_id", stored.ID, "error", err)
	}
	return stored.Duplicate, nil
}

// Handle is the job handler for texts that were not answered in their callback's time.
func (r *Router) Handle(ctx context.Context, j jobs.Job) error {
	var m Message
	if err := json.Unmarshal(j.Payload, &m); err != nil {
		return &jobs.Permanent{Cause: fmt.Errorf("decode text: %w", err)}
	}
	return r.handle(ctx, j, Resumed{Place: anyPlace, Message: m})
}

// Resumed is a text that was held, or whose answer was under way when its session was parked, and the payload of the job that
// takes it up. It answers only what it was meant for.
type Resumed struct {
	Place      int       `json:"place"` // session.Record.Place
	Message    Message   `json:"message"`
	ReceivedAt time.Time `json:"received_at"` // when it reached us; zero for a text that comes in its own job
}

// received is when a text reached us.
func (m Resumed) received(j jobs.Job) time.Time {
	if m.ReceivedAt.IsZero() {
		return j.CreatedAt
	}
	return m.ReceivedAt
}

// anyPlace is the place of a text that was never tied to one.
const anyPlace = -1

// HandleResumed is the job handler for texts that are taken up after they were held, or after their session was parked.
func (r *Router) HandleResumed(ctx context.Context, j jobs.Job) error {
	var m Resumed
	if err := json.Unmarshal(j.Payload, &m); err != nil {
		return &jobs.Permanent{Cause: fmt.Errorf("decode text: %w", err)}
	}
	return r.handle(ctx, j, m)
}

func (r *Router) handle(ctx context.Context, j jobs.Job, m Resumed) error {
	recorded, err := r.record(ctx, m.Message, m.received(j))
	switch {
	case errors.Is(err, ErrUnknownSender), errors.Is(err, ErrInvalid):
		return &jobs.Permanent{Cause: err}
	case err != nil:
		return dispatch.Soften(err, r.Now().Sub(j.CreatedAt))
	}
	return r.answer(ctx, j, m, recorded)
}

// record has messaging keep the text under its person, if we know them. When it reached us is told, too: its recording may
// come late, and a STOP or START counts from when it was said.
func (r *Router) record(ctx context.Context, m Message, received time.Time) (Recorded, error) {
	profileID, err := r.People.ProfileID(ctx, r.OrgID, m.From)
	if err != nil {
		return Recorded{}, err
	}
	recorded, err := r.Messaging.Record(ctx, m, profileID, received)
	if err != nil {
		return Recorded{}, fmt.Errorf("record text: %w", err)
	}
	return recorded, nil
}
