package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// maxDecisions bounds how often a parking is decided anew because the session moved meanwhile. Then it is tried later.
const maxDecisions = 3

// ParkFor parks the conversation that waits for a job which comes to an end without having done its work, and ends it. It reports whether
// there was one.
func (c *Service) ParkFor(ctx context.Context, cause Cause, why string) (parked bool, err error) {
	parked, err = c.parkOnce(ctx, cause, why)
	for n := 1; n < maxDecisions && errors.Is(err, people.ErrConflict); n++ {
		parked, err = c.parkOnce(ctx, cause, why)
	}
	return parked, err
}

func (c *Service) parkOnce(ctx context.Context, cause Cause, why string) (parked bool, err error) {
	j := cause.Job
	var view View
	opened, followed := openedBy(j), followedBy(j)
	waited, place := WaitingReply(j)
	if id := cmp.Or(opened, followed.SessionID, waited); id != "" { // it is its session's, and waits under a subject that is no phone
		view, err = c.Store.LoadSession(ctx, id)
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
	case opened != "" && s.Place() > 0, followed.SessionID != "" && s.Place() != followed.Place, waited != "" && s.Place() != place:
		// It was sent, or the conversation has gone on without it.
		return false, nil
	case s.Status.Parked() && s.Mode == session.Onboarding && IsReply(j) && !cause.Cancelled: // considered when the session is resumed
		return true, c.Store.DeferReply(ctx, s, cause, session.Entry{
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

// Awaited reports whether a conversation waits for a job: its opening, a message of its person, or what its flow does by itself.
func Awaited(j queue.Job) bool {
	return IsReply(j) || openedBy(j) != "" || followedBy(j).SessionID != ""
}
