package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// holdPause sets how often an opening that waits for a hold to be lifted is looked at.
const holdPause = 30 * time.Second

// SendOpening is the job handler that sends a session's opening. A session that is over or has gone on needs none any more.
func (c *Service) SendOpening(ctx context.Context, j queue.Job) error {
	var p openingPayload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return Unreadable(j, err)
	}
	ctx, end := c.Spans.Begin(ctx, "onboarding.opening", p.SessionID)
	defer end()
	view, err := c.Store.LoadSession(ctx, p.SessionID)
	if err != nil && j.Subject == waitingSubject(p.SessionID) { // no call would report that its attempts were used up
		return &queue.Snooze{After: holdPause, Cause: err}
	}
	if err != nil {
		return err
	}
	s := view.Session
	if s.Status.Parked() && s.Place() == 0 {
		return c.openLater(ctx, s, j, holdPause, errParked)
	}
	if s.Status != session.Active || s.Place() > 0 {
		return nil
	}
	if until, quiet := s.QuietUntil(c.Now()); quiet {
		return c.awaitHours(ctx, view, j, until)
	}
	if view.Hold {
		return c.openLater(ctx, s, j, holdPause, people.ErrOnHold)
	}
	if j.Subject == waitingSubject(s.ID) {
		return c.bringBack(ctx, view, j)
	}
	var consent people.ConsentRecord
	if p.Consent != nil {
		consent = *p.Consent
	}
	f, at, err := c.begins(ctx, view)
	if err != nil {
		return err
	}
	_, move, err := c.deliver(ctx, order{
		Consent: consent, Reserved: p.Reserved, View: view, Flow: f, Text: session.TextKey(f.Due(at).Text), Key: stepKey(s, at.Key),
		CorrelationID: j.ID, Trigger: session.TriggerActivation, Cause: &Cause{Job: j},
		Then: func(ctx context.Context, sent Sent) (session.Move, error) {
			move := session.AfterText(f, s, view.person(f), flow.Decision{State: at}, sent.AcceptedAt, c.Now())
			move.AnswerHeldSince = sent.AskedAt // replies that came while the session was parked
			if s.Flow != "" {
				move.Entries = []session.Entry{move.Advanced(session.TriggerActivation)}
			}
			return move, c.armed(ctx, view, &move)
		},
	})
	if err == nil {
		c.publish(ctx, view, move)
	}
	if after, waits := waitsLong(err); waits {
		return c.openLater(ctx, s, j, after, err)
	}
	if errors.Is(err, people.ErrConflict) { // stopped, reset or answered meanwhile; the key keeps the message single
		return nil
	}
	return Ended(err, c.Now().Sub(j.CreatedAt))
}

// ErrQuietHours is the cause of an opening, or of what a flow does by itself, that waits for the end of quiet hours.
var ErrQuietHours = errors.New("the organisation's quiet hours have not ended")

// errParked is an opening that waits for its session to be resumed.
var errParked = errors.New("the session is parked")

// waitsLong reports whether a message waits for the end of a hold or of a cap, and returns when to try it again. Nothing that the person
// writes meanwhile may wait behind it: it may be a STOP or words of distress, or the words that hold them.
func waitsLong(err error) (after time.Duration, waits bool) {
	if wait := capped(err); wait != nil {
		return max(wait.RetryAfter, holdPause), true
	}
	return holdPause, errors.Is(err, ErrHeld)
}

// An opening that waits for long, such as for the end of quiet hours, waits under its own subject, because jobs of one subject are done in
// their order: a person who writes meanwhile is answered, and one who sends STOP has opted out, at once and not in the morning. When
// the hours have ended it comes back as a job of the person, in its turn behind what they wrote last.
func waitingSubject(sessionID string) string { return OpeningJob(sessionID) }

// awaitHours has an opening wait: the job of the person ends, and one that waits takes its place.
func (c *Service) awaitHours(ctx context.Context, view View, j queue.Job, until time.Time) error {
	now, s := c.Now(), view.Session
	if j.Subject == waitingSubject(s.ID) { // it waits already, and was too early, or the hours are others now
		return &queue.Snooze{After: until.Sub(now), Cause: ErrQuietHours}
	}
	if err := c.continued(ctx, j, "waits:", waitingSubject(s.ID), until); err != nil {
		return err
	}
	entry := session.QuietEntry(now, until, session.TriggerActivation, "")
	return Ended(c.Store.Note(ctx, s, []session.Entry{entry}, &Cause{Job: j}, now), now.Sub(j.CreatedAt))
}

// openLater has an opening wait as it does in quiet hours: for the end of a hold or a cap, or for an operator who resumes a session that
// was parked for another reason, such as words that may be an opt-out.
func (c *Service) openLater(ctx context.Context, s session.Record, j queue.Job, after time.Duration, cause error) error {
	if j.Subject == waitingSubject(s.ID) {
		return &queue.Snooze{After: after, Cause: cause}
	}
	return c.continued(ctx, j, "waits:", waitingSubject(s.ID), c.Now().Add(after))
}

// bringBack makes what has waited a job of the person again. It uses up no attempts: no call would report that they
// were used up.
func (c *Service) bringBack(ctx context.Context, view View, j queue.Job) error {
	if err := c.continued(ctx, j, "waited:", view.Phone, c.Now()); err != nil {
		return &queue.Snooze{After: holdPause, Cause: err}
	}
	return nil
}

// continued enqueues the work of a job under another subject. Its key is made of that job, so that doing it again enqueues nothing more.
func (c *Service) continued(ctx context.Context, j queue.Job, prefix, subject string, due time.Time) error {
	job := NewJob(j.OrgID, SourceInternal, j.EventType, prefix+j.ID, subject, j.Payload, c.Now())
	job.DueAt = due
	_, err := c.Store.Enqueue(ctx, job)
	if err != nil {
		return fmt.Errorf("have %s wait: %w", j.EventType, err)
	}
	return nil
}
