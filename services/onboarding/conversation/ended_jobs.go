package conversation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// GiveUp parks the conversation that waits for a job that failed for good, so that an operator finds it, and ends the job as failed in the
// same transaction: a job parks no session if its last attempt took effect after all and only its answer was lost. It is the conversation
// that there was when the job was stored, if that is still open: one that was opened since has nothing to do with it. A message
// that belongs to no conversation is left to the list of failed jobs, and so is one for engagement, which apologises to its person.
func (c *Service) GiveUp(ctx context.Context, j queue.Job, cause error) error {
	if errors.Is(cause, ErrUnknownSender) || errors.Is(cause, ErrInvalidMessage) {
		return nil
	}
	if isReply(j) {
		if done, err := c.apologised(ctx, j); done || err != nil {
			return err
		}
	}
	_, err := c.park(ctx, Cause{Job: j, Failure: cause.Error()},
		fmt.Sprintf("job %s (%s) failed for good: %v; see the job and the log, mend that", j.ID, j.EventType, cause))
	if errors.Is(err, queue.ErrFenced) {
		return nil
	}
	return err
}

// Cancel ends a pending or a failed job for an operator. The conversation that waits for a pending one is parked in the same
// transaction: it would wait for ever, and be found in no list. Cancelling a job that waits for the judgement of words that may be an
// opt-out judges that they are none. Errors: queue.ErrNoJob, a *queue.StatusError, people.ErrUnavailable.
func (c *Service) Cancel(ctx context.Context, orgID, id string) (queue.Row, error) {
	found, err := c.Store.Job(ctx, orgID, id)
	if err != nil {
		return queue.Row{}, err
	}
	j := queue.Job{
		ID: found.ID, OrgID: found.OrgID, EventType: found.EventType, Subject: found.Subject, Payload: found.Payload, CreatedAt: found.CreatedAt,
	}
	if found.Status == queue.StatusPending && (isReply(j) || openedBy(j) != "") {
		parked, err := c.park(ctx, Cause{Job: j, Cancelled: true},
			fmt.Sprintf("an operator has cancelled job %s (%s), which it waited for; to have that done after all", j.ID, j.EventType))
		if err != nil {
			return queue.Row{}, err
		}
		if parked {
			return c.Store.Job(ctx, orgID, id)
		}
	}
	if found.Status == queue.StatusFailed && strings.HasPrefix(found.ErrorMessage, NeedsOperator+ambiguousReason) {
		if err := c.Carrier.JudgeWords(ctx, orgID, found.Subject); err != nil {
			return queue.Row{}, err
		}
	}
	return c.Store.CancelJob(ctx, orgID, id, c.Now())
}

// park parks the conversation that waits for a job which comes to an end without having done its work, and ends it. It reports whether
// there was one.
func (c *Service) park(ctx context.Context, cause Cause, why string) (parked bool, err error) {
	parked, err = c.parkOnce(ctx, cause, why)
	for n := 1; n < maxDecisions && errors.Is(err, people.ErrConflict); n++ {
		parked, err = c.parkOnce(ctx, cause, why)
	}
	return parked, err
}

func (c *Service) parkOnce(ctx context.Context, cause Cause, why string) (parked bool, err error) {
	j := cause.Job
	var view View
	opened := openedBy(j)
	if opened != "" { // an opening is its session's, and waits under a subject that is no phone while hours are quiet
		view, err = c.Store.LoadSession(ctx, opened)
	} else {
		view, err = c.Store.ConversationAt(ctx, j.OrgID, j.Subject, j.CreatedAt)
	}
	if errors.Is(err, ErrNoSession) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s, now := view.Session, c.Now()
	switch {
	case opened != "" && s.Place() > 0: // it was sent, or the conversation has gone on without it
		return false, nil
	case s.Status.Parked() && s.Mode == session.Onboarding && isReply(j) && !cause.Cancelled: // considered when the session is resumed
		return true, c.Store.HoldReply(ctx, s, cause, session.Entry{
			At: now, Kind: session.KindHeld, Trigger: session.TriggerReply, Detail: fmt.Sprintf("parked; job %s failed for good", j.ID),
		})
	case s.Status != session.Active:
		return false, nil
	}
	reason, trigger := why+", "+session.ThenResume(s.ID), session.TriggerReply
	if opened != "" {
		trigger = session.TriggerActivation
	}
	if cause.Cancelled {
		reason = why + " POST /v1/sessions/" + s.ID + ":resume; if not, POST /v1/sessions/" + s.ID + ":reset"
		trigger = session.TriggerOperator
	}
	return true, c.Store.Move(ctx, session.Park(s, now, session.Stuck, trigger, "", reason), &cause)
}
