package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/roster"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// SessionParked reports that the session of a person waits for an operator. Another one would be a second conversation.
type SessionParked struct{ Session session.Record }

func (p *SessionParked) Error() string {
	id := p.Session.ID
	if session.WaitsForTicket(p.Session, "") { // ended otherwise, it would leave the ticket, which refuses the next activation
		return fmt.Sprintf("session %s of the person is parked as %s; read their ticket and answer, then close it: "+
			"GET /v1/tickets?profile_id=%s, POST /v1/tickets/{ticket_id}:close, with the outcome end to activate again; it is parked because: %s",
			id, p.Session.Status, p.Session.ProfileID, p.Session.Reason)
	}
	return fmt.Sprintf("session %s of the person is parked as %s; continue it with POST /v1/sessions/%s:resume, after "+
		"POST /v1/messages/{message_id}:resolve if a message of it is in doubt, or end it with POST /v1/sessions/%s:reset and activate again; "+
		"it is parked because: %s", id, p.Session.Status, id, id, p.Session.Reason)
}

// TooManyActivations refuses one more activation of a person within 24 hours: each one texts them.
type TooManyActivations struct {
	Most       int
	RetryAfter time.Duration // when there may be another
}

func (m *TooManyActivations) Error() string {
	return fmt.Sprintf("the person was activated %d times within 24 hours, as often as ACTIVATIONS_PER_DAY allows; retry in %s",
		m.Most, m.RetryAfter.Round(time.Second))
}

// Opening is the episode that an activation opens, with the job that sends its opening.
type Opening struct {
	Session session.Record
	Phone   string
	Job     queue.New
	Agreed  bool // a consent record comes with it
	// Unjudged says that messaging holds the person by words that may be an opt-out: no new session is opened.
	Unjudged bool
	With     Within
	Fields   people.FieldChange // that come with it
	PerDay   int                // how many may be begun within 24 hours; 0 for any number
	Many     bool               // it is one of many: a ticket of the person keeps it back, also one that nobody has
	Named    bool               // the caller named the flow, for which a session that the host application holds is closed
}

// Start names the person to write to, the published flow, and their consent, which is nil when the caller does not say. Without a flow it
// is that of ACTIVATION_FLOW, or the deployment's own conversation.
type Start struct {
	ProfileID string
	Flow      string
	Consent   *people.ConsentRecord
	Fields    map[string]any // values for fields of the flow, as JSON has them; they are kept with a new session only
	Version   string         // of the flow; empty for the current one
	Reserved  bool           // messaging has given the opening a turn at the sender's rate
	// With takes part in the transaction that opens the session, and an error of it refuses the session; nil for nothing.
	With    Within
	Follows bool // it follows another flow; the consent to that one holds
	Many    bool // it is one of many, whom nobody has looked at one by one: a ticket of the person keeps it back
	Onward  bool // it goes on with a conversation that the person has answered, and counts as one with it
}

// Activated is the session of an activation.
type Activated struct {
	session.Record

	ConsentRecorded string // the source in the ledger that the opening adds
}

// Begin opens a session and sends its opening, once, and in quiet hours not before they end; a session that is open already is
// returned as it is, and fields that come then are not kept. The opening goes out even if this process dies right after the session was
// stored. Errors: flow.ErrNotFound, ErrFlowSendsNothing, *OtherFlowOpen where another flow was named, people.ErrNoProfile,
// people.ErrConsent, phone.ErrRefused, people.ErrNoSender, people.ErrOptedOut, and those of OpenSession.
func (c *Service) Begin(ctx context.Context, orgID string, start Start) (Activated, error) {
	profile, err := c.Store.Profile(ctx, orgID, start.ProfileID)
	if err != nil {
		return Activated{}, err
	}
	if start.Consent != nil {
		agreed, err := start.Consent.Normalise(c.Now())
		if err != nil {
			return Activated{}, err
		}
		start.Consent = &agreed
	}
	decided, err := c.Store.Decided(ctx, orgID)
	if err != nil {
		return Activated{}, err
	}
	if _, err := decided.Policy(c.Numbers).Check(profile.Phone); err != nil {
		return Activated{}, err
	}
	unrecorded, sender := c.Carrier.CheckSender(ctx, orgID, profile.Phone)
	if sender != nil && !errors.Is(sender, people.ErrAwaitsOperator) {
		return Activated{}, sender
	}
	named := start.Flow != ""
	start.Flow = cmp.Or(start.Flow, decided.ActivationFlow, c.ActivationFlow)
	opening, err := c.opening(ctx, profile, start)
	if err != nil {
		return Activated{}, err
	}
	opening.Unjudged, opening.Named, opening.Many = sender != nil, named, start.Many
	if start.Onward {
		opening.PerDay = 0
	}
	opened, err := c.Store.OpenSession(ctx, opening)
	if err != nil {
		return Activated{}, err
	}
	if named && opened.Flow != opening.Session.Flow {
		return Activated{}, &OtherFlowOpen{Session: opened}
	}
	recorded := ""
	if opened.ID == opening.Session.ID {
		recorded = consentRecorded(start.Consent != nil, unrecorded)
		if opening.Job.Subject == opening.Phone { // else it is not due yet
			if err := c.Jobs.Try(ctx, opening.Job.ID, c.SendOpening); err != nil { // the loop sends it
				c.Log.WarnContext(ctx, "onboarding.opening_left_to_loop", "session_id", opened.ID, "error", err)
			}
		}
	}
	view, err := c.Store.LoadSession(ctx, opened.ID)
	if err != nil {
		return Activated{}, err
	}
	if view.Session.Status == session.Stopped {
		return Activated{}, people.ErrOptedOut
	}
	return Activated{view.Session, recorded}, nil
}

// consentRecorded names the source of the line that the opening adds to the ledger, empty if it adds none.
func consentRecorded(stated, unrecorded bool) string {
	switch {
	case stated:
		return "first_send"
	case unrecorded:
		return "collected_elsewhere"
	}
	return ""
}

// opening is a new episode of a person.
func (c *Service) opening(ctx context.Context, p people.Profile, start Start) (Opening, error) {
	now, id := c.Now(), uuid.Must(uuid.NewV7()).String()
	payload, err := json.Marshal(openingPayload{SessionID: id, Consent: start.Consent, Reserved: start.Reserved})
	if err != nil {
		return Opening{}, fmt.Errorf("encode opening: %w", err)
	}
	job := NewJob(p.OrgID, SourceInternal, EventOpening, OpeningJob(id), p.Phone, payload, now)
	job.DueAt = now.Add(openingBudget)
	opened := Opening{
		Phone: p.Phone, Agreed: start.Consent != nil || start.Follows, PerDay: c.ActivationsPerDay, Job: job, With: start.With,
		Session: session.Record{
			ID: id, OrgID: p.OrgID, ProfileID: p.ID, Mode: session.Onboarding, Token: session.AwaitingOpeningResponse,
			Status: session.Active, CopyVersion: c.Catalog.Current(), CreatedAt: now, UpdatedAt: now,
		},
	}
	switch {
	case start.Flow != "":
	case len(start.Fields) > 0:
		return opened, fmt.Errorf("%w are those of a published flow; send flow, too", flow.ErrFields)
	case catalog.ReadableName(p.FirstName) == "": // of a person who came by a keyword
		return opened, fmt.Errorf("%w: first_name: %w", roster.ErrInvalid, catalog.ErrBlankName)
	default:
		return opened, nil
	}
	return opened, c.enter(ctx, p, &opened, start)
}

// enter puts a new session at the beginning of a published flow.
func (c *Service) enter(ctx context.Context, p people.Profile, o *Opening, start Start) error {
	f, err := c.startOf(ctx, p.OrgID, start)
	if err != nil {
		return err
	}
	if o.Fields.Set, err = people.GivenFields(f.Declared(), start.Fields); err != nil {
		return err
	}
	fields, err := c.Store.Fields(ctx, p.OrgID, p.ID)
	if err != nil {
		return err
	}
	view := View{FirstName: p.FirstName, Locale: p.Locale, Zone: people.Zones(p.TimeZone, p.Phone, "UTC")[0], Fields: fields}
	person := view.person(&f)
	for _, given := range o.Fields.Set {
		person.Fields[given.Name] = given.Value
	}
	d := f.Next(flow.State{}, person, flow.Began{})
	first, sends := d.Do.(flow.SendText)
	if !sends {
		return fmt.Errorf("%w: %s", ErrFlowSendsNothing, start.Flow)
	}
	r := &o.Session
	if first.After > 0 { // what the person writes meanwhile does not wait behind it
		o.Job.Subject, o.Job.DueAt = waitingSubject(r.ID), r.CreatedAt.Add(first.After)
	}
	r.Flow, r.FlowVersion, r.At, r.Token = f.Name, f.Version, d.State, session.Token(f.Steps[d.State.Step].State)
	return nil
}

// startOf returns the version of the flow that a session is to begin with.
func (c *Service) startOf(ctx context.Context, orgID string, start Start) (flow.Flow, error) {
	if start.Version != "" {
		return c.Flows.Version(ctx, orgID, start.Flow, start.Version)
	}
	return c.Flows.Current(ctx, orgID, start.Flow)
}

// openingBudget sets how long the activation has for the opening before the loop takes it over.
const openingBudget = 5 * time.Second

// OpeningJob names the job of a session's opening: the key of the first one, and the subject of one that waits.
func OpeningJob(sessionID string) string { return "opening:" + sessionID }

type openingPayload struct {
	SessionID string                `json:"session_id"`
	Consent   *people.ConsentRecord `json:"consent,omitempty"`
	Reserved  bool                  `json:"reserved,omitempty"`
}

// openedBy returns the session that a job sends the opening of; empty for every other job.
func openedBy(j queue.Job) string {
	var p openingPayload
	if j.EventType != EventOpening || json.Unmarshal(j.Payload, &p) != nil || uuid.Validate(p.SessionID) != nil {
		return ""
	}
	return p.SessionID
}

// Reset closes a session, whatever its status, so that the next activation opens a new one. ErrNoSession.
func (c *Service) Reset(ctx context.Context, orgID, sessionID string) (session.Record, error) {
	return c.Store.CloseSession(ctx, orgID, sessionID, c.Now())
}
