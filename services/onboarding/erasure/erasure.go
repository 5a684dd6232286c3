// Package erasure takes a person out of both databases, and shows before that what is in them.
package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/platform/process"
)

// What keeps a person from being erased or exported.
var (
	// ErrNoProfile means that the organisation has no such person.
	ErrNoProfile = errors.New("there is no such profile in this organisation")
	// ErrLegalHold means that an operator has said that a person's data may not be erased.
	ErrLegalHold = errors.New("the person is on legal hold: lift it first (POST /v1/profiles/{id}:lift-legal-hold), if you may")
	// ErrBegun means that a person is being erased.
	ErrBegun = errors.New("the person is being erased, which is not taken back; try again when GET /v1/profiles/{id}/erasure says erased")
	// ErrErased means that a person is not there any more.
	ErrErased = errors.New("the person was erased: GET /v1/profiles/{id}/erasure says when, and what is left of their consent")
	// ErrNoErasure means that there is no request to erase a person.
	ErrNoErasure = errors.New("there is no request to erase this person")
	// ErrNoKey means that messaging has no PSEUDONYM_KEY, or another one than it had.
	ErrNoKey = errors.New("messaging has no PSEUDONYM_KEY, or another one than it had: give it the key that it had, or make the first one " +
		"with openssl rand -hex 32, and keep it for good")
	// ErrTooLarge means that a part of an export would have to be left out.
	ErrTooLarge = errors.New("more is kept about this person than fits into one export; read it in pages: GET /v1/messages, " +
		"/v1/consents/{phone}, /v1/sessions, /v1/goals and /v1/audit with their profile_id")
)

// Sources of a request.
const (
	FromOperator = "operator"
	FromShopify  = "shopify"
)

// Erasure is a request to erase a person, and how far it is.
type Erasure struct {
	ProfileID   string
	OrgID       string
	Phone       string // empty once the profile is gone
	Pseudonym   string
	Source      string
	RequestedAt time.Time
	ErasedAt    *time.Time // nil until it is done
	Tries       int
	WaitsFor    string // why it is not done yet, in words; empty before the first try
}

// Person is the one to erase or to export.
type Person struct{ OrgID, ProfileID, Phone string }

// Request asks to erase a person.
type Request struct {
	OrgID, ProfileID string
	Source           string
	JobID            string // of the webhook that asks; its payload goes, too
	Pseudonym        string
	At               time.Time
}

// Ledger is the rest of a ledger of consent.
type Ledger struct {
	ErasedAt time.Time
	State    string
	Length   int
	Verified bool
	Problem  string
}

// Consent is the rest of the consent of an erased person.
type Consent struct {
	Ledgers      []Ledger
	SuppressedAt time.Time // of the STOP that stays in force; zero for none
}

// store has the calls that a crash may come after; Store implements it.
type store interface {
	Person(ctx context.Context, orgID, profileID string) (Person, error)
	Request(ctx context.Context, r Request) error
	Find(ctx context.Context, orgID, profileID string) (Erasure, error)
	Due(ctx context.Context, now time.Time, limit int) ([]Erasure, error)
	Delay(ctx context.Context, profileID, waitsFor string, next time.Time) error
	EraseProfile(ctx context.Context, orgID, profileID string, at time.Time) (done bool, err error)
	Export(ctx context.Context, orgID, profileID string) (json.RawMessage, error)
	Unasked(ctx context.Context, orgID string, limit int) (profileIDs []string, people int, err error)
}

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// MayErase returns the pseudonym under which a person would be erased; ErrNoKey, people.ErrUnavailable.
	MayErase(ctx context.Context, p Person) (pseudonym string, err error)
	// Erase goes on with erasing a person there, and says what it waits for; empty when nothing of them is left.
	Erase(ctx context.Context, e Erasure) (waitsFor string, err error)
	// ExportPerson is everything that is kept about a person there; ErrTooLarge.
	ExportPerson(ctx context.Context, p Person) (json.RawMessage, error)
	ErasedConsent(ctx context.Context, orgID, pseudonym string) (Consent, error)
}

// Service erases people. The request is kept first, in the transaction that ends what is open; then messaging is asked, which sends nothing
// to them from then on; and the profile goes last, because only it knows the number that messaging has to be asked for. Each part may be
// done again, and the loop goes on where a process has died.
type Service struct {
	Store   store
	Carrier carrier
	Log     *slog.Logger
	Now     func() time.Time
}

const (
	interval = 5 * time.Second
	batch    = 20
	longest  = 10 * time.Minute // between two tries
)

// Ask asks to erase a person, and begins. A repeat finds how far it is. ErrLegalHold, ErrNoKey, ErrNoProfile.
func (s *Service) Ask(ctx context.Context, r Request) (Erasure, error) {
	e, err := s.Store.Find(ctx, r.OrgID, r.ProfileID)
	if !errors.Is(err, ErrNoErasure) {
		return e, err
	}
	p, err := s.Store.Person(ctx, r.OrgID, r.ProfileID)
	if err != nil {
		return Erasure{}, err
	}
	if r.Pseudonym, err = s.Carrier.MayErase(ctx, p); err != nil {
		return Erasure{}, err
	}
	r.At = s.Now()
	if err := s.Store.Request(ctx, r); err != nil {
		return Erasure{}, err
	}
	s.Log.InfoContext(ctx, "onboarding.erasure_requested", "profile_id", r.ProfileID, "source", r.Source)
	return s.Store.Find(ctx, r.OrgID, r.ProfileID)
}

// Get reads the state of an erasure, and the rest of the person's consent once it is done; ErrNoErasure.
func (s *Service) Get(ctx context.Context, orgID, profileID string) (e Erasure, left Consent, err error) {
	if e, err = s.Store.Find(ctx, orgID, profileID); err != nil || e.ErasedAt == nil {
		return e, left, err
	}
	left, err = s.Carrier.ErasedConsent(ctx, orgID, e.Pseudonym)
	return e, left, err
}

// Loop repeats Settle.
func (s *Service) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: s.Settle,
		Failed: func(ctx context.Context, err error) {
			s.Log.WarnContext(ctx, "onboarding.erasure_failed", "error", err)
		},
		Rest: rest, Every: interval,
	}
}

// Settle goes on with the erasures that are due. One that fails delays no other.
func (s *Service) Settle(ctx context.Context) (more bool, err error) {
	due, err := s.Store.Due(ctx, s.Now(), batch)
	if err != nil {
		return false, err
	}
	var failures []error
	for _, e := range due {
		if err := s.settle(ctx, e); err != nil {
			failures = append(failures, fmt.Errorf("profile %s: %w", e.ProfileID, err))
		}
		process.Progress(ctx)
	}
	return len(due) == batch && len(failures) == 0, errors.Join(failures...)
}

func (s *Service) settle(ctx context.Context, e Erasure) error {
	waits, err := s.Carrier.Erase(ctx, e)
	if err == nil && waits == "" {
		var done bool
		if done, err = s.Store.EraseProfile(ctx, e.OrgID, e.ProfileID, s.Now()); err == nil && done {
			s.Log.InfoContext(ctx, "onboarding.person_erased", "profile_id", e.ProfileID)
			return nil
		}
		waits = "a job of theirs that is at work"
	}
	if err != nil {
		waits = "a dependency or a setting: see onboarding.erasure_failed in the log"
	}
	next := s.Now().Add(min(interval<<min(e.Tries, 10), longest))
	return errors.Join(err, s.Store.Delay(ctx, e.ProfileID, waits, next))
}
