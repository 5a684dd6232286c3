// Package runs starts a published flow for many people: at the sender's rate, each of them once, and behind whatever else is to be sent.
package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
)

// The bounds of runs.
const (
	MaxPeople  = 1_000_000 // of one run
	MaxOpen    = 20        // runs of an organisation that are not finished
	MaxPage    = 10_000    // people of one request
	maxFilter  = 2_000     // bytes of a filter
	maxPreview = 300_000   // people whom a dry run looks at
)

// Status is the status of a run.
type Status string

// The statuses.
const (
	Running   Status = "running"
	Paused    Status = "paused"
	Completed Status = "completed"
	Cancelled Status = "cancelled"
)

// Reason says why a person is left out of a run.
type Reason string

// The reasons.
const (
	OptedOut       Reason = "opted_out"
	Held           Reason = "held"
	NoConsent      Reason = "no_consent"
	SessionOpen    Reason = "session_open"
	Erased         Reason = "erased"
	BadNumber      Reason = "bad_number"
	AwaitsOperator Reason = "awaits_operator"
	SendsNothing   Reason = "sends_nothing"
	TooOften       Reason = "too_often"
	TicketOpen     Reason = "ticket_open"
	Failed         Reason = "failed"     // to be started, as often as it is tried
	NoProfile      Reason = "no_profile" // of an entry of a list
)

// Refusals. Each says what to do instead.
var (
	ErrNoRun    = errors.New("there is no such run in this organisation")
	ErrFinished = errors.New("the run is completed or cancelled; start another one")
	ErrTooMany  = fmt.Errorf("at most %d runs may be unfinished, with at most %d people each; cancel one, or wait until one is completed",
		MaxOpen, MaxPeople)
	ErrKeyReused = errors.New("the idempotency key was used for another run; every run needs its own key")
	// ErrInvalid is wrapped by every refusal of a request; the text says what to change.
	ErrInvalid = errors.New("invalid run")
)

// errNotRunning keeps a person from being started by a run that was paused or cancelled, or that has started them.
var errNotRunning = errors.New("the run does not start this person any more")

// Run starts a version of a flow for many people.
type Run struct {
	ID, OrgID            string
	Flow, FlowVersion    string
	Status               Status
	Reason               string // why the service paused it
	Filter               string
	Filtering            bool   // people are still to be asked
	FilteredTo           string // the last person who was
	Consent              *people.ConsentRecord
	Wakes                int
	People               int
	Counts               *Counts // of one that is finished
	CreatedAt, UpdatedAt time.Time
	FinishedAt           *time.Time
	CreatedBy            *string // the actor, see audit.Read
}

// Begun is a session that a run began.
type Begun struct{ ProfileID, SessionID string }

// RefusedError reports that the carrier refuses the first texts of a run until a person has acted.
type RefusedError struct {
	Code, Messages int    // of the newest one, and how many were refused in a row
	Explanation    string // with what to do
}

func (r *RefusedError) Error() string {
	return fmt.Sprintf("Twilio %d: %s; it refused %d first texts in a row; mend that, then resume the run, which goes on with those who wait",
		r.Code, r.Explanation, r.Messages)
}

// Counts counts the people of a run.
type Counts struct {
	People  int            `json:"people"`
	Waiting int            `json:"waiting"`
	Started int            `json:"started"`
	LeftOut map[Reason]int `json:"left_out"`
}

// leaves returns why a person is left out, as far as onboarding knows, or an empty reason.
func leaves(c Candidate, agreed bool) Reason {
	switch {
	case c.Erasing:
		return Erased
	case c.OptedOut:
		return OptedOut
	case c.Held:
		return Held
	case c.Busy:
		return SessionOpen
	case c.Ticket:
		return TicketOpen
	case c.ConsentRequired && !agreed:
		return NoConsent
	}
	return ""
}

// refused are the refusals of Begin for which a person is left out.
var refused = []struct {
	err    error
	reason Reason
}{
	{people.ErrOptedOut, OptedOut},
	{people.ErrOnHold, Held},
	{conversation.ErrConsentRequired, NoConsent},
	{conversation.ErrOtherOpen, SessionOpen},
	{conversation.ErrTicketOpen, TicketOpen},
	{people.ErrNoProfile, Erased},
	{erasure.ErrBegun, Erased},
	{phone.ErrRefused, BadNumber},
	{people.ErrAwaitsOperator, AwaitsOperator},
	{conversation.ErrFlowSendsNothing, SendsNothing},
}

// leftOut returns the reason for which an error of Begin leaves a person out; empty for one that another try may not meet.
func leftOut(err error) Reason {
	for _, r := range refused {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	if _, parked := errors.AsType[*conversation.SessionParked](err); parked {
		return SessionOpen
	}
	if _, often := errors.AsType[*conversation.TooManyActivations](err); often {
		return TooOften
	}
	return ""
}

// opening is the first text of a flow to a person.
type opening struct {
	language string
	segments int // as the person gets it
	longest  int // with the longest values of its placeholders
}

// openingOf returns the first text to a person, and false for one to whom the flow sends nothing.
func openingOf(f *flow.Flow, p flow.Person) (opening, bool) {
	text, sends := f.Next(flow.State{}, p, flow.Began{}).Do.(flow.SendText)
	if !sends {
		return opening{}, false
	}
	is, most, err := f.Segmented(text.Text, p)
	return opening{language: f.Language(p.Locale), segments: is, longest: most}, err == nil
}

// published has the flows of organisations; flows.Store implements it.
type published interface {
	Current(ctx context.Context, orgID, name string) (flow.Flow, error)
	Version(ctx context.Context, orgID, name, version string) (flow.Flow, error)
	Declared(ctx context.Context, orgID string) (flow.Declared, error)
}

// audience finds people; Store implements it.
type audience interface {
	Candidates(ctx context.Context, orgID string, ids []string) ([]Candidate, error)
	CandidatesByPhone(ctx context.Context, orgID string, phones []string) ([]Candidate, error)
	CandidatesBehind(ctx context.Context, orgID, after string, limit int) ([]Candidate, error)
	// Openings returns which sessions need no opening any more, and which openings wait for a time or an operator.
	Openings(ctx context.Context, sessionIDs []string) (sent, waiting []string, err error)
}

// conversations begins sessions; conversation.Service implements it.
type conversations interface {
	Begin(ctx context.Context, orgID string, start conversation.Start) (conversation.Activated, error)
	Busy() bool // texts are due
}

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// ReserveSends takes the turns of the first messages that have one now, and says how long until there may be another. begun are the newest
	// sessions of the run. *RefusedError while the carrier refuses them all.
	ReserveSends(ctx context.Context, orgID string, segments []int, begun []Begun) (n int, wait time.Duration, err error)
}

// Config has what a Service works with.
type Config struct {
	Store         store
	People        audience
	Flows         published
	Conversations conversations
	Carrier       carrier
	Notify        func() // that a job was stored
	Rest          process.Rest
	Log           *slog.Logger
	Now           func() time.Time
}

// Service makes runs and works on them. Several processes may each have one.
type Service struct {
	Config

	places *places
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{Config: cfg, places: newPlaces()} }
