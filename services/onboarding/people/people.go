// Package people has who is written to, and what an organisation has decided about them: profiles, safety holds, settings, and the pause of
// scheduling.
//
// One list of people filters by their newest session, so its statement reads conversation_sessions.
package people

import (
	"context"
	"log/slog"
	"time"

	"paceline.internal/platform/phone"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/flow"
)

// store keeps people. The crash matrix puts one in its place that fails at the k-th call.
type store interface {
	CreateProfile(ctx context.Context, p Profile) (Profile, error)
	Profile(ctx context.Context, orgID, profileID string) (Profile, error)
	ChangeProfile(ctx context.Context, was, is Profile, fields FieldChange, unfinished Unfinished, at time.Time) (Profile, error)
	SetHold(ctx context.Context, orgID, profileID, reason string, at time.Time) (Profile, error)
	Release(ctx context.Context, orgID, profileID string, at time.Time) (Profile, error)
	UnforwardedHolds(ctx context.Context, after string, limit int) ([]Profile, error)
	HoldForwarded(ctx context.Context, profileID string, version int64) error
}

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// CheckSender returns no error when the organisation can message the phone, and whether the ledger has nothing of it; ErrNoSender,
	// ErrOptedOut, ErrAwaitsOperator.
	CheckSender(ctx context.Context, orgID, phone string) (unrecorded bool, err error)
	// Unfinished returns what messaging has not finished for a person; ErrUnavailable, also for a messaging service that cannot say.
	Unfinished(ctx context.Context, orgID, profileID, phone string) (Unfinished, error)
	// ForwardHold is ErrKeepsNoHolds for a messaging service that does not know them, ErrUnavailable for one that cannot be reached.
	ForwardHold(ctx context.Context, orgID, phone string, held bool, version int64) error
	// SetSending has messaging know a version of what an organisation has decided about sending, and returns the one that it keeps, which may
	// be higher; ErrUnavailable.
	SetSending(ctx context.Context, decided Untold) (kept int64, err error)
	// JudgeWords ends the hold by words of a person that may be an opt-out; ErrUnavailable.
	JudgeWords(ctx context.Context, orgID, phone string) error
}

// judge knows whether words of a person wait for an operator; conversation.Service implements it.
type judge interface {
	AwaitsJudgement(ctx context.Context, orgID, phone string) (bool, error)
}

// published has the flows that organisations have published; flows.Store implements it.
type published interface {
	// Declared returns the fields of the current flows.
	Declared(ctx context.Context, orgID string) (flow.Declared, error)
	// Published reports whether an organisation has published a flow; flow.ErrNotFound.
	Published(ctx context.Context, orgID, name string) error
}

// Config has what a Service works with.
type Config struct {
	Store   store
	Carrier carrier
	Words   judge
	Flows   published
	Catalog catalog.Catalog    // renders the opening, to check a name
	Texts   catalog.Engagement // by which those of an organisation are checked
	Numbers phone.Policy       // whom we text, where an organisation has decided nothing
	Log     *slog.Logger
	Now     func() time.Time

	Settings *Store // what organisations have decided
}

// Service enrols, changes and holds people.
type Service struct {
	Config

	again round // the loop of the settings alone uses it
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{Config: cfg} }
