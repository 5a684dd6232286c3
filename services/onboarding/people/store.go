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

// sessions follows a hold or a release in the open session of the person, in the same transaction; conversation.Store implements it.
type sessions interface {
	Held(ctx context.Context, tx pgx.Tx, profileID, reason string, at time.Time) error
	Released(ctx context.Context, tx pgx.Tx, profileID string, at time.Time) error
}

// Store keeps people in the database. Every time that a statement uses is handed in.
type Store struct {
	// QuietByDefault is the window in which a conversation may begin with people of an organisation that has decided nothing; the zero value
	// is always.
	QuietByDefault hours.Window
	Sessions       sessions
	// Opens ask the other rooms what is open of a person who is locked.
	Opens []func(ctx context.Context, tx pgx.Tx, p Profile, o *Open) error

	// Paused are the channels of what a pause of scheduling keeps back.
	Paused []string

	pool postgres.DB
}

// NewStore returns a store on an open pool. Its Sessions, Opens and Paused are still to be set.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool} }

const profileColumns = `id, org_id, phone, first_name, locale, ` + zoneOfProfile + ` as time_zone, time_zone_guessed, hold, created_at,
    hold_version, hold_told as hold_forwarded`

// zoneOfProfile is zoneOf where the table has its own name.
const zoneOfProfile = `coalesce(nullif(time_zone, ''),
    (select o.time_zone from organisation_settings o where o.org_id = profiles.org_id), 'UTC')`

const sqlCreateProfile = `
insert into profiles (id, org_id, phone, first_name, locale, time_zone, time_zone_guessed, created_at, updated_at)
values (@id, @org_id, @phone, @first_name, @locale, @time_zone, @guessed, @at, @at)
on conflict (org_id, phone) do nothing`

const sqlProfileByPhone = `select ` + profileColumns + ` from profiles where org_id = @org_id and phone = @phone`

// CreateProfile stores a profile, or returns the one that its phone has in the organisation already. erasure.ErrBegun of one that goes.
func (s *Store) CreateProfile(ctx context.Context, p Profile) (Profile, error) {
	args := postgres.Args{
		"id": p.ID, "org_id": p.OrgID, "phone": p.Phone, "first_name": p.FirstName, "locale": p.Locale,
		"time_zone": p.TimeZone, "guessed": p.TimeZoneGuessed, "at": p.CreatedAt,
	}
	if _, err := s.pool.Exec(ctx, sqlCreateProfile, args); err != nil {
		return Profile{}, fmt.Errorf("create profile: %w", err)
	}
	there, err := collectProfile(s.pool.Query(ctx, sqlProfileByPhone, args))
	if err != nil || there.ID == p.ID {
		return there, err
	}
	return there, erasure.NotBegun(ctx, s.pool, there.ID)
}

const sqlProfile = `select ` + profileColumns + ` from profiles where org_id = @org_id and id = @id`

// Profile reads a profile; ErrNoProfile when the organisation has none with this id.
func (s *Store) Profile(ctx context.Context, orgID, profileID string) (Profile, error) {
	return collectProfile(s.pool.Query(ctx, sqlProfile, postgres.Args{"org_id": orgID, "id": profileID}))
}

func collectProfile(rows pgx.Rows, err error) (Profile, error) {
	if err != nil {
		return Profile{}, fmt.Errorf("read profile: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Profile])
	if errors.Is(err, pgx.ErrNoRows) {
		return Profile{}, ErrNoProfile
	}
	if err != nil {
		return Profile{}, fmt.Errorf("read profile: %w", err)
	}
	return p, nil
}

const sqlHoldProfile = `
update profiles set hold = true, hold_reason = @reason, updated_at = @at
where org_id = @org_id and id = @id and not hold
returning ` + profileColumns

const sqlReleaseProfile = `
update profiles set hold = false, hold_reason = '', updated_at = @at
where org_id = @org_id and id = @id and hold
returning ` + profileColumns

// SetHold holds a person; holding twice changes nothing. ErrNoProfile.
func (s *Store) SetHold(ctx context.Context, orgID, profileID, reason string, at time.Time) (Profile, error) {
	args := postgres.Args{"org_id": orgID, "id": profileID, "reason": reason, "at": at}
	return s.switchHold(ctx, sqlHoldProfile, args, func(tx pgx.Tx, p Profile) error {
		return s.Sessions.Held(ctx, tx, p.ID, reason, at)
	})
}

// Release lifts a hold, and the open session goes on. ErrNoProfile.
func (s *Store) Release(ctx context.Context, orgID, profileID string, at time.Time) (Profile, error) {
	args := postgres.Args{"org_id": orgID, "id": profileID, "at": at}
	return s.switchHold(ctx, sqlReleaseProfile, args, func(tx pgx.Tx, p Profile) error {
		return s.Sessions.Released(ctx, tx, p.ID, at)
	})
}

// The condition is that of the index.
const sqlUnforwardedHolds = `select ` + profileColumns + ` from profiles where hold_told <> hold_version and id > $1 order by id limit $2`

// UnforwardedHolds lists profiles with a hold, or a release, that messaging does not know yet, by their ids, from behind one of them.
func (s *Store) UnforwardedHolds(ctx context.Context, after string, limit int) ([]Profile, error) {
	rows, err := s.pool.Query(ctx, sqlUnforwardedHolds, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list holds to forward: %w", err)
	}
	unforwarded, err := pgx.CollectRows(rows, pgx.RowToStructByName[Profile])
	if err != nil {
		return nil, fmt.Errorf("list holds to forward: %w", err)
	}
	return unforwarded, nil
}

const sqlHoldForwarded = `update profiles set hold_told = $2 where id = $1 and hold_version = $2`

// HoldForwarded notes that messaging knows a version of a hold, unless there is a later one by now.
func (s *Store) HoldForwarded(ctx context.Context, profileID string, version int64) error {
	if _, err := s.pool.Exec(ctx, sqlHoldForwarded, profileID, version); err != nil {
		return fmt.Errorf("note that a hold was forwarded: %w", err)
	}
	return nil
}

// switchHold flips the hold and, only if it was flipped, follows with what that means for the open session.
func (s *Store) switchHold(
	ctx context.Context, sql string, args postgres.Args, follow func(tx pgx.Tx, p Profile) error,
) (Profile, error) {
	var p Profile
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var err error
		p, err = collectProfile(tx.Query(ctx, sql, args))
		if errors.Is(err, ErrNoProfile) { // not there, or as it should be already
			p, err = collectProfile(tx.Query(ctx, sqlProfile, args))
			return err
		}
		if err != nil {
			return err
		}
		return follow(tx, p)
	})
	return p, err
}
