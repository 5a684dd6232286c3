package goals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/goals/timeparse"
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

// textStore reads conversations for Texts.
type textStore interface {
	// Conversation is the person of a phone with their open session or else the newest; without a profile when there is no such person.
	Conversation(ctx context.Context, orgID, phone string) (conversation.View, error)
	stepStore
}

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// Send hands over one message; people.ErrUnavailable.
	Send(ctx context.Context, m conversation.Message) (conversation.Sent, error)
	// Fate reads the status of the message of a key; people.ErrUnavailable.
	Fate(ctx context.Context, orgID, key string) (engagement.Fate, error)
	// LastSent is the key of the newest message to a person between two instants; empty for none, people.ErrUnavailable.
	LastSent(ctx context.Context, orgID, profileID string, since, until time.Time) (key string, err error)
}

// heard is a message that may be for goals, with its person.
type heard struct {
	conversation.Heard

	person conversation.View
	done   *Goal  // what the message has scheduled, moved or cancelled already; nil for nothing
	texts  []byte // that the organisation has decided
	about  string // the goal of which the answer says only that it stays; empty for none
}

// Taken follows a recorded message, and reports whether it was about a goal, which has been answered then. Repeating it changes nothing and
// sends the same answer under the same key: what the message has done is found before anything is decided. Errors: *conversation.Pending,
// and what the ports return.
func (t *Texts) Taken(ctx context.Context, h conversation.Heard) (bool, error) {
	said, says := t.Words.whole(h.Body)
	back := undoOf(h.Body)
	if h.Effect != conversation.EffectNone {
		return false, nil
	}
	if !says && back == noUndo && !Moves(h.Body, h.At) {
		return false, nil
	}
	person, err := t.Store.Conversation(ctx, h.OrgID, h.Phone)
	if err != nil || person.Session.ProfileID == "" {
		return false, err
	}
	one := heard{Heard: h, person: person}
	if one.done, one.texts, err = t.Goals.Store.DoneBy(ctx, person.Session.ProfileID, h.MessageID); err != nil {
		return false, err
	}
	switch {
	case back != noUndo:
		return t.undo(ctx, one, back)
	case one.done != nil:
		return true, t.confirm(ctx, one)
	case !says:
		return t.move(ctx, one)
	case one.putsOff(said):
		return false, nil
	}
	return true, t.schedule(ctx, one, said)
}

// inSession reports whether an onboarding session was open when the message reached us, and still is.
func (h heard) inSession() bool {
	s := h.person.Session
	return (s.Status == session.Active || s.Status.Parked()) && s.Mode == session.Onboarding && !s.CreatedAt.After(h.At)
}

// putsOff reports whether words of a goal answer an open session with "later", and name nothing to be reminded of at a time.
func (h heard) putsOff(said string) bool {
	if !h.inSession() || session.IntentOf(h.Body) != session.Pause {
		return false
	}
	read := timeparse.Read(said, h.person.Locale, time.UTC, h.At)
	return read.Kind != timeparse.At || spoken(read.Goal) == ""
}

// silent reports whether the person may not be answered: under a hold, and while an operator is asked about them.
func (h heard) silent() bool { return h.person.Hold || h.person.Session.Status.Parked() }

// schedule creates the goal of a message, and says what was scheduled or asks back. A session that waits for an answer goes on waiting.
func (t *Texts) schedule(ctx context.Context, h heard, said string) error {
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
	return t.confirm(ctx, h)
}

// confirm answers with what was scheduled, and when.
func (t *Texts) confirm(ctx context.Context, h heard) error {
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

// askedBack returns the answer to a refusal, if it is the person's to mend.
func askedBack(err error) (key string, params catalog.Params, asks bool) {
	_, unclear := errors.AsType[*UnclearError](err)
	switch {
	case unclear:
		key = catalog.GoalUnclear
	case errors.Is(err, ErrTooFar):
		key, params.Count = catalog.GoalTooFar, daysAhead
	case errors.Is(err, ErrInvalid):
		key = catalog.GoalAskWhat
	case errors.Is(err, ErrNoTime):
		key = catalog.GoalAskWhen
	case errors.Is(err, ErrPast):
		key = catalog.GoalPast
	case errors.Is(err, ErrTooMany):
		key = catalog.GoalTooMany
	}
	return key, params, key != ""
}

// move moves the goal that was just confirmed, and says to when, or that it stays.
func (t *Texts) move(ctx context.Context, h heard) (taken bool, err error) {
	to := movedTo(h.Body, h.person.Locale, h.At)
	g, _, err := t.confirmed(ctx, h)
	if err != nil || g == nil || to == "" {
		return false, err
	}
	moved, err := t.Goals.Reschedule(ctx, t.caller(h), g.ID, Moment{Words: to, SaidAt: h.At, SameDay: true})
	_, begun := errors.AsType[*StatusError](err)
	_, _, asks := askedBack(err)
	switch {
	case begun:
		return true, t.answer(ctx, h, catalog.GoalBegun, catalog.Params{Goal: g.Goal})
	case asks:
		h.about = g.ID
		return true, t.answer(ctx, h, catalog.GoalUnmoved, catalog.Params{})
	case err != nil:
		return true, err
	}
	h.done = &moved
	return true, t.confirm(ctx, h)
}

// confirmed is the goal that our last message before this one has confirmed, or did not move; nil when it said something else. It reports
// whether that message was about goals at all.
func (t *Texts) confirmed(ctx context.Context, h heard) (g *Goal, ofGoals bool, err error) {
	profile := h.person.Session.ProfileID
	key, err := t.Carrier.LastSent(ctx, h.OrgID, profile, h.At.Add(-undoWindow), h.At)
	parts := strings.Split(key, ":")
	if err != nil || parts[0] != answerKeys || len(parts) < 3 {
		return nil, false, err
	}
	switch text := parts[2]; {
	case text == catalog.GoalScheduled, text == catalog.GoalNoted:
		g, _, err = t.Goals.Store.DoneBy(ctx, profile, parts[1])
	case text == catalog.GoalUnmoved && len(parts) > 3:
		var v Situation
		if v, err = t.Goals.Find(ctx, t.caller(h), parts[3]); errors.Is(err, ErrNoGoal) {
			return nil, true, nil
		}
		g = &v.Goal
	}
	return g, true, err
}

func (t *Texts) caller(h heard) Caller {
	return Caller{OrgID: h.OrgID, ProfileID: h.person.Session.ProfileID, Actor: MessageActor(h.MessageID)}
}

// undo cancels the goal that a message means, and says whether it could.
func (t *Texts) undo(ctx context.Context, h heard, back undo) (taken bool, err error) {
	if h.done == nil {
		if h.done, err = t.toUndo(ctx, h, back); err != nil {
			return false, err
		}
	}
	key, params := catalog.GoalNone, catalog.Params{}
	switch {
	case h.done != nil:
		if key, err = t.cancel(ctx, h); err != nil {
			return true, err
		}
		if key != catalog.GoalNone {
			params.Goal = h.done.Goal
		}
	case back == undoIt, back == undoNamed:
		return false, nil
	case back == undoLast:
		key = catalog.GoalNothing
		if h.inSession() { // else nobody would answer
			if _, ofGoals, err := t.confirmed(ctx, h); err != nil || !ofGoals {
				return false, err
			}
		}
	}
	return true, t.answer(ctx, h, key, params)
}

// toUndo is the goal that is to be undone; nil when there is none.
func (t *Texts) toUndo(ctx context.Context, h heard, back undo) (*Goal, error) {
	switch back {
	case undoIt:
		g, _, err := t.confirmed(ctx, h)
		return g, err
	case undoNamed:
		return t.named(ctx, h)
	case noUndo, undoLast, undoReminder:
	}
	found, err := t.Goals.Store.ByText(ctx, h.person.Session.ProfileID, h.At.Add(-undoWindow))
	return meant(found, back, h.At), err
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
	_, err = t.Goals.Cancel(ctx, t.caller(h), h.done.ID)
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

// MessageActor is the actor of a message that cancels or moves a goal, by which the message is known again.
func MessageActor(messageID string) string { return "text:" + messageID }

// answerKeys begin the keys of answers, goal-answer:{message}:{text}. Messaging knows by them that a goal was confirmed.
const answerKeys = "goal-answer"

// burstPause is the time between two looks whether a burst has ended.
const burstPause = 5 * time.Second

// answer sends the answer to a message, once per message and text, after the end of a burst. What it says has been written: an answer that
// cannot be sent is logged.
func (t *Texts) answer(ctx context.Context, h heard, key string, params catalog.Params) error {
	if h.silent() {
		return nil
	}
	v := h.person
	if bursts, err := inBurst(ctx, t.Store, v, t.Now()); err != nil {
		return err
	} else if bursts {
		return &conversation.Pending{RetryAfter: burstPause}
	}
	body, err := t.Copy.Own(h.texts).Render(v.Locale, key, "", params)
	if err != nil {
		return fmt.Errorf("render %s: %w", key, err)
	}
	sent, err := t.Carrier.Send(ctx, conversation.Message{
		OrgID: h.OrgID, ProfileID: v.Session.ProfileID, To: h.Phone, Body: body, Key: h.answerKey(key),
		CorrelationID: h.Job.ID, Unknown: t.Unknown, HoldVersion: v.HoldVersion,
	})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if done, err := sent.Answered(t.Now().Sub(h.Job.CreatedAt)); done || err != nil {
		return err
	}
	t.Log.WarnContext(ctx, "goals.answer_not_sent", "message_id", h.MessageID, "outcome", int(sent.Outcome), "error_code", sent.Code)
	return nil
}

func (h heard) answerKey(text string) string {
	key := answerKeys + ":" + h.MessageID + ":" + text
	if h.about != "" {
		key += ":" + h.about
	}
	return key
}
