package conversation

import (
	"context"
	"errors"

	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// What stopped is brought back here: a session that is parked, and an alarm that QStash gave up. Nothing is sent; the work is put back
// where the service finds it.

// Scope has what a caller may see of the dead letters.
type Scope struct {
	OrgID string
	// Unowned adds those that name no known session, and so no organisation.
	Unowned bool
}

// DeadLetters returns what an organisation sees of the dead letters.
func (c *Service) DeadLetters(orgID string) Scope {
	return Scope{OrgID: orgID, Unowned: orgID == c.OrgID}
}

// Replayed is the result of a replay.
type Replayed struct {
	AlarmSet bool
	Skip     session.SkipReason // why no alarm was set
	Session  session.Record     // as it stands now; without an ID when there is none
}

// Unresumed is a session that stays parked, and why.
type Unresumed struct {
	SessionID string
	Cause     error
}

// Resume makes a parked session active again, where it was: a step that is due gets an alarm again, not before it would have, and
// the reply or the opening that was under way is taken up again with the key that it had, so that nothing is sent twice.
// Replies that came meanwhile are considered. An active session is returned as it is. One that waits for the judgement of words that may be
// an opt-out is judged so: they are none. The ticket that it waits for is closed. While the person has another one, the session stays
// parked and waits for that. Errors: ErrNoSession, ErrEnded, ErrOtherOpen, people.ErrUnavailable.
func (c *Service) Resume(ctx context.Context, orgID, sessionID string) (session.Record, error) {
	return c.resume(ctx, orgID, sessionID, true)
}

func (c *Service) resume(ctx context.Context, orgID, sessionID string, closesTicket bool) (session.Record, error) {
	view, err := c.Store.LoadSession(ctx, sessionID)
	if err == nil && view.Session.OrgID == orgID && awaitsJudgement(view.Session) {
		err = c.Carrier.JudgeWords(ctx, orgID, view.Phone)
	}
	if err != nil {
		return session.Record{}, err
	}
	return c.Store.Resume(ctx, orgID, sessionID, session.TriggerOperator, closesTicket, c.Now())
}

// ResumeAll resumes sessions one after the other, as Resume does, but closes no ticket; with leaveUnjudged none that waits for a judgement
// of words. Those that cannot be are reported; any other error ends it, and what was resumed by then is.
func (c *Service) ResumeAll(
	ctx context.Context, orgID string, ids []string, leaveUnjudged bool,
) (resumed []string, left []Unresumed, err error) {
	for _, id := range ids {
		err := error(nil)
		if leaveUnjudged {
			err = c.judgedSession(ctx, id)
		}
		if err == nil {
			var r session.Record
			if r, err = c.resume(ctx, orgID, id, false); err == nil && r.Status != session.Active {
				err = ErrTicketOpen
			}
		}
		switch {
		case errors.Is(err, ErrTicketOpen), errors.Is(err, people.ErrAwaitsOperator), errors.Is(err, ErrOtherOpen), errors.Is(err, ErrEnded),
			errors.Is(err, ErrNoSession):
			left = append(left, Unresumed{SessionID: id, Cause: err})
		case err != nil:
			return resumed, left, err
		default:
			resumed = append(resumed, id)
		}
	}
	return resumed, left, nil
}

// judgedSession returns people.ErrAwaitsOperator of a session that waits for a judgement of words: it may have been parked for
// them just now.
func (c *Service) judgedSession(ctx context.Context, sessionID string) error {
	view, err := c.Store.LoadSession(ctx, sessionID)
	if err == nil && awaitsJudgement(view.Session) {
		return people.ErrAwaitsOperator
	}
	return err
}

// Replay sets the alarm of a dead letter's step again, if the session still waits for that step; it may be called at any
// time and as often as one likes. A session that is stuck at the step is resumed with it. Errors: ErrNoDeadLetter, ErrOtherOpen.
func (c *Service) Replay(ctx context.Context, orgID, deadLetterID string) (Replayed, error) {
	return c.Store.ReplayDeadLetter(ctx, c.DeadLetters(orgID), deadLetterID, c.Now())
}
