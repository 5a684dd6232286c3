package organisations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/people"
)

// carrier is messaging; messaging.Client implements it.
type carrier interface {
	// SetOrganisation has messaging know whether an organisation may send. Of two versions the higher one counts.
	SetOrganisation(ctx context.Context, orgID string, status Status, version int64) error
	// ForgetOrganisation has messaging delete the senders of an organisation that has ended, their credentials, and some of the numbers
	// without a profile; it reports whether there may be more.
	ForgetOrganisation(ctx context.Context, orgID string) (more bool, err error)
}

// Service changes organisations. The wish is kept first; then messaging is told, which sends nothing from then on; then the row says so.
// The loop goes on where a process has died or messaging was away.
type Service struct {
	Store   *Store
	Carrier carrier
	// Settings has the settings of the organisations: messaging keeps none of one that has ended.
	Settings *people.Store
	// Erasing erases the people of an organisation.
	Erasing *erasure.Service
	// Default is the organisation that was there before there were rows.
	Default string
	// Grace is the time between the end of an organisation and its erasure.
	Grace time.Duration
	Log   *slog.Logger
	Now   func() time.Time

	defaulted bool // the loop alone uses it
}

const (
	interval = 5 * time.Second
	batch    = 20
	longest  = 10 * time.Minute // between two tries
	// defaultName names the organisation that was there before there were rows, until somebody names it.
	defaultName = "Default organisation"
)

// Change gives an organisation another status. ErrDefault, ErrNotFound, ErrEnded, ErrErased, ErrMoved,
// ErrNotTold.
func (s *Service) Change(ctx context.Context, orgID string, to Status, reason string) (Organisation, error) {
	if to == Ended && strings.EqualFold(orgID, s.Default) {
		return Organisation{}, ErrDefault
	}
	now := s.Now()
	o, err := s.Store.Change(ctx, orgID, to, reason, now, now.Add(s.Grace))
	if err != nil || o.Status == o.Wanted {
		return o, err
	}
	if err := s.tell(ctx, o); err != nil {
		s.Log.WarnContext(ctx, "onboarding.organisation_not_told", "org_id", orgID, "error", err)
		return o, ErrNotTold
	}
	s.Log.InfoContext(ctx, "onboarding.organisation_changed", "org_id", orgID, "status", string(to))
	return s.Store.Get(ctx, orgID)
}

// tell has messaging know the wish, and then the row.
func (s *Service) tell(ctx context.Context, o Organisation) error {
	if err := s.Carrier.SetOrganisation(ctx, o.OrgID, o.Wanted, o.Version); err != nil {
		return err
	}
	if o.Wanted == Active {
		if err := s.Settings.TellNow(ctx, o.OrgID, s.Now()); err != nil {
			return err
		}
	}
	return s.Store.Agreed(ctx, o.OrgID, o.Version)
}

// Loop repeats Settle.
func (s *Service) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: s.Settle,
		Failed: func(ctx context.Context, err error) {
			s.Log.WarnContext(ctx, "onboarding.organisations_failed", "error", err)
		},
		Rest: rest, Every: interval,
	}
}

// Settle gives the default organisation its row, and goes on with changes that messaging does not know. One that fails delays no other.
func (s *Service) Settle(ctx context.Context) (more bool, err error) {
	if !s.defaulted {
		if _, _, err := s.Store.Create(ctx, s.Default, defaultName, s.Now()); err != nil {
			return false, err
		}
		s.defaulted = true
	}
	due, err := s.Store.Due(ctx, s.Now(), batch)
	if err != nil {
		return false, err
	}
	var failures []error
	for _, o := range due {
		if err := s.settle(ctx, o); err != nil {
			failures = append(failures, fmt.Errorf("organisation %s: %w", o.OrgID, err))
		}
		process.Progress(ctx)
	}
	return len(due) == batch && len(failures) == 0, errors.Join(failures...)
}

func (s *Service) settle(ctx context.Context, o Organisation) error {
	if o.Status == o.Wanted { // it has ended, and its grace period is over
		return s.erase(ctx, o)
	}
	err := s.tell(ctx, o)
	if err == nil {
		return nil
	}
	return errors.Join(err, s.Store.Delay(ctx, o, "messaging, which does not know the change", s.later(o)))
}

func (s *Service) later(o Organisation) time.Time {
	return s.Now().Add(min(interval<<min(o.Tries, 10), longest))
}
