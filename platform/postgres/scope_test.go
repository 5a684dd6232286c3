package postgres_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
create table notes (org_id uuid not null, text text not null, profile_id uuid);
grant select, insert, update on notes to notes_tenant, notes_worker;
alter table notes enable row level security, force row level security;
create policy tenant on notes to notes_tenant using (org_id = nullif(current_setting('app.current_org_id', true), '')::uuid);
create policy person on notes as restrictive to notes_tenant
    using (nullif(current_setting('app.current_profile_id', true), '') is null or profile_id::text = current_setting('app.current_profile_id', true));
create policy worker on notes to notes_worker using (true);
insert into notes values ('` + ours + `', 'ours'), ('` + theirs + `', 'theirs');
`)}}}

// read returns the rows that a context sees.
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

func scoped(t *testing.T, url string) *postgres.Pool {
	t.Helper()
	pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: url, MaxConns: 1})
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

	t.Run("S4_07_UsersCallSeesTheRowsOfItsPersonAlone", func(t *testing.T) {
		t.Parallel()
		pool, person := scoped(t, pgtest.URL(t, notes)), uuid.MustParse(theirs)
		for range 2 {
			_, err := pool.Exec(postgres.AcrossOrganisations(t.Context()), "insert into notes values ($1, 'mine', $2)", ours, person)
			require.NoError(t, err)
			require.Equal(t, "mine", read(postgres.ForProfile(t.Context(), ours, person), t, pool))
			require.Empty(t, read(postgres.ForProfile(t.Context(), theirs, person), t, pool), "in another organisation the id is of no profile")
			require.Empty(t, read(postgres.ForProfile(t.Context(), ours, uuid.Nil), t, pool), "and without an id there is none")
			require.Equal(t, "mine ours", read(postgres.ForOrganisation(postgres.ForProfile(t.Context(), ours, person), ours), t, pool),
				"a wider scope has to be asked for")
			_, err = pool.Exec(postgres.AcrossOrganisations(t.Context()), "delete from notes where text = 'mine'")
			require.NoError(t, err)
		}
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
		pool, err := postgres.OpenFor(t.Context(), "missing", postgres.Config{URL: pgtest.URL(t, notes)})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		for range 2 {
			_, err = pool.Exec(t.Context(), "select 1")
			require.ErrorContains(t, err, "missing_tenant")
		}
		version, err := notes.Current(t.Context(), pool)
		require.NoError(t, err, "about the database itself one may ask")
		require.Equal(t, int64(1), version)
	})
}

func TestScopeOnConnections(t *testing.T) {
	t.Parallel()

	t.Run("R_20_ScopeEndsWithItsTransaction", func(t *testing.T) {
		t.Parallel()
		pool, ctx := scoped(t, pgtest.URL(t, notes)), postgres.ForOrganisation(t.Context(), ours)
		text := func(row pgx.Row) string {
			t.Helper()
			var text string
			require.NoError(t, row.Scan(&text))
			return text
		}
		const sql = "select string_agg(text, ' ' order by text) from notes"
		for name, use := range map[string]func(){
			"Query":    func() { require.Equal(t, "ours", read(ctx, t, pool)) },
			"QueryRow": func() { require.Equal(t, "ours", text(pool.QueryRow(ctx, sql))) },
			"Exec": func() {
				tag, err := pool.Exec(ctx, "select from notes")
				require.NoError(t, err)
				require.Equal(t, int64(1), tag.RowsAffected())
			},
			"SendBatch": func() {
				var b pgx.Batch
				b.Queue(sql)
				b.Queue(sql)
				results := pool.SendBatch(ctx, &b)
				require.Equal(t, "ours ours", text(results.QueryRow())+" "+text(results.QueryRow()))
				require.NoError(t, results.Close())
			},
			"Begin": func() {
				require.NoError(t, postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
					require.Equal(t, "ours", text(tx.QueryRow(t.Context(), sql)))
					return nil
				}))
			},
			"NoRow": func() {
				require.ErrorIs(t, pool.QueryRow(ctx, "select 1 from notes where false").Scan(new(int)), pgx.ErrNoRows)
			},
			"AnError": func() {
				require.ErrorContains(t, pool.QueryRow(ctx, "select 1 / 0").Scan(new(int)), "division by zero")
			},
			"BadScan": func() { require.Error(t, pool.QueryRow(ctx, sql).Scan(new(int))) },
			"NoScope": func() { require.Empty(t, read(t.Context(), t, pool)) },
			"Persons": func() {
				require.Empty(t, read(postgres.ForProfile(t.Context(), ours, uuid.MustParse(theirs)), t, pool))
			},
		} {
			use()
			left := text(pool.QueryRow(postgres.AcrossOrganisations(t.Context()),
				`select (current_user = session_user)::text || coalesce(current_setting('app.current_org_id', true), '')
					|| coalesce(current_setting('app.current_profile_id', true), '')`))
			require.Equal(t, "true", left, "%s leaves nothing of itself on the one connection", name)
		}
	})

	t.Run("R_20_CommitOfATenantsStatementThatFailsIsItsError", func(t *testing.T) {
		t.Parallel()
		pool, ctx := scoped(t, pgtest.URL(t, notes)), postgres.ForOrganisation(t.Context(), ours)
		_, err := pool.Exec(postgres.AcrossOrganisations(t.Context()), `alter table notes add constraint once unique (text) deferrable initially deferred`)
		require.NoError(t, err)
		const sql = "insert into notes values ('" + ours + "', 'ours') returning text"
		_, err = pool.Exec(ctx, sql)
		require.True(t, postgres.IsUniqueViolation(err, "once"), "%v", err)
		require.True(t, postgres.IsUniqueViolation(pool.QueryRow(ctx, sql).Scan(new(string)), "once"))
		rows, err := pool.Query(ctx, sql)
		require.NoError(t, err)
		_, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.True(t, postgres.IsUniqueViolation(err, "once"), "%v", err)
		require.Equal(t, "ours", read(ctx, t, pool))
	})

	t.Run("ConnectionThatDiedIsReplaced", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t, notes)
		pool := scoped(t, url)
		require.Equal(t, "ours", read(postgres.ForOrganisation(t.Context(), ours), t, pool))
		other, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		_, err = other.Exec(t.Context(), `select pg_terminate_backend(pid, 10000) from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`)
		require.NoError(t, err)
		require.NoError(t, other.Close(t.Context()))
		_, err = pool.Exec(postgres.ForOrganisation(t.Context(), theirs), "select") // the pool asks only one that was idle for a second
		require.True(t, postgres.Outage(err), "%v", err)
		require.Equal(t, "theirs", read(postgres.ForOrganisation(t.Context(), theirs), t, pool))
	})
}
