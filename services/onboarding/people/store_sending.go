package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// Decided has what an organisation has decided about those whom it texts, as far as onboarding needs it.
type Decided struct {
	ActivationFlow string                  // empty for the deployment's
	Recipients     *messagingv1.Recipients // nil for the deployment's
}

const sqlDecided = `select coalesce(activation_flow, ''), sending from organisation_settings where org_id = $1`

// Decided reads what an organisation has decided.
func (s *Store) Decided(ctx context.Context, orgID string) (Decided, error) {
	var found Decided
	var stored []byte
	err := s.pool.QueryRow(ctx, sqlDecided, orgID).Scan(&found.ActivationFlow, &stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return Decided{}, nil
	}
	if err != nil {
		return Decided{}, fmt.Errorf("what the organisation has decided: %w", err)
	}
	sending, err := readSending(stored)
	found.Recipients = sending.GetRecipients()
	return found, err
}

// Untold is a version of settings that messaging does not know.
type Untold struct {
	OrgID   string
	Version int64
	Sending *messagingv1.Sending
}

const sqlUntold = `
select org_id::text, version, sending from organisation_settings
where tell_at <= @at order by tell_at limit @limit`

// Untold lists settings that messaging is to be told.
func (s *Store) Untold(ctx context.Context, at time.Time, limit int) ([]Untold, error) {
	rows, err := s.pool.Query(postgres.AcrossOrganisations(ctx), sqlUntold, postgres.Args{"at": at, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("settings to tell: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u Untold, err error) {
		var stored []byte
		if err := row.Scan(&u.OrgID, &u.Version, &stored); err != nil {
			return u, err
		}
		u.Sending, err = readSending(stored)
		return u, err
	})
	if err != nil {
		return nil, fmt.Errorf("settings to tell: %w", err)
	}
	return found, nil
}

const (
	sqlTold     = `update organisation_settings set tell_at = null where org_id = @org and version = @version`
	sqlTellNext = `update organisation_settings set tell_at = @at where org_id = @org and version = @version and tell_at is not null`
)

// Told notes that messaging knows a version of the settings, unless there is a later one.
func (s *Store) Told(ctx context.Context, u Untold) error {
	if _, err := s.pool.Exec(postgres.AcrossOrganisations(ctx), sqlTold, postgres.Args{"org": u.OrgID, "version": u.Version}); err != nil {
		return fmt.Errorf("note that settings are known: %w", err)
	}
	return nil
}

// TellNext has settings told again later.
func (s *Store) TellNext(ctx context.Context, u Untold, at time.Time) error {
	args := postgres.Args{"org": u.OrgID, "version": u.Version, "at": at}
	if _, err := s.pool.Exec(postgres.AcrossOrganisations(ctx), sqlTellNext, args); err != nil {
		return fmt.Errorf("delay settings: %w", err)
	}
	return nil
}
