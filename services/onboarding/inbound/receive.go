package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
)

// inlineBudget sets how long a callback may work on a message before the loop takes it over. Twilio waits four seconds.
const inlineBudget = 3 * time.Second

// inlineLease sets how long a message that is claimed as it is stored stays with its callback. If the process dies the loop has it then.
const inlineLease = 2 * inlineBudget

// Receive stores a message as a job and has messaging record it, which applies STOP, START and HELP; then it answers it in
// the caller's time as far as the budget goes. After an error the caller is to repeat the call; the job is tried again
// all the same. Errors: ErrInvalidMessage, ErrUnknownSender, ErrElsewhere, queue.ErrPayloadMismatch, and what the ports
// return.
func (in *Service) Receive(ctx context.Context, m Message) (queue.Enqueued, error) {
	m.From = writerOf(m.From)
	if err := in.learnUser(ctx, m); err != nil {
		return queue.Enqueued{}, err
	}
	kept, err := in.keep(ctx, m)
	if err != nil {
		return kept, err
	}
	err = in.answerInline(ctx, m, kept)
	if m.Channel != "" && hopeless(err) {
		err = nil // the job fails for it, visibly, and Kapso would only repeat it
	}
	return kept, err
}

// keep stores a message as a job, once per SID; from then on it is not lost. Errors: ErrInvalidMessage, queue.ErrPayloadMismatch.
func (in *Service) keep(ctx context.Context, m Message) (queue.Enqueued, error) {
	if m.SID == "" || m.From == "" || m.To == "" {
		return queue.Enqueued{}, ErrInvalidMessage
	}
	stored := any(m)
	if m.Channel != "" { // as the gateway of the release before stores it itself: with these two also when they are empty
		stored = struct {
			Message

			Type   string `json:"type"`
			SentAt string `json:"sent_at"`
		}{m, m.Type, m.SentAt}
	}
	payload, err := json.Marshal(stored)
	if err != nil {
		return queue.Enqueued{}, fmt.Errorf("encode message: %w", err)
	}
	orgID := cmp.Or(m.OrgID, in.OrgID)
	named := m // a known person's messages are done in order, with or without the number in them
	if err := in.numberWriter(ctx, &named, orgID); err != nil && !errors.Is(err, ErrNumberless) {
		return queue.Enqueued{}, err
	}
	job := conversation.NewJob(orgID, conversation.SourceTwilio, conversation.EventMessage, m.SID, named.From, payload, in.Now())
	if m.Channel != "" {
		event := conversation.EventWhatsApp
		job = conversation.NewJob(orgID, conversation.SourceKapso, event, event+":"+m.SID, named.From, payload, in.Now())
	}
	if !m.Queued {
		job.DueAt, job.Until = job.At.Add(inlineBudget), job.At.Add(inlineLease)
	}
	return in.Store.Enqueue(ctx, job)
}

// errUnrecorded says that messaging was not asked to record the message.
var errUnrecorded = errors.New("inbound: the message is not recorded")

// answerInline has a message that is kept recorded, and answers it as far as the budget goes.
func (in *Service) answerInline(ctx context.Context, m Message, kept queue.Enqueued) error {
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	m.OrgID = cmp.Or(m.OrgID, in.OrgID)
	message := reply{Place: conversation.AnyPlace, Message: m, ReceivedAt: kept.CreatedAt}
	var view conversation.View
	var recorded Recorded
	unrecorded := errUnrecorded
	record := func(ctx context.Context) error {
		view, recorded, unrecorded = in.record(ctx, &message)
		return unrecorded
	}
	var err error
	switch {
	case kept.Claimed != nil:
		err = in.Jobs.Do(ctx, *kept.Claimed, func(ctx context.Context, j queue.Job) error {
			if err := record(ctx); err != nil {
				return &queue.Snooze{After: inlineBudget, Cause: err}
			}
			return in.answer(ctx, j, message, recorded, view)
		})
	case record(ctx) == nil && !m.Queued: // it is recorded even if its turn does not come now
		err = in.Jobs.Try(ctx, kept.ID, func(ctx context.Context, j queue.Job) error {
			return in.answer(ctx, j, message, recorded, conversation.View{}) // a message of the person before this one is done by now
		})
	}
	if unrecorded != nil {
		return unrecorded
	}
	if err != nil { // the message is safe in its job, and consent has been applied
		in.Log.WarnContext(ctx, "onboarding.inbound_left_to_loop", "job_id", kept.ID, "error", err)
	}
	return nil
}

// Apply has messaging record a message that came as a job, before the job's turn comes: a STOP counts as soon as it is acknowledged,
// whatever else is still to be done for that person. The job does the rest. Errors are those of Receive.
func (in *Service) Apply(ctx context.Context, j queue.Job) error {
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	m, err := replyIn(j)
	if err == nil {
		_, _, err = in.record(ctx, &m)
	}
	_, unreadable := errors.AsType[*queue.Permanent](err)
	if unreadable || hopeless(err) {
		return nil // the job fails for it, visibly
	}
	return err
}

// handleReply is the job handler for messages that were not answered in their callback's time, and for those that are taken up again.
func (in *Service) handleReply(ctx context.Context, j queue.Job) error {
	m, err := replyIn(j)
	if err != nil {
		return err
	}
	if id, _ := conversation.WaitingReply(j); id != "" {
		return in.Conversations.TakeTurn(ctx, j)
	}
	view, recorded, err := in.record(ctx, &m)
	switch {
	case hopeless(err):
		return &queue.Permanent{Cause: err}
	case err != nil:
		return conversation.Ended(err, in.Now().Sub(j.CreatedAt))
	}
	return in.answer(ctx, j, m, recorded, view)
}

// hopeless reports whether a message cannot be recorded, however often that is tried.
func hopeless(err error) bool {
	return errors.Is(err, ErrUnknownSender) || errors.Is(err, ErrElsewhere) || errors.Is(err, ErrInvalidMessage) ||
		errors.Is(err, ErrNumberless)
}

// record reads the person and has messaging record their message, with when it reached us: its recording may come late, and a
// STOP or START counts from when it was said.
func (in *Service) record(ctx context.Context, m *reply) (conversation.View, Recorded, error) {
	orgID := cmp.Or(m.Message.OrgID, in.OrgID)
	if m.Message.Channel == "" && (orgID != in.OrgID || m.Message.Account != "") {
		m.Message.Owner = orgID
	}
	if err := in.numberWriter(ctx, &m.Message, orgID); err != nil {
		return conversation.View{}, Recorded{}, err
	}
	view, err := in.Store.Conversation(ctx, orgID, m.Message.From)
	if err != nil {
		return conversation.View{}, Recorded{}, err
	}
	at, _ := m.said()
	recorded, err := in.Carrier.Record(ctx, m.Message, view, at)
	if err != nil {
		return conversation.View{}, Recorded{}, fmt.Errorf("record message: %w", err)
	}
	switch {
	case recorded.OrgID == orgID:
	case m.Message.Channel != "": // its id is that of another organisation's message
		return conversation.View{}, Recorded{}, ErrUnknownSender
	default: // no flow of this one may answer it
		return conversation.View{}, Recorded{}, ErrElsewhere
	}
	if m.Message.Late() && !m.ahead {
		m.lateBy = max(in.Now().Sub(m.Message.ReceivedAt), time.Second)
		in.reportLate(ctx, *m, recorded)
	}
	return view, recorded, nil
}
