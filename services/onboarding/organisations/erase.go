package organisations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/erasure"
)

// erased bounds the rows of a table that one pass deletes.
const erased = 1000

// erase goes on with erasing an organisation after its grace period: its people first, each as an operator would erase them, then the
// credentials of its senders, then the rest.
func (s *Service) erase(ctx context.Context, o Organisation) error {
	asked, left, err := s.askForPeople(ctx, o.OrgID)
	if err != nil {
		return errors.Join(err, s.Store.Delay(ctx, o, "a dependency or a setting: see onboarding.organisations_failed in the log", s.later(o)))
	}
	if left > 0 {
		waits := fmt.Sprintf("%d people who are being erased or on legal hold", left)
		if asked > 0 {
			o.Tries = 0 // it goes on
		}
		return s.Store.Delay(ctx, o, waits, s.later(o))
	}
	more, err := s.Carrier.ForgetOrganisation(ctx, o.OrgID)
	switch {
	case err != nil:
		return errors.Join(err, s.Store.Delay(ctx, o, "messaging, which has the credentials of its senders", s.later(o)))
	case more:
		o.Tries = 0 // it goes on
		return s.Store.Delay(ctx, o, "numbers without a profile, which messaging erases", s.Now().Add(interval))
	}
	done, err := s.Store.eraseRest(ctx, o.OrgID)
	switch {
	case err != nil:
		return errors.Join(err, s.Store.Delay(ctx, o, "a dependency or a setting: see onboarding.organisations_failed in the log", s.later(o)))
	case !done:
		return s.Store.Delay(ctx, o, "rows that are being deleted", s.Now().Add(interval))
	}
	s.Log.InfoContext(ctx, "onboarding.organisation_erased", "org_id", o.OrgID)
	return s.Store.erasedNow(ctx, o, s.Now())
}

// askForPeople asks to erase some people, and returns how many it asked for and how many there are.
func (s *Service) askForPeople(ctx context.Context, orgID string) (asked, left int, err error) {
	ids, left, err := s.Erasing.Store.Unasked(ctx, orgID, batch)
	if err != nil {
		return 0, left, err
	}
	for _, id := range ids {
		_, err := s.Erasing.Ask(ctx, erasure.Request{OrgID: orgID, ProfileID: id, Source: erasure.FromOperator})
		switch {
		case errors.Is(err, erasure.ErrLegalHold), errors.Is(err, erasure.ErrNoProfile): // since the list was read
		case err != nil:
			return asked, left, fmt.Errorf("profile %s: %w", id, err)
		default:
			asked++
		}
	}
	return asked, left, nil
}

const sqlErased = `
update organisations set erased_at = @at, next_try_at = null, waits_for = ''
where org_id = @org and version = @version and status = 'ended'`

func (s *Store) erasedNow(ctx context.Context, o Organisation, at time.Time) error {
	_, err := s.pool.Exec(postgres.AcrossOrganisations(ctx), sqlErased, postgres.Args{"org": o.OrgID, "version": o.Version, "at": at})
	if err != nil {
		return fmt.Errorf("note that an organisation is erased: %w", err)
	}
	return nil
}

// eraseRest deletes some of the rows that are of no person, and reports whether there were none left.
func (s *Store) eraseRest(ctx context.Context, orgID string) (done bool, err error) {
	err = s.pool.QueryRow(postgres.AcrossOrganisations(ctx), `select erase_organisation($1, $2)`, orgID, erased).Scan(&done)
	if err != nil {
		return false, fmt.Errorf("erase an organisation: %w", err)
	}
	return done, nil
}
