package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/erasure"
)

// Settings has what an organisation has decided for itself.
type Settings struct {
	QuietHours bool // whether a conversation begins in the window only
	Window     hours.Window
	ByDefault  bool   // they are the installation's, because the organisation has decided nothing
	TimeZone   string // of people without one; to SetSettings empty leaves it as it is
	// RequireConsentRecord is true when no session is opened without one. To SetSettings nil leaves it as it is.
	RequireConsentRecord *bool
	// Retention is for how many days it keeps what it has decided about, see OwnRetention. To SetSettings nil leaves it as it is.
	Retention map[string]int
	// TicketLimit is after how many minutes a person in the inbox waits too long, Distress the words of distress. nil: nothing was decided;
	// to SetSettings it leaves them as they are.
	TicketLimit *int
	Distress    []string
	Prices      *Prices   // of segments; likewise
	UpdatedAt   time.Time // zero when the organisation has decided nothing
	UpdatedBy   *string   // the actor, see audit.Read
}

const settingsColumns = `quiet_hours, quiet_until, quiet_from, require_consent_record, retention, time_zone,
    ticket_limit_minutes as ticket_limit, distress_words as distress, segment_prices as prices, updated_at, updated_by::text`

const sqlSettings = `
select ` + settingsColumns + `
from organisation_settings where org_id = $1`

// Settings reads what an organisation has decided; one that has decided nothing has those of the installation.
func (s *Store) Settings(ctx context.Context, orgID string) (Settings, error) {
	rows, err := s.pool.Query(ctx, sqlSettings, orgID)
	return s.collectSettings(rows, err)
}

const sqlSetSettings = `
insert into organisation_settings as o (org_id, quiet_hours, quiet_until, quiet_from, time_zone, require_consent_record, retention,
    ticket_limit_minutes, distress_words, segment_prices, updated_at, updated_by)
values (@org_id, @quiet_hours, @quiet_until, @quiet_from, coalesce(nullif(@time_zone, ''), 'UTC'), coalesce(@require_consent_record, false),
    coalesce(@retention::jsonb, '{}'), @ticket_limit, @distress, @prices, @at, current_actor())
on conflict (org_id) do update
set quiet_hours = excluded.quiet_hours, quiet_until = excluded.quiet_until, quiet_from = excluded.quiet_from,
    time_zone = coalesce(nullif(@time_zone, ''), o.time_zone),
    require_consent_record = coalesce(@require_consent_record, o.require_consent_record), retention = coalesce(@retention, o.retention),
    ticket_limit_minutes = coalesce(@ticket_limit::integer, o.ticket_limit_minutes),
    distress_words = coalesce(@distress::text[], o.distress_words), segment_prices = coalesce(@prices::jsonb, o.segment_prices),
    updated_at = excluded.updated_at, updated_by = excluded.updated_by
returning ` + settingsColumns

// SetSettings replaces what an organisation had decided. It counts from the next message on; an alarm that is set keeps its time,
// and a step with an alarm that is delivered in the new quiet hours waits for their end.
func (s *Store) SetSettings(ctx context.Context, orgID string, wanted Settings, at time.Time) (Settings, error) {
	rows, err := s.pool.Query(ctx, sqlSetSettings, postgres.Args{
		"org_id": orgID, "quiet_hours": wanted.QuietHours, "quiet_until": wanted.Window.Opens().String(),
		"quiet_from": wanted.Window.Closes().String(), "time_zone": wanted.TimeZone,
		"require_consent_record": wanted.RequireConsentRecord, "retention": wanted.Retention, "at": at,
		"ticket_limit": wanted.TicketLimit, "distress": wanted.Distress, "prices": wanted.Prices,
	})
	return s.collectSettings(rows, err)
}

func (s *Store) collectSettings(rows pgx.Rows, err error) (Settings, error) {
	if err != nil {
		return Settings{}, fmt.Errorf("settings: %w", err)
	}
	stored, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct {
		QuietHours bool
		QuietUntil string
		QuietFrom  string
		TimeZone   string

		RequireConsentRecord bool
		Retention            map[string]int
		TicketLimit          *int
		Distress             []string
		Prices               *Prices
		UpdatedAt            time.Time
		UpdatedBy            *string
	}])
	if errors.Is(err, pgx.ErrNoRows) {
		undecided := Settings{Window: s.QuietByDefault, QuietHours: true, ByDefault: true, TimeZone: "UTC", RequireConsentRecord: new(false)}
		if s.QuietByDefault.Always() {
			undecided.Window, undecided.QuietHours, undecided.ByDefault = hours.DefaultWindow(), false, false
		}
		return undecided, nil
	}
	if err != nil {
		return Settings{}, fmt.Errorf("settings: %w", err)
	}
	return Settings{
		QuietHours: stored.QuietHours, Window: windowOf(stored.QuietUntil, stored.QuietFrom), TimeZone: stored.TimeZone,
		RequireConsentRecord: &stored.RequireConsentRecord, Retention: stored.Retention,
		TicketLimit: stored.TicketLimit, Distress: stored.Distress, Prices: stored.Prices, UpdatedAt: stored.UpdatedAt, UpdatedBy: stored.UpdatedBy,
	}, nil
}

// windowOf reads a window as it is stored. The table's checks keep out what cannot be read; should they have been dropped,
// the usual hours apply, for a message at night is worse than one that waits.
func windowOf(opens, closes string) hours.Window {
	from, openErr := hours.ParseTimeOfDay(opens)
	until, closeErr := hours.ParseTimeOfDay(closes)
	window, err := hours.NewWindow(from, until)
	if errors.Join(openErr, closeErr, err) != nil {
		return hours.DefaultWindow()
	}
	return window
}

// Window returns when a conversation with a person may begin, by the columns of their organisation and by their time zones.
func (s *Store) Window(decided bool, opens, closes *string, zones []*time.Location) hours.Quiet {
	quiet := hours.Quiet{Window: s.QuietByDefault, ByDefault: !decided}
	switch {
	case !decided:
	case opens == nil || closes == nil:
		return hours.Quiet{}
	default:
		quiet.Window = windowOf(*opens, *closes)
	}
	quiet.Window, quiet.Zone = quiet.Window.Common(zones)
	return quiet
}

// zoneOf is the time zone of a person, p: the one that is stored, or else the organisation's.
const zoneOf = `coalesce(nullif(p.time_zone, ''), (select o.time_zone from organisation_settings o where o.org_id = p.org_id), 'UTC')`

const sqlQuietHours = `
select coalesce(p.time_zone, ''), coalesce(o.time_zone, 'UTC'), o.org_id is not null,
    case when o.quiet_hours then o.quiet_until end, case when o.quiet_hours then o.quiet_from end,
    exists (select from erasures e where e.profile_id = p.id), coalesce(o.require_consent_record, false),
    nullif(@profile, '')::uuid is distinct from p.id and @profile <> ''
from (select @org_id::uuid as org_id) w left join organisation_settings o on o.org_id = w.org_id
left join profiles p on p.org_id = w.org_id and p.phone = @phone`

// QuietHours returns when a text to a phone may be sent, whether a person of the organisation has it or not; and whether the organisation
// requires a consent record before it texts a phone. erasure.ErrBegun of a person who is being erased: such a text would be deleted, not
// sent. ErrNotTheirPhone when the text is in the name of a profile that has another phone.
func (s *Store) QuietHours(
	ctx context.Context, orgID, number, profileID string,
) (quiet hours.Quiet, consentRequired bool, err error) {
	var zone, usual string
	var decided, erasing, anothers bool
	var opens, closes *string
	err = s.pool.QueryRow(ctx, sqlQuietHours, postgres.Args{"org_id": orgID, "phone": number, "profile": profileID}).
		Scan(&zone, &usual, &decided, &opens, &closes, &erasing, &consentRequired, &anothers)
	switch {
	case err != nil:
		return hours.Quiet{}, false, fmt.Errorf("quiet hours: %w", err)
	case erasing:
		return hours.Quiet{}, false, erasure.ErrBegun
	case anothers:
		return hours.Quiet{}, false, ErrNotTheirPhone
	}
	return s.Window(decided, opens, closes, Zones(zone, number, usual)), consentRequired, nil
}
