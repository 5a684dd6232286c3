package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"paceline.internal/platform/queue"
)

// Inbound is one message of a person as Twilio or Kapso posted it, and the payload of its job.
type Inbound struct {
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
	OrgID  string `json:"-"` // of its job
	Queued bool   `json:"-"` // whether its answer is left to the queue, for others of the same delivery wait behind it
}

// Late reports whether a message was found in Twilio's record of it because its webhook never came.
func (m Inbound) Late() bool { return !m.ReceivedAt.IsZero() }

// sentAt returns when the carrier says that the person wrote.
func (m Inbound) sentAt() (time.Time, bool) {
	seconds, err := strconv.ParseInt(m.SentAt, 10, 64)
	return time.Unix(seconds, 0), err == nil && seconds > 0
}

// Effect is the effect of a message on consent.
type Effect int

// The effects.
const (
	EffectNone Effect = iota + 1
	EffectOptOut
	EffectOptIn
	EffectHelp
	EffectOvertaken // a word about consent that the person has taken back meanwhile
	EffectAmbiguous // free words that may be an opt-out: an operator decides
)

// String is the effect's name in lower case, for logs and metrics.
func (e Effect) String() string {
	return map[Effect]string{
		EffectNone: "none", EffectOptOut: "opt_out", EffectOptIn: "opt_in", EffectHelp: "help", EffectOvertaken: "overtaken",
		EffectAmbiguous: "doubtful",
	}[e]
}

// Recorded is messaging's answer for a stored message, the same on every repeat but for InForce.
type Recorded struct {
	MessageID string
	OrgID     string
	Effect    Effect
	InForce   bool // of an opt-out: no later word has undone it by now; this may change from one repeat to the next
	// Preferences has what it asks about reminders and tips, which messaging has applied.
	Preferences Preferences
	LiftsHold   bool // they were held by their own words, were asked, and want the texts to go on
}

// reply is a message of a person at work, and the payload of a job that takes up one which was held, or was being answered when
// its session was parked. Such a one answers only what it was meant for.
type reply struct {
	Place      int       `json:"place"` // session.Record.Place; anyPlace for one as it came
	Message    Inbound   `json:"message"`
	ReceivedAt time.Time `json:"received_at"` // when it reached us
	lateBy     time.Duration
}

// anyPlace is the place of a message that was never tied to one.
const anyPlace = -1

// replyIn reads the message that a job carries.
func replyIn(j queue.Job) (reply, error) {
	m := reply{Place: anyPlace}
	into := any(&m.Message)
	if j.EventType == EventResumedReply {
		into = &m
	}
	if err := json.Unmarshal(j.Payload, into); err != nil {
		return reply{}, Unreadable(j, err)
	}
	m.Message.OrgID, m.Message.From = j.OrgID, senderOf(m.Message.From)
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

// before reports whether a message came before the time ours. A carrier's time may be that of anything within its second.
func (m reply) before(ours time.Time) bool {
	at, byCarrier := m.said()
	if byCarrier {
		ours = ours.Truncate(time.Second)
	}
	return at.Before(ours)
}

// until is the last instant at which the message can have reached us: Twilio's own record has whole seconds.
func (m reply) until() time.Time {
	at, _ := m.said()
	if m.Message.Late() {
		return at.Add(time.Second - time.Microsecond)
	}
	return at
}

// dated is a detail of the timeline, with how late the message is that it is about.
func (m reply) dated(detail string) string {
	if m.lateBy == 0 {
		return detail
	}
	late := "late by " + m.lateBy.Round(time.Second).String()
	if detail == "" {
		return late
	}
	return detail + "; " + late
}

// inlineBudget sets how long a callback may work on a message before the loop takes it over. Twilio waits four seconds.
const inlineBudget = 3 * time.Second

// Receive stores a message as a job and has messaging record it, which applies STOP, START and HELP; then it answers it in
// the caller's time as far as the budget goes. After an error the caller is to repeat the call; the job is tried again
// all the same. Errors: ErrInvalidMessage, ErrUnknownSender, queue.ErrPayloadMismatch, and what the ports return.
func (c *Service) Receive(ctx context.Context, m Inbound) (queue.Enqueued, error) {
	m.From = senderOf(m.From)
	if err := c.learnUser(ctx, m); err != nil {
		return queue.Enqueued{}, err
	}
	kept, err := c.keep(ctx, m)
	if err != nil {
		return kept, err
	}
	err = c.answerInline(ctx, m, kept)
	if m.Channel != "" && (errors.Is(err, ErrUnknownSender) || errors.Is(err, ErrInvalidMessage) || errors.Is(err, ErrNumberless)) {
		err = nil // the job fails for it, visibly, and Kapso would only repeat it
	}
	return kept, err
}

// keep stores a message as a job, once per SID; from then on it is not lost. Errors: ErrInvalidMessage, queue.ErrPayloadMismatch.
func (c *Service) keep(ctx context.Context, m Inbound) (queue.Enqueued, error) {
	if m.SID == "" || m.From == "" || m.To == "" {
		return queue.Enqueued{}, ErrInvalidMessage
	}
	stored := any(m)
	if m.Channel != "" { // as the gateway of the release before stores it itself: with these two also when they are empty
		stored = struct {
			Inbound

			Type   string `json:"type"`
			SentAt string `json:"sent_at"`
		}{m, m.Type, m.SentAt}
	}
	payload, err := json.Marshal(stored)
	if err != nil {
		return queue.Enqueued{}, fmt.Errorf("encode message: %w", err)
	}
	job := NewJob(c.OrgID, SourceTwilio, EventMessage, m.SID, m.From, payload, c.Now())
	if m.Channel != "" {
		job = NewJob(c.OrgID, SourceKapso, EventWhatsApp, EventWhatsApp+":"+m.SID, m.From, payload, c.Now())
	}
	if !m.Queued {
		job.DueAt = job.At.Add(inlineBudget)
	}
	return c.Store.Enqueue(ctx, job)
}

// answerInline has a message that is kept recorded, and answers it as far as the budget goes.
func (c *Service) answerInline(ctx context.Context, m Inbound, kept queue.Enqueued) error {
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	m.OrgID = c.OrgID
	message := reply{Place: anyPlace, Message: m, ReceivedAt: kept.CreatedAt}
	_, recorded, err := c.record(ctx, &message)
	if err != nil || m.Queued {
		return err
	}
	err = c.Jobs.Try(ctx, kept.ID, func(ctx context.Context, j queue.Job) error { return c.answer(ctx, j, message, recorded, View{}) })
	if err != nil { // the message is safe in its job, and consent has been applied
		c.Log.WarnContext(ctx, "onboarding.inbound_left_to_loop", "job_id", kept.ID, "error", err)
	}
	return nil
}

// Apply has messaging record a message that came as a job, before the job's turn comes: a STOP counts as soon as it is acknowledged,
// whatever else is still to be done for that person. The job does the rest. Errors are those of Receive.
func (c *Service) Apply(ctx context.Context, j queue.Job) error {
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	m, err := replyIn(j)
	if err == nil {
		_, _, err = c.record(ctx, &m)
	}
	_, unreadable := errors.AsType[*queue.Permanent](err)
	if unreadable || errors.Is(err, ErrUnknownSender) || errors.Is(err, ErrInvalidMessage) || errors.Is(err, ErrNumberless) {
		return nil // the job fails for it, visibly
	}
	return err
}

// HandleReply is the job handler for messages that were not answered in their callback's time, and for those that are taken up again.
func (c *Service) HandleReply(ctx context.Context, j queue.Job) error {
	m, err := replyIn(j)
	if err != nil {
		return err
	}
	view, recorded, err := c.record(ctx, &m)
	switch {
	case errors.Is(err, ErrUnknownSender), errors.Is(err, ErrInvalidMessage), errors.Is(err, ErrNumberless):
		return &queue.Permanent{Cause: err}
	case err != nil:
		return Ended(err, c.Now().Sub(j.CreatedAt))
	}
	return c.answer(ctx, j, m, recorded, view)
}

// record reads the person and has messaging record their message, with when it reached us: its recording may come late, and a
// STOP or START counts from when it was said.
func (c *Service) record(ctx context.Context, m *reply) (View, Recorded, error) {
	orgID := c.OrgID
	if m.Message.Channel != "" {
		orgID = m.Message.OrgID
	}
	if err := c.nameSender(ctx, &m.Message, orgID); err != nil {
		return View{}, Recorded{}, err
	}
	view, err := c.Store.Conversation(ctx, orgID, m.Message.From)
	if err != nil {
		return View{}, Recorded{}, err
	}
	at, _ := m.said()
	recorded, err := c.Carrier.Record(ctx, m.Message, view, at)
	if err != nil {
		return View{}, Recorded{}, fmt.Errorf("record message: %w", err)
	}
	if m.Message.Channel != "" && recorded.OrgID != orgID { // its id is that of another organisation's message
		return View{}, Recorded{}, ErrUnknownSender
	}
	if m.Message.Late() {
		m.lateBy = max(c.Now().Sub(m.Message.ReceivedAt), time.Second)
		c.reportLate(ctx, *m, recorded)
	}
	return view, recorded, nil
}
