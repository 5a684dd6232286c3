package apikeys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/apikey"
	"paceline.internal/platform/postgres"
)

// Store keeps keys in the database. Every time that a statement uses is handed in.
type Store struct{ pool postgres.DB }

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool} }

const columns = `id::text, org_id::text, name, role, ends_with, created_at, created_by::text, expires_at, last_used_at, revoked_at,
    revoked_by::text`

// sqlCreate counts under a lock of the organisation, so that two calls at once do not pass the bound.
const sqlCreate = `
insert into api_keys (id, org_id, name, role, sha256, ends_with, created_at, expires_at, over_at)
select @id, @org, @name, @role, @sha256, @ends_with, @at, @expires, @expires
where (select count(*) filter (where over_at is null or over_at > @at) < @most and count(*) < @rows
    from api_keys where org_id = @org)
returning ` + columns

const sqlHasOperator = `
select exists (select from api_keys where org_id = @org and role = 'operator' and (over_at is null or over_at > @at))`

// Create makes a key and returns it with its secret, which is kept nowhere; ErrTooMany.
func (s *Store) Create(ctx context.Context, k Key) (made Key, secret string, err error) {
	return s.create(ctx, k, func(pgx.Tx) error { return nil })
}

// CreateFirst is Create for an organisation without a key of an operator; ErrNotFirst.
func (s *Store) CreateFirst(ctx context.Context, k Key) (made Key, secret string, err error) {
	return s.create(ctx, k, func(tx pgx.Tx) error {
		var has bool
		if err := tx.QueryRow(ctx, sqlHasOperator, postgres.Args{"org": k.OrgID, "at": k.CreatedAt}).Scan(&has); err != nil {
			return fmt.Errorf("look for a key: %w", err)
		}
		if has {
			return ErrNotFirst
		}
		return nil
	})
}

// create makes a key if may lets it, which is asked under the lock.
func (s *Store) create(ctx context.Context, k Key, may func(tx pgx.Tx) error) (made Key, secret string, err error) {
	if secret, err = apikey.New(); err != nil {
		return Key{}, "", err
	}
	hash, err := apikey.Parse(secret)
	if err != nil {
		return Key{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Key{}, "", fmt.Errorf("create an API key: %w", err)
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtext('api_keys'), hashtext($1))`, k.OrgID); err != nil {
			return fmt.Errorf("lock the API keys: %w", err)
		}
		if err := may(tx); err != nil {
			return err
		}
		made, err = collect(tx.Query(ctx, sqlCreate, postgres.Args{
			"id": id, "org": k.OrgID, "name": k.Name, "role": string(k.Role), "sha256": hash[:], "ends_with": apikey.End(secret),
			"at": k.CreatedAt, "expires": k.ExpiresAt, "most": MaxKeys, "rows": maxRows,
		}))
		if errors.Is(err, ErrNotFound) {
			return ErrTooMany
		}
		return err
	})
	if err != nil {
		return Key{}, "", err
	}
	return made, secret, nil
}

const sqlList = `
select ` + columns + ` from api_keys
where org_id = @org and (@before = '' or id < nullif(@before, '')::uuid) order by id desc limit @limit`

// List lists the keys of an organisation that are older than one of them, newest first.
func (s *Store) List(ctx context.Context, orgID, before string, limit int) ([]Key, error) {
	rows, err := s.pool.Query(ctx, sqlList, postgres.Args{"org": orgID, "before": before, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return found, nil
}

const sqlRevoke = `
update api_keys set revoked_at = coalesce(revoked_at, @at), over_at = least(over_at, @at),
    revoked_by = case when revoked_at is null then current_actor() else revoked_by end
where org_id = @org and id = @id
returning ` + columns

// Revoke revokes a key, from the next look-up of any gateway on; ErrNotFound.
func (s *Store) Revoke(ctx context.Context, orgID, id string, at time.Time) (Key, error) {
	return collect(s.pool.Query(ctx, sqlRevoke, postgres.Args{"org": orgID, "id": id, "at": at}))
}

// sqlAccepted chooses a key by its hash or by its id, while it is accepted.
const sqlAccepted = `(sha256 = @sha256 or id = nullif(@id, '')::uuid) and (over_at is null or over_at > @at)`

// sqlAuthenticate writes the use of a key only when the one that is written is old.
const sqlAuthenticate = `
with used as (
    update api_keys set last_used_at = @at where ` + sqlAccepted + ` and (last_used_at is null or last_used_at < @stale)
)
select ` + columns + ` from api_keys where ` + sqlAccepted + ``

// Authenticate finds a key by its hash, or by its id when there is no hash, and notes its use; ErrNotFound of one that is not accepted.
func (s *Store) Authenticate(ctx context.Context, sha256 []byte, id string, at time.Time) (Key, error) {
	return collect(s.pool.Query(ctx, sqlAuthenticate, postgres.Args{"sha256": sha256, "id": id, "at": at, "stale": at.Add(-usedEvery)}))
}

func collect(rows pgx.Rows, err error) (Key, error) {
	var found Key
	if err == nil {
		found, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Key])
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Key{}, ErrNotFound
	case err != nil:
		return Key{}, fmt.Errorf("an API key: %w", err)
	}
	return found, nil
}
