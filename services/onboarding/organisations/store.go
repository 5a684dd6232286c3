package organisations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Store keeps the organisations in the database. Every time that a statement uses is handed in. Its statements see all organisations, so
// only calls of the platform and the loop reach it.
type Store struct {
	// Paused are the channels of what waits while an organisation is suspended.
	Paused []string

	pool postgres.DB
}

// NewStore returns a store on an open pool. Its Paused are still to be set.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool} }

const columns = `org_id::text, name, status, wanted, version, reason, changed_at, changed_by::text, created_at, erase_after, erased_at,
    waits_for, tries, coalesce(move ->> 'state', '')`

// sqlCreate counts under a lock, so that two calls at once do not pass the bound.
const sqlCreate = `
insert into organisations (org_id, name, status, wanted, changed_at, changed_by, created_at)
select @org, @name, 'active', 'active', @at, nullif(@by, '')::jsonb, @at where (select count(*) from organisations) < @most
on conflict (org_id) do nothing
returning ` + columns

// Create makes an organisation, or finds the one that there is; ErrTooMany.
func (s *Store) Create(ctx context.Context, orgID, name string, at time.Time) (o Organisation, created bool, err error) {
	by := postgres.Actor(ctx)
	ctx = postgres.AcrossOrganisations(ctx)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtext('organisations'))`); err != nil {
			return fmt.Errorf("lock the organisations: %w", err)
		}
		o, err = collect(tx.Query(ctx, sqlCreate, postgres.Args{"org": orgID, "name": name, "at": at, "by": by, "most": MaxOrganisations}))
		if created = err == nil; created || !errors.Is(err, ErrNotFound) {
			return err
		}
		if o, err = collect(tx.Query(ctx, sqlGet, postgres.Args{"org": orgID})); errors.Is(err, ErrNotFound) {
			return ErrTooMany
		}
		return err
	})
	return o, created, err
}

const sqlGet = `select ` + columns + ` from organisations where org_id = @org`

// Get reads an organisation; ErrNotFound.
func (s *Store) Get(ctx context.Context, orgID string) (Organisation, error) {
	return collect(s.pool.Query(postgres.AcrossOrganisations(ctx), sqlGet, postgres.Args{"org": orgID}))
}

const sqlList = `
select ` + columns + ` from organisations o
where @after = '' or (created_at, org_id) < (select a.created_at, a.org_id from organisations a where a.org_id = nullif(@after, '')::uuid)
order by created_at desc, org_id desc limit @limit`

// List lists the organisations behind one of them, newest first.
func (s *Store) List(ctx context.Context, after string, limit int) ([]Organisation, error) {
	return s.many(ctx, "list organisations", sqlList, postgres.Args{"after": after, "limit": limit})
}

// sqlChange changes the wish. Each row of the condition is a change that may be made: the last one takes an end back within its grace
// period. One that moves to another deployment, or has moved, ends here once its rows are released, and sends here no more.
const sqlChange = `
update organisations
set wanted = @to, version = version + 1, reason = @reason, changed_at = @at, changed_by = nullif(@by, '')::jsonb, waits_for = '', tries = 0,
    next_try_at = @at, erase_after = case when @to = 'ended' then @erase_after::timestamptz end
where org_id = @org and wanted <> @to and (move is null or move ->> 'state' = 'released' and @to = 'ended') and (
    @to = 'suspended' and wanted = 'active'
    or @to = 'ended' and wanted <> 'ended'
    or @to = 'active' and (wanted = 'suspended' or erase_after > @at)
)
returning ` + columns

// Change keeps that an organisation is to have another status, and returns it; one that is to have it already stays as it is. ErrNotFound,
// ErrEnded, ErrErased, ErrMoved.
func (s *Store) Change(ctx context.Context, orgID string, to Status, reason string, at, eraseAfter time.Time) (Organisation, error) {
	by := postgres.Actor(ctx)
	ctx = postgres.AcrossOrganisations(ctx)
	o, err := collect(s.pool.Query(ctx, sqlChange, postgres.Args{
		"org": orgID, "to": string(to), "reason": reason, "at": at, "by": by, "erase_after": eraseAfter,
	}))
	if !errors.Is(err, ErrNotFound) {
		return o, err
	}
	o, err = s.Get(ctx, orgID)
	switch {
	case err != nil || o.Wanted == to:
		return o, err
	case o.Move != "":
		return o, ErrMoved
	case to == Active:
		return o, ErrErased
	}
	return o, ErrEnded
}

// sqlAgreed ends a change once messaging knows its version, and wakes what waited for it. The end of an organisation goes on with its
// erasure.
const sqlAgreed = `
with agreed as (
    update organisations set status = wanted, tries = 0, next_try_at = erase_after
    where org_id = @org and version = @version and status <> wanted returning wanted
)
select count(pg_notify(channel, '')) from agreed cross join unnest(@channels::text[]) channel where wanted = 'active'`

// Agreed notes that messaging knows a version of an organisation, unless there is a later one by now.
func (s *Store) Agreed(ctx context.Context, orgID string, version int64) error {
	var woken int
	args := postgres.Args{"org": orgID, "version": version, "channels": s.Paused}
	err := s.pool.QueryRow(postgres.AcrossOrganisations(ctx), sqlAgreed, args).Scan(&woken)
	if err != nil {
		return fmt.Errorf("note that a change is known: %w", err)
	}
	return nil
}

const sqlDue = `select ` + columns + ` from organisations where next_try_at <= @at order by next_try_at, org_id limit @limit`

// Due lists the organisations of which messaging is to be told, or which are to be erased.
func (s *Store) Due(ctx context.Context, at time.Time, limit int) ([]Organisation, error) {
	return s.many(ctx, "list organisations that are due", sqlDue, postgres.Args{"at": at, "limit": limit})
}

const sqlDelay = `
update organisations set tries = tries + 1, next_try_at = @next, waits_for = @waits
where org_id = @org and version = @version and next_try_at is not null`

// Delay keeps an organisation for a later try, with what it waits for.
func (s *Store) Delay(ctx context.Context, o Organisation, waits string, next time.Time) error {
	_, err := s.pool.Exec(postgres.AcrossOrganisations(ctx), sqlDelay,
		postgres.Args{"org": o.OrgID, "version": o.Version, "waits": waits, "next": next})
	if err != nil {
		return fmt.Errorf("delay an organisation: %w", err)
	}
	return nil
}

func (s *Store) many(ctx context.Context, what, sql string, args postgres.Args) ([]Organisation, error) {
	rows, err := s.pool.Query(postgres.AcrossOrganisations(ctx), sql, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Organisation])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

func collect(rows pgx.Rows, err error) (Organisation, error) {
	var found Organisation
	if err == nil {
		found, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Organisation])
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Organisation{}, ErrNotFound
	case err != nil:
		return Organisation{}, fmt.Errorf("an organisation: %w", err)
	}
	return found, nil
}
