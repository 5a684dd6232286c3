package goals

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// burstAhead is the time within which the next text of a burst must be due for the burst to count as running. A burst that waits for the
// end of quiet hours does not.
const burstAhead = 2 * time.Minute

// TextPhone runs goals on people's phones: by a text to them. It is sent in quiet hours and with reminders off, because the person asked
// for it.
type TextPhone struct {
	Store   phoneStore
	Carrier carrier
	Copy    catalog.Engagement
	Words   Words // that a goal from elsewhere may begin with too
	Unknown session.UnknownSends
	Now     func() time.Time
}

// phoneStore reads conversations for a TextPhone.
type phoneStore interface {
	// ConversationOf is Conversation of a profile, with the texts that their organisation has decided.
	ConversationOf(ctx context.Context, orgID, profileID string) (conversation.View, error)
	stepStore
}

type stepStore interface {
	// LoadStep reads a session, with when its step that is due was to be sent.
	LoadStep(ctx context.Context, id string) (conversation.View, conversation.StepDue, error)
}

// Wait reports whether the person is in the middle of a burst, into which no other text falls.
func (p *TextPhone) Wait(ctx context.Context, g Goal) (bool, error) {
	v, err := p.Store.ConversationOf(ctx, g.OrgID, g.ProfileID)
	if err != nil {
		return false, err
	}
	return inBurst(ctx, p.Store, v, p.Now())
}

// inBurst reports whether a burst goes on.
func inBurst(ctx context.Context, store stepStore, v conversation.View, now time.Time) (bool, error) {
	if v.Hold || v.Session.Status != session.Active || v.Session.NextStep == "" {
		return false, nil
	}
	_, due, err := store.LoadStep(ctx, v.Session.ID)
	return err == nil && due.Now.Before(now.Add(burstAhead)), err
}

// Text sends the text of a goal, at most once under the goal's own key. Text returns how the goal ended. An error means that the outcome
// is not known yet, or that messaging cannot be reached: call again. Errors: *conversation.Pending, people.ErrUnavailable, and what the
// ports return.
func (p *TextPhone) Text(ctx context.Context, g Goal) (End, error) {
	v, err := p.Store.ConversationOf(ctx, g.OrgID, g.ProfileID)
	if err != nil {
		return End{}, err
	}
	key := "goal:" + g.ID
	if v.Hold { // which messaging may not know yet
		return p.settled(ctx, g, key, ReasonHeld)
	}
	body, err := p.Copy.Own(v.Texts).Render(g.Locale, catalog.GoalReminder, "", catalog.Params{WholeGoal: p.Words.reminder(g.Goal)})
	if err != nil {
		return End{}, fmt.Errorf("render %s: %w", catalog.GoalReminder, err)
	}
	sent, err := p.Carrier.Send(ctx, conversation.Message{
		OrgID: g.OrgID, ProfileID: g.ProfileID, To: v.Phone, Body: body, Key: key, CorrelationID: g.ID, Unknown: p.Unknown,
		HoldVersion: v.HoldVersion,
	})
	if err != nil {
		return End{}, fmt.Errorf("text a goal: %w", err)
	}
	switch sent.Outcome {
	case conversation.Accepted, conversation.AlreadyAccepted:
		return End{OK: true, Detail: "message " + sent.MessageID}, nil
	case conversation.InFlight, conversation.Unknown, conversation.Throttled, conversation.Capped:
		return End{}, &conversation.Pending{Outcome: sent.Outcome, RetryAfter: sent.RetryAfter}
	case conversation.OptedOut:
		return End{Reason: ReasonOptedOut}, nil
	case conversation.Held:
		return End{Reason: ReasonHeld}, nil
	case conversation.KeyReused: // the phone, the copy or the way to write it was changed since the first try
		return p.settled(ctx, g, key, ReasonUndelivered)
	case conversation.Rejected, conversation.Undecided, conversation.GivenUp, conversation.RemindersOff:
	}
	return End{Reason: ReasonUndelivered, Detail: fmt.Sprintf("message %s, carrier's code %d", sent.MessageID, sent.Code)}, nil
}

// settled returns the end of a goal that may send no text any more: by its outcome so far.
func (p *TextPhone) settled(ctx context.Context, g Goal, key, reason string) (End, error) {
	fate, err := p.Carrier.Fate(ctx, g.OrgID, key)
	switch {
	case err != nil:
		return End{}, fmt.Errorf("look for the text of a goal: %w", err)
	case !fate.AcceptedAt.IsZero():
		return End{OK: true, Detail: "message " + fate.MessageID}, nil
	case fate.InDoubt:
		return End{}, &conversation.Pending{Outcome: conversation.Unknown}
	}
	return End{Reason: reason}, nil
}
