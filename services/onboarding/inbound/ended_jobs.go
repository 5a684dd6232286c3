package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/tickets"
)

// GiveUp parks the conversation that waits for a job that failed for good, so that an operator finds it, and ends the job as failed in the
// same transaction: a job parks no session if its last attempt took effect after all and only its answer was lost. It is the conversation
// that there was when the job was stored, if that is still open: one that was opened since has nothing to do with it. A message
// that belongs to no conversation is left to the list of failed jobs, and so is one for engagement, which apologises to its person.
func (in *Service) GiveUp(ctx context.Context, j queue.Job, cause error) error {
	if hopeless(cause) {
		return nil
	}
	if conversation.IsReply(j) {
		if done, err := in.apologised(ctx, j); done || err != nil {
			return err
		}
	}
	switch j.EventType {
	case conversation.EventAnswer:
		return in.Inbox.GiveUp(ctx, j, cause)
	case conversation.EventTicket:
		return in.parkAfterTicket(ctx, j, cause)
	}
	_, err := in.Conversations.ParkFor(ctx, conversation.Cause{Job: j, Failure: cause.Error()},
		fmt.Sprintf("job %s (%s) failed for good: %v; see the job and the log, mend that", j.ID, j.EventType, cause))
	if errors.Is(err, queue.ErrFenced) {
		return nil
	}
	return err
}

// parkAfterTicket has a session that stays parked for its closed ticket wait for an operator instead, who finds it by the new reason.
func (in *Service) parkAfterTicket(ctx context.Context, j queue.Job, cause error) error {
	var p conversation.TicketClosed
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return nil //nolint:nilerr // left to the list of failed jobs
	}
	err := people.ErrConflict
	for n := 0; n < maxDecisions && errors.Is(err, people.ErrConflict); n++ {
		err = in.parkAfterTicketOnce(ctx, j, p, cause)
	}
	if errors.Is(err, queue.ErrFenced) {
		return nil
	}
	return err
}

func (in *Service) parkAfterTicketOnce(ctx context.Context, j queue.Job, p conversation.TicketClosed, cause error) error {
	view, err := in.Conversations.Store.LoadSession(ctx, p.SessionID)
	if errors.Is(err, conversation.ErrNoSession) {
		return nil
	}
	if err != nil || !session.WaitsForTicket(view.Session, p.TicketID) {
		return err
	}
	why := fmt.Sprintf("its ticket was closed, but job %s (%s) failed for good: %v; see the job and the log, mend that, %s",
		j.ID, j.EventType, cause, session.ThenResume(p.SessionID))
	park := session.Park(view.Session, in.Now(), session.Stuck, session.TriggerOperator, "", why)
	return in.Conversations.Store.Move(ctx, park, &conversation.Cause{Job: j, Failure: cause.Error()})
}

// Cancel ends a pending or a failed job for an operator. The conversation that waits for a pending one is parked in the same
// transaction: it would wait for ever, and be found in no list. Cancelling a job that waits for the judgement of words that may be an
// opt-out judges that they are none, and an answer of an operator is settled first. Errors: queue.ErrNoJob, a *queue.StatusError,
// people.ErrUnavailable.
func (in *Service) Cancel(ctx context.Context, orgID, id string) (queue.Row, error) {
	found, err := in.Store.Job(ctx, orgID, id)
	if err != nil {
		return queue.Row{}, err
	}
	j := queue.Job{
		ID: found.ID, OrgID: found.OrgID, EventType: found.EventType, Subject: found.Subject, Payload: found.Payload, CreatedAt: found.CreatedAt,
	}
	if found.Status == queue.StatusPending && conversation.Awaited(j) {
		parked, err := in.Conversations.ParkFor(ctx, conversation.Cause{Job: j, Cancelled: true},
			fmt.Sprintf("an operator has cancelled job %s (%s), which it waited for; to have that done after all", j.ID, j.EventType))
		if err != nil {
			return queue.Row{}, err
		}
		if parked {
			return in.Store.Job(ctx, orgID, id)
		}
	}
	if j.EventType == conversation.EventAnswer {
		if err := in.settleAnswer(ctx, j, found.Status); err != nil {
			return queue.Row{}, err
		}
	}
	if found.Status == queue.StatusFailed && strings.HasPrefix(found.ErrorMessage, conversation.NeedsOperator+conversation.AmbiguousReason) {
		if err := in.Carrier.JudgeWords(ctx, orgID, found.Subject); err != nil {
			return queue.Row{}, err
		}
	}
	return in.Store.CancelJob(ctx, orgID, id, in.Now())
}

// settleAnswer has the inbox settle the answer of a job that is to be cancelled. A pending job fails for it, so that no try sends it
// meanwhile; while messaging cannot say whether an earlier one did, it goes on. people.ErrUnavailable.
func (in *Service) settleAnswer(ctx context.Context, j queue.Job, status string) error {
	if status == queue.StatusFailed {
		return in.Inbox.GiveUp(ctx, j, tickets.ErrCancelled)
	}
	err := in.Jobs.Try(ctx, j.ID, func(context.Context, queue.Job) error { return &queue.Permanent{Cause: tickets.ErrCancelled} })
	if err != nil {
		return err
	}
	now, err := in.Store.Job(ctx, j.OrgID, j.ID)
	if err == nil && now.Status == queue.StatusPending {
		return people.ErrUnavailable
	}
	return err
}

// apologised has engagement answer a message after its job failed for good, and reports whether it did: no conversation waits for such a
// message. Only what passes by itself is an error, for which the job is kept. Any other failure leaves the message to the list of
// failed jobs, as if engagement had not been asked.
func (in *Service) apologised(ctx context.Context, j queue.Job) (bool, error) {
	m, err := replyIn(j)
	if err != nil {
		return false, nil //nolint:nilerr // the job fails for it
	}
	var done bool
	_, recorded, err := in.record(ctx, &m)
	if err == nil {
		done, err = in.Engagement.Apologise(ctx, m.heard(j, recorded).Heard)
	}
	if _, pending := errors.AsType[*conversation.Pending](err); pending || errors.Is(err, people.ErrUnavailable) {
		return false, err
	}
	if err != nil {
		in.Log.ErrorContext(ctx, "onboarding.apology_failed", "job_id", j.ID, "error", err)
	}
	return done, nil
}
