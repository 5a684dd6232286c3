package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

// Settings are what an organisation has decided for itself.
type Settings struct {
	QuietHours bool // whether a conversation begins in the window only
	Window     session.Window
	// RequireConsentRecord says whether no session is opened without one. To SetSettings nil leaves it as it is.
	RequireConsentRecord *bool
	// Retention is for how many days it keeps what it has decided about, see OwnRetention. To SetSettings nil leaves it as it is.
	Retention map[string]int
	UpdatedAt time.Time // zero when the organisation has decided nothing
	UpdatedBy *string   // the actor, see audit.Read
}

const sqlSettings = `
select quiet_hours, quiet_until, quiet_from, require_consent_record, retention, updated_at, updated_by::text
from organisation_settings where org_id = $1`

// Settings reads what an organisation has decided; one that has decided nothing has no quiet hours.
func (s *Store) Settings(ctx context.Context, orgID string) (Settings, error) {
	rows, err := s.pool.Query(ctx, sqlSettings, orgID)
	return collectSettings(rows, err)
}

const sqlSetSettings = `
insert into organisation_settings as o (org_id, quiet_hours, quiet_until, quiet_from, require_consent_record, retention, updated_at, updated_by)
values (@org_id, @quiet_hours, @quiet_until, @quiet_from, coalesce(@require_consent_record, false), coalesce(@retention::jsonb, '{}'), @at,
    current_actor())
on conflict (org_id) do update
set quiet_hours = excluded.quiet_hours, quiet_until = excluded.quiet_until, quiet_from = excluded.quiet_from,
    require_consent_record = coalesce(@require_consent_record, o.require_consent_record), retention = coalesce(@retention, o.retention),
    updated_at = excluded.updated_at,
    updated_by = excluded.updated_by
returning quiet_hours, quiet_until, quiet_from, require_consent_record, retention, updated_at, updated_by::text`

// SetSettings replaces what an organisation had decided. It counts from the next message on; an alarm that is set keeps its time,
// and a step whose alarm is delivered in the new quiet hours waits for their end.
func (s *Store) SetSettings(ctx context.Context, orgID string, wanted Settings, at time.Time) (Settings, error) {
	rows, err := s.pool.Query(ctx, sqlSetSettings, postgres.Args{
		"org_id": orgID, "quiet_hours": wanted.QuietHours, "quiet_until": wanted.Window.Opens().String(),
		"quiet_from": wanted.Window.Closes().String(), "require_consent_record": wanted.RequireConsentRecord, "at": at,
		"retention": wanted.Retention,
	})
	return collectSettings(rows, err)
}

func collectSettings(rows pgx.Rows, err error) (Settings, error) {
	if err != nil {
		return Settings{}, fmt.Errorf("settings: %w", err)
	}
	stored, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct {
		QuietHours bool
		QuietUntil string
		QuietFrom  string

		RequireConsentRecord bool
		Retention            map[string]int
		UpdatedAt            time.Time
		UpdatedBy            *string
	}])
	if errors.Is(err, pgx.ErrNoRows) {
		return Settings{Window: session.DefaultWindow(), RequireConsentRecord: new(false)}, nil
	}
	if err != nil {
		return Settings{}, fmt.Errorf("settings: %w", err)
	}
	return Settings{
		QuietHours: stored.QuietHours, Window: windowOf(stored.QuietUntil, stored.QuietFrom),
		RequireConsentRecord: &stored.RequireConsentRecord, Retention: stored.Retention, UpdatedAt: stored.UpdatedAt, UpdatedBy: stored.UpdatedBy,
	}, nil
}

// windowOf reads a window as it is stored. The table's checks keep out what cannot be read; should they have been dropped,
// the usual hours apply, for a message at night is worse than one that waits.
func windowOf(opens, closes string) session.Window {
	from, openErr := session.ParseTimeOfDay(opens)
	until, closeErr := session.ParseTimeOfDay(closes)
	window, err := session.NewWindow(from, until)
	if errors.Join(openErr, closeErr, err) != nil {
		return session.DefaultWindow()
	}
	return window
}

// quietHours are when a conversation with a person may begin. A time zone is checked when a person is enrolled; one that is not known
// any more counts as UTC, as one that was never given does.
func quietHours(opens, closes *string, timeZone string) session.QuietHours {
	if opens == nil || closes == nil {
		return session.QuietHours{}
	}
	zone, err := time.LoadLocation(timeZone)
	if err != nil {
		zone = time.UTC
	}
	return session.QuietHours{Window: windowOf(*opens, *closes), Zone: zone}
}
