package enrolment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/session"
)

// ErrQuietHours is an opening that waits for the end of quiet hours.
var ErrQuietHours = errors.New("the organisation's quiet hours have not ended")

// errParked is an opening that waits for its session to be resumed.
var errParked = errors.New("the session is parked")

// An opening that waits for the end of quiet hours waits under a subject of its own, because jobs of one subject are done in
// their order: a person who writes meanwhile is answered, and one who texts STOP is out, at once and not in the morning. When
// the hours have ended it comes back as a job of the person, in its turn behind what they wrote last.
func waitingSubject(sessionID string) string { return OpeningJob(sessionID) }

// putOff has an opening wait: the job of the person ends, and one that waits takes its place.
func (d *Desk) putOff(ctx context.Context, view dispatch.View, j jobs.Job, until time.Time) error {
	now, s := d.Now(), view.Session
	if j.Subject == waitingSubject(s.ID) { // it waits already, and was too early, or the hours are others now
		return &jobs.Snooze{After: until.Sub(now), Cause: ErrQuietHours}
	}
	if err := d.continued(ctx, j, "waits:", waitingSubject(s.ID), until); err != nil {
		return err
	}
	told := session.QuietEntry(now, until, session.TriggerActivation, "")
	return dispatch.Soften(d.Sessions.Note(ctx, s.ID, []session.Entry{told}, &dispatch.Cause{Job: j}, now), now.Sub(j.CreatedAt))
}

// awaitResume has the opening of a session wait that was parked for another reason, such as words that may be an opt-out. It is sent once
// an operator has resumed the session, and waits as it does in quiet hours, so that what the person writes meanwhile does not.
func (d *Desk) awaitResume(ctx context.Context, s session.Record, j jobs.Job) error {
	if j.Subject == waitingSubject(s.ID) {
		return &jobs.Snooze{After: holdPause, Cause: errParked}
	}
	return d.continued(ctx, j, "waits:", waitingSubject(s.ID), d.Now().Add(holdPause))
}

// bringBack makes an opening that has waited a job of the person again. It uses up no attempts: nobody would be told that they
// were used up.
func (d *Desk) bringBack(ctx context.Context, view dispatch.View, j jobs.Job) error {
	if err := d.continued(ctx, j, "waited:", view.Phone, d.Now()); err != nil {
		return &jobs.Snooze{After: holdPause, Cause: err}
	}
	return nil
}

// continued enqueues the work of an opening's job under another subject. Its key is made of that job, so that doing it again
// enqueues nothing more.
func (d *Desk) continued(ctx context.Context, j jobs.Job, prefix, subject string, due time.Time) error {
	_, err := d.Queue.Enqueue(ctx, jobs.New{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: j.OrgID, Key: prefix + j.ID, Source: jobs.SourceInternal,
		EventType: EventOpening, Subject: subject, Payload: j.Payload, At: d.Now(), DueAt: due,
	})
	if err != nil {
		return fmt.Errorf("have the opening wait: %w", err)
	}
	return nil
}
