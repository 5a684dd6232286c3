package people

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/retention"
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

// Untold is a version of settings that messaging may not know.
type Untold struct {
	OrgID      string
	Version    int64
	Sending    *messagingv1.Sending
	Retention  map[string]int
	Unreadable error // of what is stored; nil where Sending is it
}

const (
	sqlUntold = `
select org_id::text, version, sending, retention from organisation_settings
where tell_at <= @at order by tell_at limit @limit`

	sqlToldBehind = `
select org_id::text, version, sending, retention from organisation_settings
where version > 0 and tell_at is null and org_id > @org order by org_id limit @limit`
)

// Untold lists settings that messaging is to be told.
func (s *Store) Untold(ctx context.Context, at time.Time, limit int) ([]Untold, error) {
	return s.toTell(ctx, sqlUntold, postgres.Args{"at": at, "limit": limit})
}

// ToldBehind lists settings that messaging was told, of the organisations behind one of them.
func (s *Store) ToldBehind(ctx context.Context, orgID string, limit int) ([]Untold, error) {
	return s.toTell(ctx, sqlToldBehind, postgres.Args{"org": orgID, "limit": limit})
}

func (s *Store) toTell(ctx context.Context, sql string, args postgres.Args) ([]Untold, error) {
	rows, err := s.pool.Query(postgres.AcrossOrganisations(ctx), sql, args)
	if err != nil {
		return nil, fmt.Errorf("settings to tell: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u Untold, err error) {
		var sending, kept []byte
		if err := row.Scan(&u.OrgID, &u.Version, &sending, &kept); err != nil {
			return u, err
		}
		u.Sending, u.Unreadable = readSending(sending)
		u.Retention = readRetention(kept)
		return u, nil
	})
	if err != nil {
		return nil, fmt.Errorf("settings to tell: %w", err)
	}
	return found, nil
}

// readRetention reads how many days what is kept. It leaves out what it cannot read or what is too short, which a later release may have
// written: the deployment's time holds, and messaging hears of the rest. What is too long is the longest time that this release knows.
func readRetention(stored []byte) map[string]int {
	var all map[string]json.RawMessage
	if json.Unmarshal(stored, &all) != nil { // the table refuses what is no object
		return nil
	}
	own := map[string]int{}
	for kind, value := range all {
		days, err := strconv.Atoi(string(value))
		if days = min(days, retention.MostDays); err == nil && retention.Fits(kind, days) {
			own[kind] = days
		}
	}
	return own
}

const (
	sqlTold     = `update organisation_settings set tell_at = null where org_id = @org and version = @version`
	sqlTellNext = `update organisation_settings set tell_at = @at where org_id = @org and version = @version`
	sqlTellNow  = `update organisation_settings set tell_at = @at where org_id = @org and version > 0`
	sqlRaise    = `update organisation_settings set version = @kept::bigint + 1, tell_at = @at where org_id = @org and version = @version`
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

// TellNow has the settings of an organisation told again.
func (s *Store) TellNow(ctx context.Context, orgID string, at time.Time) error {
	if _, err := s.pool.Exec(postgres.AcrossOrganisations(ctx), sqlTellNow, postgres.Args{"org": orgID, "at": at}); err != nil {
		return fmt.Errorf("have settings told again: %w", err)
	}
	return nil
}

// Raise counts settings above the version that messaging keeps, unless they were changed meanwhile, and reports whether it did.
func (s *Store) Raise(ctx context.Context, u Untold, kept int64, at time.Time) (raised bool, err error) {
	args := postgres.Args{"org": u.OrgID, "version": u.Version, "kept": kept, "at": at}
	changed, err := s.pool.Exec(postgres.AcrossOrganisations(ctx), sqlRaise, args)
	if err != nil {
		return false, fmt.Errorf("raise the version of settings: %w", err)
	}
	return changed.RowsAffected() > 0, nil
}
