package postgres_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

const (
	ours   = "00000000-0000-7000-8000-00000000000a"
	theirs = "00000000-0000-7000-8000-00000000000b"
)

// notes is a schema of one table, which two roles see differently.
var notes = postgres.Migrations{FS: fstest.MapFS{"0001_notes.sql": {Data: []byte(`
-- +goose Up
-- +goose StatementBegin
do $$ begin
    create role notes_tenant nologin;
exception when duplicate_object or unique_violation then null;
end $$;
-- +goose StatementEnd
-- +goose StatementBegin
do $$ begin
    create role notes_worker nologin;
exception when duplicate_object or unique_violation then null;
end $$;
-- +goose StatementEnd
grant notes_tenant, notes_worker to current_user;
create table notes (org_id uuid not null, text text not null);
grant select, insert on notes to notes_tenant, notes_worker;
alter table notes enable row level security, force row level security;
create policy tenant on notes to notes_tenant using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);
create policy worker on notes to notes_worker using (true);
insert into notes values ('` + ours + `', 'ours'), ('` + theirs + `', 'theirs');
`)}}}

// read is what a context sees.
func read(ctx context.Context, t *testing.T, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) string {
	t.Helper()
	rows, err := db.Query(ctx, "select text from notes order by text")
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(found, " ")
}

func scoped(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, Roles: postgres.RolesOf("notes"), MaxConns: 1})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestRoles(t *testing.T) {
	t.Parallel()

	t.Run("S2_20_EveryStatementSeesTheRowsOfItsContextOnTheSameConnection", func(t *testing.T) {
		t.Parallel()
		pool := scoped(t, pgtest.URL(t, notes))
		for range 2 { // there is one connection, which changes hands
			require.Equal(t, "ours", read(postgres.ForOrganisation(t.Context(), ours), t, pool))
			require.Equal(t, "theirs", read(postgres.ForOrganisation(t.Context(), theirs), t, pool))
			require.Equal(t, "ours theirs", read(postgres.AcrossOrganisations(t.Context()), t, pool))
			require.Empty(t, read(t.Context(), t, pool), "who says nothing sees nothing")
		}
	})

	t.Run("S2_20_TransactionKeepsTheScopeItBeganWith", func(t *testing.T) {
		t.Parallel()
		pool := scoped(t, pgtest.URL(t, notes))
		require.NoError(t, postgres.InTx(postgres.ForOrganisation(t.Context(), ours), pool, func(tx pgx.Tx) error {
			require.Equal(t, "ours", read(t.Context(), t, tx))
			return nil
		}))
	})

	t.Run("S2_20_TenantCanWriteOnlyForItself", func(t *testing.T) {
		t.Parallel()
		pool := scoped(t, pgtest.URL(t, notes))
		const sql = "insert into notes values ($1, 'more')"
		_, err := pool.Exec(postgres.ForOrganisation(t.Context(), ours), sql, theirs)
		require.ErrorContains(t, err, "row-level security")
		_, err = pool.Exec(postgres.ForOrganisation(t.Context(), ours), sql, ours)
		require.NoError(t, err)
		_, err = pool.Exec(postgres.AcrossOrganisations(t.Context()), sql, theirs)
		require.NoError(t, err)
	})

	t.Run("RoleThatIsMissingIsAnError", func(t *testing.T) {
		t.Parallel()
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t, notes), Roles: postgres.RolesOf("nobody")})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		for range 2 {
			_, err = pool.Exec(t.Context(), "select 1")
			require.ErrorContains(t, err, "nobody_tenant")
		}
		version, err := notes.Current(t.Context(), pool)
		require.NoError(t, err, "about the database itself one may ask")
		require.Equal(t, int64(1), version)
	})

	t.Run("ConnectionThatDiedIsReplaced", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t, notes)
		pool := scoped(t, url)
		require.Equal(t, "ours", read(postgres.ForOrganisation(t.Context(), ours), t, pool))
		other, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		_, err = other.Exec(t.Context(), `select pg_terminate_backend(pid, 10000) from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid()`)
		require.NoError(t, err)
		require.NoError(t, other.Close(t.Context()))
		require.Equal(t, "theirs", read(postgres.ForOrganisation(t.Context(), theirs), t, pool))
	})
}
