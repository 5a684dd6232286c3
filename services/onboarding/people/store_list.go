package people

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

// ProfileFilter narrows a list of people. Empty fields do not.
type ProfileFilter struct {
	OrgID        string
	IDs          []string         // these alone
	Phone        string           // E.164
	Name         string           // how their first name begins, with or without capitals and accents
	Part         string           // a part of their first name, with or without capitals and accents
	Digits       string           // a part of their number
	Newest       []session.Status // one of these is that of their newest session
	NotActivated bool
	Held         bool
	OptedOut     bool
	Locale       string
	Before       string // only people older than this id
	Limit        int
}

// StandingProfile is a person and where they stand.
type StandingProfile struct {
	Profile

	SessionID  string // the newest; empty as long as they were never activated
	Status     session.Status
	StateToken session.Token
	Paused     bool
	OptedOutAt *time.Time // as messaging told it last; nil while they have not
	HoldReason string     // in the operator's words; empty without a hold

	LegalHoldAt *time.Time // nil without a legal hold
}

const sqlStanding = `
select p.id, p.org_id, p.phone, p.first_name, p.locale, ` + zoneOf + ` as time_zone, p.time_zone_guessed, p.hold,
    p.created_at, p.hold_version, p.hold_told as hold_forwarded,
    coalesce(n.id::text, '') as session_id, coalesce(n.status, '') as status, coalesce(n.state_token, '') as state_token,
    n.paused_at is not null as paused, p.opted_out_at, p.hold_reason, p.legal_hold_at
from `

// sqlWhereTheyStand goes behind a source of people, p.
const sqlWhereTheyStand = `
left join lateral (
    select s.id, s.status, s.state_token, s.paused_at from conversation_sessions s
    where s.profile_id = p.id order by s.id desc limit 1) n on true`

const sqlStandingProfile = sqlStanding + `profiles p` + sqlWhereTheyStand + `
where p.org_id = @org_id and p.id = @id`

// StandingProfile reads a person and where they stand; ErrNoProfile.
func (s *Store) StandingProfile(ctx context.Context, orgID, profileID string) (StandingProfile, error) {
	rows, err := s.pool.Query(ctx, sqlStandingProfile, postgres.Args{"org_id": orgID, "id": profileID})
	if err != nil {
		return StandingProfile{}, fmt.Errorf("read profile: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[StandingProfile])
	if errors.Is(err, pgx.ErrNoRows) {
		return StandingProfile{}, ErrNoProfile
	}
	if err != nil {
		return StandingProfile{}, fmt.Errorf("read profile: %w", err)
	}
	return p, nil
}

// A page is looked for along one index, among no more than profileReach people; what else is asked is asked of each of them. How many begin
// with a name decides whether it is worth an index: up to fewNamed are sorted by their age, and more are met soon among all.
const (
	profileReach = 5_000
	fewNamed     = 10_000
)

// Each of these has its index, as 0026 and 0029 say it.
const (
	sqlOfThese      = ` and p.id = any (@ids::uuid[])`
	sqlWithPhone    = ` and p.phone = @phone`
	sqlNamed        = ` and p.name_key >= key_of_name(@name) and p.name_key < key_of_name(@name) || chr(1114111)` // which no name has
	sqlHeldOnly     = ` and p.hold`
	sqlOptedOutOnly = ` and p.opted_out_at is not null`
	sqlNotActivated = ` and not p.activated`
	sqlOfLocale     = ` and p.locale = @locale`

	sqlListed      = `select p.id from profiles p where p.org_id = @org_id and (@before = '' or p.id < nullif(@before, '')::uuid)`
	sqlListedByAge = ` order by p.id desc limit @reach`

	// sqlFewListed are found by what few have, and sorted then: the planner, which may not sort, would rather walk through all of them by age.
	sqlFewListed = `select f.id from (%s offset 0) f order by f.id desc limit @reach`

	// sqlListedBySession finds people by the sessions: one for each person, in the order of the people.
	sqlListedBySession = `
select w.profile_id as id from unnest(@status::text[]) u (status) cross join lateral (
    select s.profile_id from conversation_sessions s
    where s.org_id = @org_id and s.status = u.status and not s.superseded
      and (@before = '' or s.profile_id < nullif(@before, '')::uuid)
    order by s.profile_id desc limit @reach) w
order by w.profile_id desc limit @reach`

	sqlFewNamed = `select count(*) <= @few from (select from profiles p where p.org_id = @org_id` + sqlNamed + ` limit @few + 1) n`

	sqlStandsThus = ` and exists (select from conversation_sessions s
    where s.org_id = @org_id and s.profile_id = p.id and s.status = any (@status::text[]) and not s.superseded)`
)

// ListProfiles lists people, newest first. Where more may come, it says behind which person: the last of the page, or the last who was
// looked at.
func (s *Store) ListProfiles(ctx context.Context, f ProfileFilter) (found []StandingProfile, next string, err error) {
	args := postgres.Args{
		"org_id": f.OrgID, "ids": f.IDs, "phone": f.Phone, "name": f.Name, "status": session.StatusTexts(f.Newest),
		"locale": f.Locale, "before": f.Before, "part": f.Part, "digits": f.Digits,
		"limit": f.Limit + 1, "reach": profileReach, "few": fewNamed,
	}
	few := false // of a name that is not asked for
	if f.Name != "" {
		if few, err = postgres.OneInOrder(ctx, s.pool, sqlFewNamed, args, pgx.RowTo[bool]); err != nil {
			return nil, "", fmt.Errorf("list people: %w", err)
		}
	}
	looked, others := f.sql(few)
	if f.Part != "" || f.Digits != "" {
		others = f.asks()
		found, err = postgres.AllInOrder(ctx, s.pool, sqlPageOf(sqlNewestWithPart, others), args, pgx.RowToStructByName[StandingProfile])
		if err != nil || len(found) > f.Limit || !f.indexed() {
			return page(found, f.Limit, err)
		}
		last, err := s.lastLooked(ctx, sqlListed+sqlListedByAge, args)
		if err != nil {
			return nil, "", err
		}
		if last == "" { // all were among them
			return found, "", nil
		}
		if args["ids"], err = s.withPart(ctx, args); err != nil {
			return nil, "", err
		}
		looked = fmt.Sprintf(sqlFewListed, sqlListed+sqlOfThese)
	}
	if others == "" {
		args["reach"] = f.Limit + 1
	}
	found, err = postgres.AllInOrder(ctx, s.pool, sqlPageOf(looked, others), args, pgx.RowToStructByName[StandingProfile])
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("list people: %w", err)
	case len(found) > f.Limit:
		return page(found, f.Limit, nil)
	case others == "":
		return found, "", nil
	}
	next, err = s.lastLooked(ctx, looked, args)
	return found, next, err
}

// lastLooked returns the last of as many people as are looked at; empty when there are fewer.
func (s *Store) lastLooked(ctx context.Context, looked string, args postgres.Args) (string, error) {
	last := `select coalesce((select id::text from (` + looked + `) l offset @reach - 1), '')`
	id, err := postgres.OneInOrder(ctx, s.pool, last, args, pgx.RowTo[string])
	if err != nil {
		return "", fmt.Errorf("list people: %w", err)
	}
	return id, nil
}

// page cuts what was found to its limit, and says behind which person there is more.
func page(found []StandingProfile, limit int, err error) ([]StandingProfile, string, error) {
	if err != nil {
		return nil, "", fmt.Errorf("list people: %w", err)
	}
	if len(found) <= limit {
		return found, "", nil
	}
	return found[:limit], found[limit-1].ID, nil
}

// sqlPageOf asks the others of each of those who are looked at, by their id: else the planner would look along an index of one of the
// others as well, and compare each with each, which took over a second among a million people.
func sqlPageOf(looked, others string) string {
	return sqlStanding + `(
    select l.id from (` + looked + `) l cross join lateral (select from profiles p where p.id = l.id` + others + ` limit 1) o
    order by l.id desc limit @limit) page join profiles p on p.id = page.id` + sqlWhereTheyStand + `
order by p.id desc`
}

// sql is along which index people are looked for, and what else is asked of each. The filters come in the order of how few people they
// leave, as far as that is known.
func (f ProfileFilter) sql(few bool) (looked, others string) {
	for _, filter := range f.filters(few) {
		switch {
		case !filter.asked:
		case looked != "":
			others += filter.ask
		case filter.along != "":
			looked = filter.along
		default:
			looked = sqlListed + filter.ask + sqlListedByAge
		}
	}
	if looked == "" {
		looked = sqlListed + sqlListedByAge
	}
	if f.Name != "" && !few {
		others += sqlNamed
	}
	return looked, others
}

// filter is one thing that is asked of people: along finds those of whom it is true by an index, where one has them, and ask holds a person
// to it.
type filter struct {
	asked      bool
	along, ask string
}

func (f ProfileFilter) filters(few bool) []filter {
	parked := len(f.Newest) > 0
	for _, status := range f.Newest {
		parked = parked && (status == session.Stuck || status == session.Undeliverable)
	}
	return []filter{
		{asked: len(f.IDs) > 0, along: fmt.Sprintf(sqlFewListed, sqlListed+sqlOfThese), ask: sqlOfThese},
		{asked: f.Phone != "", along: fmt.Sprintf(sqlFewListed, sqlListed+sqlWithPhone), ask: sqlWithPhone},
		{asked: f.Held, ask: sqlHeldOnly},
		{asked: parked, along: sqlListedBySession, ask: sqlStandsThus},
		{asked: f.Name != "" && few, along: fmt.Sprintf(sqlFewListed, sqlListed+sqlNamed), ask: sqlNamed},
		{asked: f.OptedOut, ask: sqlOptedOutOnly},
		{asked: len(f.Newest) > 0 && !parked, along: sqlListedBySession, ask: sqlStandsThus},
		{asked: f.NotActivated, ask: sqlNotActivated},
		{asked: f.Locale != "", ask: sqlOfLocale},
	}
}

// asks is all that is asked of each person.
func (f ProfileFilter) asks() string {
	var all strings.Builder
	for _, filter := range f.filters(true) {
		if filter.asked {
			all.WriteString(filter.ask)
		}
	}
	return all.String()
}
