package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
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
	// Retention is for how many days it keeps what it has decided about, see platform/retention. To SetSettings nil leaves it as it is.
	Retention map[string]int
	// TicketLimit is after how many minutes a person in the inbox waits too long, Distress the words of distress. nil: nothing was decided;
	// to SetSettings it leaves them as they are.
	TicketLimit *int
	Distress    []string
	// ActivationFlow is the flow of an activation that names none, empty for the deployment's. To SetSettings nil leaves it as it is.
	ActivationFlow *string
	// Sending has what messaging heeds when it sends. nil: nothing was decided; to SetSettings it leaves it as it is.
	Sending *messagingv1.Sending
	// Engagement has the rules of engagement, in the form of a file; nil: nothing was decided. To SetSettings nil leaves it as it is, and {}
	// goes back to the deployment's.
	Engagement []byte
	// EngagementTexts are the texts of engagement and goals, by language and by key; likewise.
	EngagementTexts []byte
	Prices          *Prices   // of segments; likewise
	Pending         bool      // messaging does not know Sending and Retention yet
	Version         int64     // counts the changes; to SetSettings the version that is changed, -1 for whichever there is
	UpdatedAt       time.Time // zero when the organisation has decided nothing
	UpdatedBy       *string   // the actor, see audit.Read
}

const settingsColumns = `quiet_hours, quiet_until, quiet_from, require_consent_record, retention, time_zone,
    ticket_limit_minutes as ticket_limit, distress_words as distress, segment_prices as prices, activation_flow, sending, engagement,
    engagement_texts, tell_at is not null as pending, version,
    updated_at, updated_by::text`

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
    ticket_limit_minutes, distress_words, segment_prices, activation_flow, sending, tell_at, engagement, engagement_texts, version,
    updated_at, updated_by)
select @org_id, @quiet_hours, @quiet_until, @quiet_from, coalesce(nullif(@time_zone, ''), 'UTC'), coalesce(@require_consent_record, false),
    coalesce(@retention::jsonb, '{}'), @ticket_limit, @distress, @prices::jsonb, nullif(@activation_flow, ''), @sending::jsonb,
    case when @sending::jsonb is not null or @retention::jsonb is not null then @at::timestamptz end, nullif(@engagement::jsonb, '{}'),
    nullif(@engagement_texts::jsonb, '{}'), 1, @at, current_actor()
where @version::bigint <= 0 or exists (select from organisation_settings e where e.org_id = @org_id)
on conflict (org_id) do update
set quiet_hours = excluded.quiet_hours, quiet_until = excluded.quiet_until, quiet_from = excluded.quiet_from,
    time_zone = coalesce(nullif(@time_zone, ''), o.time_zone),
    require_consent_record = coalesce(@require_consent_record, o.require_consent_record), retention = coalesce(@retention, o.retention),
    ticket_limit_minutes = coalesce(@ticket_limit::integer, o.ticket_limit_minutes),
    distress_words = coalesce(@distress::text[], o.distress_words), segment_prices = coalesce(@prices::jsonb, o.segment_prices),
    activation_flow = case when @activation_flow::text is null then o.activation_flow else excluded.activation_flow end,
    sending = coalesce(excluded.sending, o.sending), tell_at = coalesce(excluded.tell_at, o.tell_at),
    engagement = case when @engagement::jsonb is null then o.engagement else excluded.engagement end,
    engagement_texts = case when @engagement_texts::jsonb is null then o.engagement_texts else excluded.engagement_texts end,
    version = o.version + 1,
    updated_at = excluded.updated_at, updated_by = excluded.updated_by
where @version::bigint in (-1, o.version)
returning ` + settingsColumns

// keptVersions bounds the versions of an organisation's settings that are kept.
const keptVersions = 100

const sqlKeepVersion = `
with forgotten as (delete from settings_versions where org_id = @org and version <= @version::bigint - @most::bigint)
insert into settings_versions (org_id, version, at, by, settings)
select @org, @version::bigint, @at, current_actor(), to_jsonb(o) - array['org_id', 'version', 'tell_at', 'updated_at', 'updated_by']
from organisation_settings o where o.org_id = @org`

// SetSettings replaces what an organisation had decided. It counts from the next message on; an alarm that is set keeps its time,
// and a step with an alarm that is delivered in the new quiet hours waits for their end. ErrSettingsChanged.
func (s *Store) SetSettings(ctx context.Context, orgID string, wanted Settings, at time.Time) (stored Settings, err error) {
	var sending []byte
	if wanted.Sending != nil {
		if sending, err = protojson.Marshal(wanted.Sending); err != nil {
			return Settings{}, fmt.Errorf("encode settings: %w", err)
		}
	}
	args := postgres.Args{
		"org_id": orgID, "quiet_hours": wanted.QuietHours, "quiet_until": wanted.Window.Opens().String(),
		"quiet_from": wanted.Window.Closes().String(), "time_zone": wanted.TimeZone,
		"require_consent_record": wanted.RequireConsentRecord, "retention": wanted.Retention, "at": at,
		"ticket_limit": wanted.TicketLimit, "distress": wanted.Distress, "prices": wanted.Prices,
		"activation_flow": wanted.ActivationFlow, "sending": sending, "engagement": wanted.Engagement,
		"engagement_texts": wanted.EngagementTexts,
		"version":          wanted.Version,
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlSetSettings, args)
		if stored, err = s.collectSettings(rows, err); err != nil {
			return err
		}
		if stored.UpdatedAt.IsZero() { // no row was written
			return ErrSettingsChanged
		}
		_, err = tx.Exec(ctx, sqlKeepVersion, postgres.Args{"org": orgID, "version": stored.Version, "at": at, "most": keptVersions})
		return err
	})
	return stored, err
}

const sqlVersions = `
select r.quiet_hours, r.quiet_until, r.quiet_from, r.require_consent_record, r.retention, r.time_zone,
    r.ticket_limit_minutes as ticket_limit,
    r.distress_words as distress, r.segment_prices as prices, r.activation_flow, r.sending, r.engagement, r.engagement_texts,
    false as pending, v.version, v.at as updated_at, v.by::text as updated_by
from settings_versions v, jsonb_populate_record(null::organisation_settings, v.settings) r
where v.org_id = $1 order by v.version desc limit $2`

// SettingsVersions lists what an organisation had decided, newest first.
func (s *Store) SettingsVersions(ctx context.Context, orgID string) ([]Settings, error) {
	rows, err := s.pool.Query(ctx, sqlVersions, orgID, keptVersions)
	if err != nil {
		return nil, fmt.Errorf("versions of the settings: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Settings, error) {
		r, err := pgx.RowToStructByName[settingsRow](row)
		if err != nil {
			return Settings{}, err
		}
		return r.settings()
	})
	if err != nil {
		return nil, fmt.Errorf("versions of the settings: %w", err)
	}
	return found, nil
}

// settingsRow has settingsColumns.
type settingsRow struct {
	QuietHours bool
	QuietUntil string
	QuietFrom  string
	TimeZone   string

	RequireConsentRecord bool
	Retention            map[string]int
	TicketLimit          *int
	Distress             []string
	Prices               *Prices
	ActivationFlow       *string
	Sending              []byte
	Engagement           []byte
	EngagementTexts      []byte
	Pending              bool
	Version              int64
	UpdatedAt            time.Time
	UpdatedBy            *string
}

func (r settingsRow) settings() (Settings, error) {
	sending, err := readSending(r.Sending)
	return Settings{
		QuietHours: r.QuietHours, Window: windowOf(r.QuietUntil, r.QuietFrom), TimeZone: r.TimeZone,
		RequireConsentRecord: &r.RequireConsentRecord, Retention: r.Retention, TicketLimit: r.TicketLimit, Distress: r.Distress, Prices: r.Prices,
		ActivationFlow: r.ActivationFlow, Sending: sending, Engagement: r.Engagement, EngagementTexts: r.EngagementTexts,
		Pending: r.Pending, Version: r.Version,
		UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}, err
}

// readSending reads what is stored; nil of nothing. A later release may have written more.
func readSending(stored []byte) (*messagingv1.Sending, error) {
	if stored == nil {
		return nil, nil //nolint:nilnil // nothing is decided
	}
	sending := &messagingv1.Sending{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(stored, sending); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	return sending, nil
}

func (s *Store) collectSettings(rows pgx.Rows, err error) (Settings, error) {
	if err != nil {
		return Settings{}, fmt.Errorf("settings: %w", err)
	}
	stored, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[settingsRow])
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
	return stored.settings()
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
