package enrolment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/session"
)

// EventOpening is the type of a job that sends a session's opening.
const EventOpening = "session.opening"

// Refusals.
var (
	ErrNoProfile = errors.New("there is no such profile in this organisation")
	ErrNoSession = errors.New("there is no such session in this organisation")
	ErrOnHold    = errors.New("the person is on a safety hold; release the profile first")
	ErrOptedOut  = errors.New("the person has opted out; they opt in again by texting START")
	ErrNoSender  = errors.New("the organisation owns no number to send from; DEFAULT_ORG_ID names the one that does")
	// ErrAwaitsOperator is a person whose words have failed a job until an operator has judged them.
	ErrAwaitsOperator = errors.New("words of the person that may be an opt-out wait for an operator; find them with " +
		"GET /v1/webhook-jobs?status=failed, do what the job says and POST /v1/webhook-jobs/{job_id}:cancel, then activate again")
	ErrConsentRequired = errors.New("the settings of the organisation require a consent record: " +
		"give consent {source, words_shown, collected_at}")
)

// Parked is a person whose session waits for an operator. Another one would be a second conversation.
type Parked struct{ Session session.Record }

func (p *Parked) Error() string {
	id := p.Session.ID
	return fmt.Sprintf("session %s of the person is parked as %s; lead it on with POST /v1/sessions/%s:resume, after "+
		"POST /v1/messages/{message_id}:resolve if a message of it is in doubt, or end it with POST /v1/sessions/%s:reset and activate again; "+
		"it is parked because: %s", id, p.Session.Status, id, id, p.Session.Reason)
}

// Opening is the episode that an activation opens, with the job that sends its opening.
type Opening struct {
	Session session.Record
	Phone   string
	Job     jobs.New
	Agreed  bool // a consent record comes with it
}

// Again makes the next alarm of a due step, from the number it gets and when the one before was due.
type Again func(r session.Record, generation int, due time.Time) *session.Alarm

type profiles interface {
	CreateProfile(ctx context.Context, p Profile) (Profile, error)
	Profile(ctx context.Context, orgID, profileID string) (Profile, error)
	heldProfiles
}

type episodes interface {
	// OpenSession stores the episode unless the person has one open, which is returned. Errors: ErrNoProfile, ErrOnHold, *Parked,
	// ErrAwaitsOperator, ErrConsentRequired.
	OpenSession(ctx context.Context, o Opening) (session.Record, error)
	LoadSession(ctx context.Context, id string) (dispatch.View, error)
	CloseSession(ctx context.Context, orgID, sessionID string, at time.Time) (session.Record, error)
	Note(ctx context.Context, sessionID string, entries []session.Entry, cause *dispatch.Cause, at time.Time) error
}

type queue interface {
	Enqueue(ctx context.Context, n jobs.New) (jobs.Enqueued, error)
}

type runner interface {
	Try(ctx context.Context, id string, handle jobs.Handler) error
}

type deliverer interface {
	Deliver(ctx context.Context, o dispatch.Order) (dispatch.Done, error)
}

type senders interface {
	CheckSender(ctx context.Context, orgID, phone string) error
}

// Desk enrols people and opens their episodes.
type Desk struct {
	Profiles profiles
	Sessions episodes
	Queue    queue
	Runner   runner
	Delivery deliverer
	Senders  senders
	Holds    holds
	Catalog  catalog.Catalog // new sessions pin its current version
	NewAlarm func(r session.Record, step session.StepID, generation int, due time.Time) *session.Alarm
	Threads  telemetry.Threads
	Log      *slog.Logger
	Now      func() time.Time
}

// Enrol creates a profile, or returns the one that the phone has in this organisation already. ErrInvalid says what is
// wrong with the fields.
func (d *Desk) Enrol(ctx context.Context, orgID string, p Person) (Profile, error) {
	p, err := normalise(p)
	if err != nil {
		return Profile{}, err
	}
	if _, err := d.Catalog.Render(d.Catalog.Current(), p.Locale, string(session.TextOpening), p.FirstName); err != nil {
		return Profile{}, fmt.Errorf("%w: first_name: %w", ErrInvalid, err)
	}
	return d.Profiles.CreateProfile(ctx, Profile{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: orgID, Phone: p.Phone, FirstName: p.FirstName,
		Locale: p.Locale, TimeZone: p.TimeZone, CreatedAt: d.Now(),
	})
}

// Profile reads one profile; ErrNoProfile.
func (d *Desk) Profile(ctx context.Context, orgID, profileID string) (Profile, error) {
	return d.Profiles.Profile(ctx, orgID, profileID)
}

// Activate opens a session and sends its opening, once, and in quiet hours not before they end; a session that is open already is
// returned as it is. The opening goes out even if this process dies right after the session was stored. Consent is how the person agreed,
// nil when nobody says. Errors: ErrNoProfile, ErrConsent, ErrNoSender, ErrOptedOut, and those of OpenSession.
func (d *Desk) Activate(ctx context.Context, orgID, profileID string, consent *dispatch.ConsentRecord) (session.Record, error) {
	profile, err := d.Profiles.Profile(ctx, orgID, profileID)
	if err != nil {
		return session.Record{}, err
	}
	if consent != nil {
		agreed, err := normaliseConsent(*consent, d.Now())
		if err != nil {
			return session.Record{}, err
		}
		consent = &agreed
	}
	if err := d.Senders.CheckSender(ctx, orgID, profile.Phone); err != nil {
		return session.Record{}, err
	}
	opening, err := d.opening(profile, consent)
	if err != nil {
		return session.Record{}, err
	}
	opened, err := d.Sessions.OpenSession(ctx, opening)
	if err != nil {
		return session.Record{}, err
	}
	if opened.ID == opening.Session.ID {
		if err := d.Runner.Try(ctx, opening.Job.ID, d.SendOpening); err != nil { // the loop sends it
			d.Log.WarnContext(ctx, "onboarding.opening_left_to_loop", "session_id", opened.ID, "error", err)
		}
	}
	view, err := d.Sessions.LoadSession(ctx, opened.ID)
	if err != nil {
		return session.Record{}, err
	}
	if view.Session.Status == session.Stopped {
		return session.Record{}, ErrOptedOut
	}
	return view.Session, nil
}

// opening is a new episode of a person.
func (d *Desk) opening(p Profile, consent *dispatch.ConsentRecord) (Opening, error) {
	now, id := d.Now(), uuid.Must(uuid.NewV7()).String()
	payload, err := json.Marshal(openingPayload{SessionID: id, Consent: consent})
	if err != nil {
		return Opening{}, fmt.Errorf("encode opening: %w", err)
	}
	return Opening{
		Phone: p.Phone, Agreed: consent != nil,
		Session: session.Record{
			ID: id, OrgID: p.OrgID, ProfileID: p.ID, Mode: session.Onboarding, Token: session.AwaitingOpeningResponse,
			Status: session.Active, CopyVersion: d.Catalog.Current(), CreatedAt: now, UpdatedAt: now,
		},
		Job: jobs.New{
			ID: uuid.Must(uuid.NewV7()).String(), OrgID: p.OrgID, Key: OpeningJob(id), Source: jobs.SourceInternal,
			EventType: EventOpening, Subject: p.Phone, Payload: payload, At: now, DueAt: now.Add(openingBudget),
		},
	}, nil
}

// openingBudget is how long the activation has for the opening before the loop takes it over.
const openingBudget = 5 * time.Second

// OpeningJob is what a session's opening is called among the jobs: the key of the first one, and the subject of one that waits.
func OpeningJob(sessionID string) string { return "opening:" + sessionID }

type openingPayload struct {
	SessionID string                  `json:"session_id"`
	Consent   *dispatch.ConsentRecord `json:"consent,omitempty"`
}

// SessionOf is the session whose opening a job sends; empty for every other job.
func SessionOf(j jobs.Job) string {
	var p openingPayload
	if j.EventType != EventOpening || json.Unmarshal(j.Payload, &p) != nil || uuid.Validate(p.SessionID) != nil {
		return ""
	}
	return p.SessionID
}

// SendOpening is the job handler that sends a session's opening. A session that is over or has gone on needs none any more.
func (d *Desk) SendOpening(ctx context.Context, j jobs.Job) error {
	var p openingPayload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return &jobs.Permanent{Cause: fmt.Errorf("decode opening: %w", err)}
	}
	ctx, end := d.Threads.Begin(ctx, "onboarding.opening", p.SessionID)
	defer end()
	view, err := d.Sessions.LoadSession(ctx, p.SessionID)
	if err != nil && j.Subject == waitingSubject(p.SessionID) { // nobody would be told that its attempts were used up
		return &jobs.Snooze{After: holdPause, Cause: err}
	}
	if err != nil {
		return err
	}
	s := view.Session
	if s.Status.Parked() && s.Place() == 0 {
		return d.awaitResume(ctx, s, j)
	}
	if s.Status != session.Active || s.Place() > 0 {
		return nil
	}
	if until, quiet := s.QuietUntil(d.Now()); quiet {
		return d.putOff(ctx, view, j, until)
	}
	if j.Subject == waitingSubject(s.ID) {
		return d.bringBack(ctx, view, j)
	}
	if view.Hold {
		return &jobs.Snooze{After: holdPause, Cause: ErrOnHold}
	}
	var consent dispatch.ConsentRecord
	if p.Consent != nil {
		consent = *p.Consent
	}
	_, err = d.Delivery.Deliver(ctx, dispatch.Order{
		Consent: consent, View: view, Text: session.TextOpening, Key: session.OpeningKey(s.ProfileID, s.ID),
		CorrelationID: j.ID, Trigger: session.TriggerActivation, Cause: &dispatch.Cause{Job: j},
		Then: func(sent dispatch.Sent) session.Move {
			move := session.Stay(s, d.Now())
			move.AnswerHeldSince = sent.AskedAt // replies that came while the session was parked
			return move
		},
	})
	if errors.Is(err, dispatch.ErrHeld) {
		return &jobs.Snooze{After: holdPause, Cause: ErrOnHold}
	}
	if errors.Is(err, dispatch.ErrConflict) { // stopped, reset or answered meanwhile; the key keeps the text single
		return nil
	}
	return dispatch.Soften(err, d.Now().Sub(j.CreatedAt))
}

// holdPause is how often an opening that waits for a hold to be lifted is looked at.
const holdPause = 30 * time.Second

// Release lifts a hold. A step that came due meanwhile rings again at once, and the last reply that was held and still
// answers something is answered. Releasing a person who is not held changes nothing. ErrNoProfile, ErrHoldUntold.
func (d *Desk) Release(ctx context.Context, orgID, profileID string) (Profile, error) {
	now := d.Now()
	again := func(r session.Record, generation int, due time.Time) *session.Alarm {
		if due.Before(now) {
			due = now
		}
		a := d.NewAlarm(r, r.NextStep, generation, due)
		a.Cause = session.CauseReleased
		return a
	}
	p, err := d.Profiles.Release(ctx, orgID, profileID, again, now)
	if err != nil {
		return Profile{}, err
	}
	return p, d.tellNow(ctx, p)
}

// Reset closes a session, whatever its status, so that the next activation opens a new one. ErrNoSession.
func (d *Desk) Reset(ctx context.Context, orgID, sessionID string) (session.Record, error) {
	return d.Sessions.CloseSession(ctx, orgID, sessionID, d.Now())
}
