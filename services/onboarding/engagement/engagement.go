// Package engagement is the orchestrator of staying in touch: it follows what people do, and takes the messages that speak to it. It
// loads, asks the pure package rules for a decision, has the store write it whole, and answers.
package engagement

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/session"
)

// Config configures a Service.
type Config struct {
	Store     store
	Settings  settings
	Carrier   carrier
	Rules     rules.Config         // of organisations that have decided nothing
	Texts     catalog.Engagement   // of organisations that have decided nothing
	Unknown   session.UnknownSends // of its answers
	Metrics   *Metrics             // nil measures nothing
	Transient func(err error) bool // an error that says nothing of what was written; nil knows none
	Notify    func()               // wakes the worker of outreach after rows of it were queued; nil wakes nothing
	Log       *slog.Logger
	Now       func() time.Time
}

// store keeps people's engagement; Store implements it, and the crash matrix puts one in its place that fails at
// the k-th call.
type store interface {
	views
	changes
	outreachRows
	runRows
}

// changes writes people.
type changes interface {
	// Apply writes a change whole, or nothing of it; people.ErrConflict when the person no longer stands where it saw them.
	Apply(ctx context.Context, c Change) error
	// Prefer writes one preference, unless a later one is known, or the person's own words bind who states it. Repeating it changes nothing.
	Prefer(ctx context.Context, p Preference) error
	// NoteConsent copies a change of consent, unless a later one is known.
	NoteConsent(ctx context.Context, orgID, profileID string, optedOut bool, said, now time.Time) error
}

// views reads people.
type views interface {
	// Person reads a person by their phone, and what a cause has done already; ErrNoPerson.
	Person(ctx context.Context, orgID, phone, cause, jobID string) (View, error)
	// PersonByID is Person of a profile; ErrNoPerson.
	PersonByID(ctx context.Context, orgID, profileID, cause string) (View, error)
	// ExpensesIn counts the expenses of a person in a category, from an instant until another.
	ExpensesIn(ctx context.Context, v View, category string, from, until time.Time) (int, error)
}

// settings reads the decisions of organisations; people.Store implements it.
type settings interface {
	// EngagementRules returns the rules of an organisation; nil of none. people.ErrLaterRules.
	EngagementRules(ctx context.Context, orgID string) (*rules.Config, error)
	// EngagementCalendars returns when the runs of the organisations begin that have decided any rules.
	EngagementCalendars(ctx context.Context) (map[string]rules.Calendar, error)
}

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// Send hands over one message; people.ErrUnavailable.
	Send(ctx context.Context, m conversation.Message) (conversation.Sent, error)
	// SetReminders records what was said elsewhere than in a message, and returns what is in force; people.ErrUnavailable.
	SetReminders(ctx context.Context, orgID, phone string, said RemindersSaid) (RemindersSaid, error)
	// Sender returns the number that an organisation sends from; people.ErrNoSender.
	Sender(ctx context.Context, orgID string) (string, error)
	// Fate reads the status of the message of a key; people.ErrUnavailable.
	Fate(ctx context.Context, orgID, key string) (Fate, error)
}

// RemindersSaid is the last word about a person's reminders.
type RemindersSaid struct {
	Off    bool
	Source string // ByPerson, ByOperator
	Said   time.Time
}

// ErrNoPerson is a phone of which the organisation has no profile.
var ErrNoPerson = errors.New("there is no such person in this organisation")

// Why an operator's request about outreach is refused.
var (
	ErrNoOutreach = errors.New("there is no such outreach in this organisation")
	ErrBegun      = errors.New("the outreach may have been sent; it comes to its end by itself")
	ErrOver       = errors.New("the outreach has expired; it would not be sent any more")
)

// Service follows people. It is safe for concurrent use.
type Service struct {
	Config

	turn   atomic.Int64 // when the next row of outreach may be begun, in ns, after one had to wait for its turn
	unread unreadRules
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Transient == nil {
		cfg.Transient = func(error) bool { return false }
	}
	if cfg.Notify == nil {
		cfg.Notify = func() {}
	}
	return &Service{Config: cfg}
}

// rulesOf returns the rules that hold for a person.
func (s *Service) rulesOf(v View) rules.Config {
	if v.Decided != nil {
		return *v.Decided
	}
	return s.Rules
}

// render returns a text of the catalog for a person, in the words of their organisation where it has decided them.
func (s *Service) render(v View, key string, params catalog.Params) (string, error) {
	return s.Texts.Own(v.Texts).Render(v.Locale, key, v.FirstName, params)
}

// rulesFor returns the rules of an organisation.
func (s *Service) rulesFor(ctx context.Context, orgID string) (rules.Config, error) {
	decided, err := s.Settings.EngagementRules(ctx, orgID)
	if err != nil || decided == nil {
		return s.Rules, err
	}
	return *decided, nil
}

// View is a person, as one read of the database saw them.
type View struct {
	OrgID       string
	ProfileID   string
	Phone       string
	FirstName   string
	Locale      string
	Zone        *time.Location
	Zones       []*time.Location // all that they may be in; one, unless only their number is known
	Hold        bool
	Ticket      bool // a person of the organisation has the conversation, or is asked for
	HoldVersion int64

	RemindersOff, TipsOff, OptedOut bool

	Destination       rules.Destination
	DestinationChosen bool   // by the person, or by another caller of SetPreferences
	HouseholdID       string // empty for none
	InHousehold       bool   // with another person

	SignedUpAt   time.Time
	Progress     rules.Progress
	ProgressRead string // Progress as it is stored, which a change of it is guarded by
	Expenses     int    // reported ever
	MagicAt      time.Time

	Known        bool // whether there is a row of their engagement
	Person       rules.Person
	Situation    rules.Situation
	TransitionID string // the newest; empty for none

	// Session is the open session or else the newest one; empty when there never was one.
	Session session.Status
	Mode    session.Mode
	Step    session.StepID // that is due in it

	// Decided has the rules of the person's organisation; nil for the deployment's, of a candidate of a run, and where LaterRules tells that
	// this release cannot read them. A text is answered all the same.
	Decided    *rules.Config
	LaterRules error
	Texts      []byte // of engagement that the organisation has decided, see catalog.Engagement.Own; nil of none

	// Done are the transitions that the cause has made already, and Acted the action that it was; nil for none.
	Done  []rules.Trigger
	Acted *Acted
}

// Acted is an action that was counted before.
type Acted struct {
	Action     string
	Source     rules.Source
	Category   string // as it is stored
	OccurredAt time.Time
	Answer     Answer
}

// silent reports whether nothing may be sent to the person that is not part of their conversation: in a burst, under a hold, and while an
// operator is asked about them.
func (v View) silent() bool { return v.Hold || v.inBurst() || v.Session.Parked() }

func (v View) inBurst() bool { return v.Session == session.Active && v.Step != "" }

// keeps reports whether the conversation keeps a message that may not be answered now, and asks about it again later.
func (v View) keeps() bool {
	return v.silent() && (v.Session == session.Active || v.Session.Parked())
}

// candidate returns the facts that decide whether there may be outreach.
func (v View) candidate() rules.Candidate {
	return rules.Candidate{
		OptedOut: v.OptedOut, Held: v.Hold || v.Ticket, RemindersOff: v.RemindersOff, TipsOff: v.TipsOff, Session: v.Session, Mode: v.Mode,
	}
}

// Change is the effect of one cause, guarded by the view that it was decided on. It is written whole.
type Change struct {
	View  View
	Cause string
	Moves []rules.Move // in their order
	Act   *Act         // nil for none
	// Destination is the one for a person who has not chosen any; empty leaves it.
	Destination rules.Destination
	Outreach    []Outreach
	Events      []Event
	At          time.Time
}

// Act is an action that a change counts.
type Act struct {
	rules.Action

	Category string
	Recorded rules.Recorded
	Answer   Answer
}

// Expense reports whether the action counts as an expense of the person.
func (a *Act) Expense() bool { return a.Name == rules.AddExpense && !a.Income }

// Answer is the result of an action, as it is stored and answered.
type Answer struct {
	Tier        int    `json:"tier"`                // the highest that is completed
	Completed   []int  `json:"completed,omitempty"` // by this action
	Hint        string `json:"hint,omitempty"`      // the text; empty for none
	MagicMoment bool   `json:"magic_moment,omitempty"`
	Asked       string `json:"asked,omitempty"` // the digest of the report, which is not answered; empty of an older release
}

// Outreach is a row of outreach to be queued. A key that there is already is left as it is.
type Outreach struct {
	ID         string // of the row; the store sets it, and leaves it empty when the key was there
	Type       rules.MessageType
	Key        string
	MessageKey string // of the catalog
	Params     catalog.Params
	LocalDay   string // of the person
	DueAt      time.Time
	ExpiresAt  time.Time
}

// Transition is one row of a person's audit.
type Transition struct {
	ID         string
	From       rules.State // empty in the first
	To         rules.State
	Trigger    rules.Trigger
	Cause      string
	Supersedes string // the transition that it overrules; empty for none
	Metadata   rules.Metadata
	At         time.Time // of what caused it
}

// Stats are counts of an organisation: people by state as they are now, and transitions and outreach of a span of time.
type Stats struct {
	People      map[rules.State]int
	Transitions map[rules.Trigger]int
	Outreach    map[rules.MessageType]map[string]int // by outcome; open, or the status of a row that has none
}

// Event is something that happened, for the host application: ids, never words or phone numbers.
type Event struct {
	Type string
	Time time.Time
	Data map[string]any
}

// The types of events.
const (
	EventStateChanged      = "engagement.state_changed"
	EventGoodbyeResponse   = "engagement.goodbye_response"
	EventUnpromptedReturn  = "engagement.unprompted_return"
	EventPreferenceChanged = "engagement.preference_changed"
	EventTierCompleted     = "engagement.tier_completed"
	EventMagicMoment       = "engagement.magic_moment"
)

// PreferenceName names a preference, as events do.
type PreferenceName string

// The preferences.
const (
	Reminders   PreferenceName = "reminders"
	Tips        PreferenceName = "tips"
	Destination PreferenceName = "destination"
)

// Who says something about reminders. While the person has switched them off, only they switch them on.
const (
	ByPerson   = "person"
	ByOperator = "operator"
)

// Preference is one preference that was stated.
type Preference struct {
	OrgID     string
	ProfileID string
	Name      PreferenceName
	Value     string    // on, off; of a destination individual, group
	Source    string    // chat, web, app, operator
	Cause     string    // as Change.Cause
	Said      time.Time // when they did
	Now       time.Time
}
