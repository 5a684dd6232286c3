// Package inbound is the conversation router: it takes a text of a person, keeps it, and decides what it answers.
package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/session"
)

// EventMessage is the type of a job that carries a text of a person.
const EventMessage = "twilio.message.received"

// EventWhatsApp is the type of a job that carries a WhatsApp message of a person, as Kapso posted it.
const EventWhatsApp = "kapso.message.received"

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
	// ReceivedAt is when Twilio got a text whose webhook never came; zero for one that its webhook brought.
	ReceivedAt time.Time `json:"received_at,omitzero"`
	// Channel is how it came when not by SMS, such as whatsapp. Then To is an address of that channel, which only the organisation
	// that its job is of can own. It is answered by SMS.
	Channel string `json:"channel,omitempty"`
	// SentAt is WhatsApp's Unix time of it. A delivery that failed is repeated for minutes, and later words may have come before it.
	SentAt string `json:"sent_at,omitempty"`
	OrgID  string `json:"-"` // of its job; set by the router, when there is a Channel
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
	EffectDoubtful  // free words that may be an opt-out: an operator has to say
)

// Recorded is messaging's answer for a stored text, the same on every repeat but for InForce.
type Recorded struct {
	MessageID string
	OrgID     string
	Effect    Effect
	InForce   bool          // of an opt-out: no later word has undone it by now; this may change from one repeat to the next
	LateBy    time.Duration // since it was said, of a late text; zero for every other
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
	// LoadSession is a session and its person; dispatch.ErrNoSession.
	LoadSession(ctx context.Context, id string) (dispatch.View, error)
}

type inboundJobs interface {
	Enqueue(ctx context.Context, n jobs.New) (jobs.Enqueued, error)
	// Job reads a job; queue.ErrNoJob.
	Job(ctx context.Context, orgID, id string) (queue.Row, error)
	// CancelJob ends a pending or a failed job; queue.ErrNoJob, a *queue.StatusError.
	CancelJob(ctx context.Context, orgID, id string, now time.Time) (queue.Row, error)
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
	// ConversationAt is LoadConversation of the sessions that there were at an instant.
	ConversationAt(ctx context.Context, orgID, phone string, at time.Time) (dispatch.View, error)
	// LastStepAt is since when a reply may answer the newest scheduled message of a session; zero when none was taken.
	LastStepAt(ctx context.Context, sessionID string) (time.Time, error)
	// LastTextAt is the same of the newest text of any kind.
	LastTextAt(ctx context.Context, sessionID string) (time.Time, error)
	// AwaitsOperator reports whether a failed job of a phone asks an operator for something already.
	AwaitsOperator(ctx context.Context, orgID, phone string) (bool, error)
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
	Queue     inboundJobs
	Runner    runner
	Messaging recorder
	People    directory
	Sessions  conversations
	History   history
	Delivery  deliverer
	Alarms    publisher
	Flow      session.Flow
	OnLate    func(ctx context.Context, m Message, recorded Recorded) // hears of every late text that is recorded; may be nil
	Threads   telemetry.Threads
	Log       *slog.Logger
	Now       func() time.Time
}

// inlineBudget is how long a callback may work on a text before the loop takes it over. Twilio waits four seconds.
const inlineBudget = 3 * time.Second

// Receive stores a text as a job and has messaging record it, which applies STOP, START and HELP; then it answers it in
// the caller's time as far as the budget goes. After an error the caller is to repeat the call; the job is tried again
// all the same. Errors: ErrInvalid, ErrUnknownSender, jobs.ErrPayloadMismatch, and what the ports return.
func (r *Router) Receive(ctx context.Context, m Message) (duplicate bool, err error) {
	kept, err := r.Keep(ctx, m)
	if err != nil {
		return kept.Duplicate, err
	}
	return kept.Duplicate, r.Take(ctx, m, kept)
}

// Keep stores a text as a job, once per SID; from then on it is not lost. Errors: ErrInvalid, jobs.ErrPayloadMismatch.
func (r *Router) Keep(ctx context.Context, m Message) (jobs.Enqueued, error) {
	if m.SID == "" || m.From == "" || m.To == "" {
		return jobs.Enqueued{}, ErrInvalid
	}
	payload, err := json.Marshal(m)
	if err != nil {
		return jobs.Enqueued{}, fmt.Errorf("encode text: %w", err)
	}
	now := r.Now()
	return r.Queue.Enqueue(ctx, jobs.New{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: r.OrgID, Key: m.SID, Source: jobs.SourceTwilio, EventType: EventMessage,
		Subject: m.From, Payload: payload, At: now, DueAt: now.Add(inlineBudget),
	})
}

// Take has a text that is kept recorded, and answers it as far as the budget goes.
func (r *Router) Take(ctx context.Context, m Message, kept jobs.Enqueued) error {
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	text := Resumed{Place: anyPlace, Message: m}
	recorded, err := r.record(ctx, m, text.received(jobs.Job{CreatedAt: kept.CreatedAt}))
	if err != nil {
		return err
	}
	err = r.Runner.Try(ctx, kept.ID, func(ctx context.Context, j jobs.Job) error {
		return r.answer(ctx, j, text, recorded)
	})
	if err != nil { // the text is safe in its job, and consent has been applied
		r.Log.WarnContext(ctx, "onboarding.inbound_left_to_loop", "job_id", kept.ID, "error", err)
	}
	return nil
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

// received is when a text reached us, or its carrier if it came to us late.
func (m Resumed) received(j jobs.Job) time.Time {
	at, _ := m.dated(j)
	return at
}

// before reports whether a text came before something of ours. A carrier's time may be that of anything within its second.
func (m Resumed) before(j jobs.Job, ours time.Time) bool {
	at, byCarrier := m.dated(j)
	if byCarrier {
		ours = ours.Truncate(time.Second)
	}
	return at.Before(ours)
}

// dated is received, and whether the carrier says so, whose times are in whole seconds.
func (m Resumed) dated(j jobs.Job) (at time.Time, byCarrier bool) {
	if m.Message.Late() {
		return m.Message.ReceivedAt, true
	}
	here := m.ReceivedAt
	if here.IsZero() {
		here = j.CreatedAt
	}
	if said, known := m.Message.sentAt(); known && here.Sub(said) > slack {
		return said, true
	}
	return here, false
}

// slack is by how much a carrier's clock, which tells whole seconds, may differ from ours without meaning anything.
const slack = 2 * time.Second

// sentAt is when the carrier says that the person wrote.
func (m Message) sentAt() (time.Time, bool) {
	seconds, err := strconv.ParseInt(m.SentAt, 10, 64)
	return time.Unix(seconds, 0), err == nil && seconds > 0
}

// until is the last instant at which the text can have reached us: Twilio's own record tells whole seconds.
func (m Resumed) until(j jobs.Job) time.Time {
	if m.Message.Late() {
		return m.Message.ReceivedAt.Add(time.Second - time.Microsecond)
	}
	return m.received(j)
}

// Apply has messaging record a text that came as a job, before the job's turn comes: a STOP counts as soon as it is acknowledged,
// whatever else is still to be done for that person. The job does the rest. Errors are those of Receive.
func (r *Router) Apply(ctx context.Context, j jobs.Job) error {
	var m Message
	if err := json.Unmarshal(j.Payload, &m); err != nil {
		return nil // the job fails for it, visibly
	}
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	m.OrgID = j.OrgID
	_, err := r.record(ctx, m, Resumed{Place: anyPlace, Message: m}.received(j))
	if errors.Is(err, ErrUnknownSender) || errors.Is(err, ErrInvalid) {
		return nil // the same
	}
	return err
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
	m.Message.OrgID = j.OrgID
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
	orgID := r.OrgID
	if m.Channel != "" {
		orgID = m.OrgID
	}
	profileID, err := r.People.ProfileID(ctx, orgID, m.From)
	if err != nil {
		return Recorded{}, err
	}
	recorded, err := r.Messaging.Record(ctx, m, profileID, received)
	if err != nil {
		return Recorded{}, fmt.Errorf("record text: %w", err)
	}
	if m.Channel != "" && recorded.OrgID != orgID { // its id is that of a text of somebody else's
		return Recorded{}, ErrUnknownSender
	}
	if m.Late() {
		recorded.LateBy = max(r.Now().Sub(m.ReceivedAt), time.Second)
		if r.OnLate != nil {
			r.OnLate(ctx, m, recorded)
		}
	}
	return recorded, nil
}
