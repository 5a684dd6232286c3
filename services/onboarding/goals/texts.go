package goals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/session"
)

// undoWindow is for how long a bare "undo" is about a goal. Later it may be about anything.
const undoWindow = 24 * time.Hour

// Texts takes goals that people say by text, and takes them back.
type Texts struct {
	Goals   *Service
	Store   textStore
	Carrier carrier
	Copy    catalog.Engagement
	Words   Words
	Unknown session.UnknownSends // of its answers
	Log     *slog.Logger
	Now     func() time.Time
}

// textStore is what Texts reads; postgres implements it.
type textStore interface {
	// Conversation is the person of a phone with their open session or else the newest; without a profile when there is no such person.
	Conversation(ctx context.Context, orgID, phone string) (conversation.View, error)
	// DoneBy is the goal that a message has scheduled or cancelled; ErrNoGoal.
	DoneBy(ctx context.Context, profileID, messageID string) (Goal, error)
	// ByText are a person's goals by text that may be undone, or too late: the scheduled ones, and those said since an instant of which the
	// text is on its way or was sent. Newest first.
	ByText(ctx context.Context, profileID string, since time.Time) ([]Goal, error)
}

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// Send hands over one message; conversation.ErrUnavailable.
	Send(ctx context.Context, m conversation.Message) (conversation.Sent, error)
	// Fate is what became of the message of a key; conversation.ErrUnavailable.
	Fate(ctx context.Context, orgID, key string) (engagement.Fate, error)
}

// heard is a message that may be for goals, with its person.
type heard struct {
	conversation.Heard

	person conversation.View
	done   *Goal // what the message has scheduled or cancelled already; nil for nothing
}

// Taken follows a recorded message, and reports whether it was about a goal, which has been answered then. Words of a goal are an ordinary
// reply while an onboarding session is open. Repeating it changes nothing and sends the same answer under the same key: what the message
// has done is found before anything is decided. Errors: *conversation.Pending, and what the ports return.
func (t *Texts) Taken(ctx context.Context, h conversation.Heard) (bool, error) {
	said, says := t.Words.After(h.Body)
	back := undoOf(h.Body)
	if h.Effect != conversation.EffectNone || !says && back == noUndo {
		return false, nil
	}
	person, err := t.Store.Conversation(ctx, h.OrgID, h.Phone)
	if err != nil || person.Session.ProfileID == "" {
		return false, err
	}
	one := heard{Heard: h, person: person}
	switch done, err := t.Store.DoneBy(ctx, person.Session.ProfileID, h.MessageID); {
	case err == nil:
		one.done = &done
	case !errors.Is(err, ErrNoGoal):
		return false, err
	}
	if back != noUndo {
		return t.undo(ctx, one, back)
	}
	if one.done == nil && one.inSession() {
		return false, nil
	}
	return true, t.schedule(ctx, one, said)
}

// inSession reports whether an onboarding session was open when the message reached us, and still is.
func (h heard) inSession() bool {
	s := h.person.Session
	return (s.Status == session.Active || s.Status.Parked()) && s.Mode == session.Onboarding && !s.CreatedAt.After(h.At)
}

// silent reports whether the person may not be answered now: under a hold, in a burst, and while an operator is asked about them.
func (h heard) silent() bool {
	s := h.person.Session
	return h.person.Hold || s.Status.Parked() || s.Status == session.Active && s.NextStep != ""
}

// schedule creates the goal of a message, and says what was scheduled or asks back.
func (t *Texts) schedule(ctx context.Context, h heard, said string) error {
	if h.done == nil {
		if spoken(said) == "" {
			said = "" // such as "remind me to ..."
		}
		g, _, err := t.Goals.Create(ctx, New{
			OrgID: h.OrgID, ProfileID: h.person.Session.ProfileID, Said: said, Source: SourceText, Key: MessageKey(h.MessageID), SaidAt: h.At,
			By: "text",
		})
		if errors.Is(err, erasure.ErrBegun) { // it would go with them, and they are answered nothing any more
			return nil
		}
		if err != nil {
			key, params, asks := askedBack(err)
			if !asks {
				return err
			}
			return t.answer(ctx, h, key, params)
		}
		h.done = &g
	}
	switch g := h.done; {
	case g.Status != Scheduled: // it has begun by itself meanwhile, and speaks for itself
		return nil
	case g.Note != "":
		return t.answer(ctx, h, catalog.GoalNoted, catalog.Params{Goal: g.Goal, When: g.Understood, Note: g.Note})
	default:
		return t.answer(ctx, h, catalog.GoalScheduled, catalog.Params{Goal: g.Goal, When: g.Understood})
	}
}

// MessageKey is the key of a goal that a message says.
func MessageKey(messageID string) string { return "message:" + messageID }

// askedBack is how a refusal is answered, if it is the person's to mend.
func askedBack(err error) (key string, params catalog.Params, asks bool) {
	if far, is := errors.AsType[*TooFarError](err); is {
		return catalog.GoalTooFar, catalog.Params{Count: max(1, int(far.Limit/(24*time.Hour)))}, true
	}
	if _, is := errors.AsType[*UnclearError](err); is {
		return catalog.GoalUnclear, params, true
	}
	for _, refusal := range []struct {
		is  error
		key string
	}{
		{ErrInvalid, catalog.GoalAskWhat},
		{ErrNoTime, catalog.GoalAskWhen},
		{ErrPast, catalog.GoalPast},
		{ErrTooMany, catalog.GoalTooMany},
	} {
		if errors.Is(err, refusal.is) {
			return refusal.key, params, true
		}
	}
	return "", params, false
}

// undo cancels the goal that a message means, and says whether it could.
func (t *Texts) undo(ctx context.Context, h heard, back undo) (taken bool, err error) {
	if h.done == nil {
		found, err := t.Store.ByText(ctx, h.person.Session.ProfileID, h.At.Add(-undoWindow))
		if err != nil {
			return false, err
		}
		if h.done = meant(found, back, h.At); h.done == nil && back == undoLast {
			return false, nil
		}
	}
	key, params := catalog.GoalNone, catalog.Params{}
	if h.done != nil {
		if key, err = t.cancel(ctx, h); err != nil {
			return true, err
		}
		if key != catalog.GoalNone {
			params.Goal = h.done.Goal
		}
	}
	return true, t.answer(ctx, h, key, params)
}

// meant is the goal that is to be undone, of those that may be: by a bare "undo" the newest if it was said within the window, by name the
// newest that is scheduled, or else the newest. Nil when there is none.
func meant(found []Goal, back undo, at time.Time) *Goal {
	for i, g := range found {
		if back == undoLast && g.CreatedAt.After(at.Add(-undoWindow)) || back == undoReminder && g.Status == Scheduled {
			return &found[i]
		}
	}
	if back == undoReminder && len(found) > 0 {
		return &found[0]
	}
	return nil
}

// cancel cancels a goal, unless it has begun, and says which it was.
func (t *Texts) cancel(ctx context.Context, h heard) (key string, err error) {
	c := Caller{OrgID: h.OrgID, ProfileID: h.person.Session.ProfileID, Actor: Canceller(h.MessageID)}
	_, err = t.Goals.Cancel(ctx, c, h.done.ID)
	switch stood, is := errors.AsType[*StatusError](err); {
	case err == nil:
		return catalog.GoalCancelled, nil
	case !is:
		return "", err
	case stood.Status == Failed:
		return catalog.GoalNone, nil
	}
	return catalog.GoalBegun, nil
}

// Canceller is the actor of a message that cancels a goal, by which the message is known again.
func Canceller(messageID string) string { return "text:" + messageID }

// answer sends the answer to a message, once per message and text. What it says has been written: an answer that cannot be sent is logged.
func (t *Texts) answer(ctx context.Context, h heard, key string, params catalog.Params) error {
	if h.silent() {
		return nil
	}
	v := h.person
	body, err := t.Copy.Render(v.Locale, key, "", params)
	if err != nil {
		return fmt.Errorf("render %s: %w", key, err)
	}
	sent, err := t.Carrier.Send(ctx, conversation.Message{
		OrgID: h.OrgID, ProfileID: v.Session.ProfileID, To: h.Phone, Body: body, Key: "goal-answer:" + h.MessageID + ":" + key,
		CorrelationID: h.JobID, Unknown: t.Unknown, HoldVersion: v.HoldVersion,
	})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if done, err := sent.Answered(t.Now().Sub(h.JobSince)); done || err != nil {
		return err
	}
	t.Log.WarnContext(ctx, "goals.answer_not_sent", "message_id", h.MessageID, "outcome", int(sent.Outcome), "error_code", sent.Code)
	return nil
}
