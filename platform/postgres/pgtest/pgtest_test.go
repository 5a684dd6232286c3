package pgtest_test

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

func migrations() postgres.Migrations {
	return postgres.Migrations{FS: fstest.MapFS{
		"0001_people.sql": {Data: []byte("-- +goose Up\ncreate table people (name text primary key);\n-- +goose Down\ndrop table people;\n")},
	}}
}

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("ConnectsAsAnOwnerWhoIsNoSuperuser", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, migrations())
		var superuser string
		require.NoError(t, pool.QueryRow(t.Context(), "select current_setting('is_superuser')").Scan(&superuser))
		require.Equal(t, "off", superuser)
		_, err := pool.Exec(t.Context(), "alter table people add column born date")
		require.NoError(t, err)
	})

	t.Run("ConnectsForAServiceAsALoginThatOwnsNothing", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, postgres.Migrations{Service: "notes", FS: fstest.MapFS{"0001_notes.sql": {Data: []byte(`-- +goose Up
create role notes_tenant; create role notes_worker; create table notes (words text); grant select, insert on notes to notes_worker;
grant usage on schema public to notes_worker;
`)}}})
		_, err := pool.Exec(t.Context(), "insert into notes values ('hello')")
		require.NoError(t, err)
		for _, deed := range []string{"update notes set words = 'bye'", "delete from notes", "drop table notes"} {
			_, err := pool.Exec(t.Context(), deed)
			require.Error(t, err, deed)
		}
		_, err = pgtest.Owner(t, pool).Exec(t.Context(), "drop table notes")
		require.NoError(t, err)
	})

	t.Run("HasWhatTheMigrationsMade", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, migrations().Ready(t.Context(), pgtest.New(t, migrations())))
		require.Error(t, migrations().Ready(t.Context(), pgtest.New(t, postgres.Migrations{})), "this one is empty")
	})

	for _, name := range []string{"First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth"} {
		t.Run(name+"TestHasADatabaseOfItsOwn", func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t, migrations())
			_, err := pool.Exec(t.Context(), "insert into people values ('Ada')")
			require.NoError(t, err, "the row of another test would be a duplicate")
		})
	}
}

// TestLent holds New to a database without a trace of the tests that had it before.
func TestLent(t *testing.T) {
	t.Parallel()
	m := postgres.Migrations{FS: fstest.MapFS{"0001_pets.sql": {Data: []byte(`-- +goose Up
create table pets (id bigint generated always as identity primary key, name text unique);
create table kinds (name text primary key);
insert into kinds values ('cat'), ('dog');
create table toys (pet bigint references pets, kind text references kinds);
`)}}}
	// lend runs do on a database of New, and returns the database's name and the numbers of its server processes.
	lend := func(t *testing.T, name string, do func(*testing.T, *pgxpool.Pool)) (database string, pids []uint32) {
		t.Helper()
		require.True(t, t.Run(name, func(t *testing.T) {
			pool := pgtest.New(t, m)
			database = pool.Config().ConnConfig.Database
			do(t, pool)
			for _, conn := range pool.AcquireAllIdle(t.Context()) {
				pids = append(pids, conn.Conn().PgConn().PID())
				conn.Release()
			}
		}))
		return database, pids
	}
	exec := func(t *testing.T, db interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}, statements ...string,
	) {
		t.Helper()
		for _, sql := range statements {
			_, err := db.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
	}
	// requireNew runs what fails or finds something unless the database is as the migrations left it.
	requireNew := func(t *testing.T, pool *pgxpool.Pool) {
		t.Helper()
		var found string
		require.NoError(t, pool.QueryRow(t.Context(), `select concat_ws(' ', (select count(*) from pets), (select count(*) from toys),
			(select string_agg(name, ',') from kinds), current_setting('work_mem'), current_setting('enable_seqscan'),
			(select count(*) from pg_listening_channels()), (select count(*) from pg_locks where locktype = 'advisory'
				and database = (select oid from pg_database where datname = current_database())),
			(select count(*) from pg_prepared_statements where name = 'mine'), coalesce(current_setting('app.who', true), ''),
			(select reltuples::text from pg_class where relname = 'pets'))`).Scan(&found))
		require.Equal(t, "0 0 cat,dog 4MB off 0 0 0  -1", found)
		var id int64
		require.NoError(t, pool.QueryRow(t.Context(), "insert into pets (name) values ('Rex') returning id").Scan(&id))
		require.EqualValues(t, 1, id, "the sequence begins anew")
	}

	first, pids := lend(t, "ATestThatLeavesTraces", func(t *testing.T, pool *pgxpool.Pool) {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		exec(t, conn, "insert into pets (name) values ('Rex')", "insert into toys values (1, 'dog')", "delete from kinds where name = 'cat'",
			"set work_mem = '1MB'", "set enable_seqscan = on", "listen pets", "select pg_advisory_lock(7)", "prepare mine as select 1",
			"set app.who = 'me'")
		_, err = conn.Exec(t.Context(), "insert into pets (name) values ('Rex')")
		require.Error(t, err)
	})
	second, again := lend(t, "TheNextFindsNone", requireNew)
	require.Equal(t, first, second)
	require.Equal(t, pids, again, "a process is warm")
	third, again := lend(t, "OneThatEndsItsConnections", func(t *testing.T, pool *pgxpool.Pool) {
		_, err := pool.Exec(t.Context(), "select pg_terminate_backend(pg_backend_pid())")
		require.Error(t, err)
	})
	require.Equal(t, first, third)
	require.NotEqual(t, pids, again)

	whole := t
	for name, do := range map[string]func(*testing.T, *pgxpool.Pool){
		"AddsAColumn":    func(t *testing.T, pool *pgxpool.Pool) { exec(t, pool, "alter table pets add born date") },
		"MakesAFunction": func(t *testing.T, pool *pgxpool.Pool) { exec(t, pool, "create function f() returns int return 1") },
		"Revokes":        func(t *testing.T, pool *pgxpool.Pool) { exec(t, pool, "revoke insert on pets from current_user") },
		"Analyzes":       func(t *testing.T, pool *pgxpool.Pool) { exec(t, pool, "analyze kinds") },
		"SetsTheDatabase": func(t *testing.T, pool *pgxpool.Pool) {
			exec(t, pool, "alter database "+pool.Config().ConnConfig.Database+" set work_mem = '1MB'")
		},
		"StopsInItsMiddle": func(t *testing.T, pool *pgxpool.Pool) {
			left, err := pgx.Connect(t.Context(), pool.Config().ConnString())
			require.NoError(t, err)
			whole.Cleanup(func() { _ = left.Close(context.Background()) }) // long after the test that left it open
		},
	} {
		had, _ := lend(t, name, do)
		has, _ := lend(t, name+"_TheNextHasAnother", requireNew)
		require.NotEqual(t, had, has)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	var url string
	t.Cleanup(func() { // runs after those of URL
		_, err := pgx.Connect(context.WithoutCancel(t.Context()), url)
		require.ErrorContains(t, err, "does not exist")
	})
	url = pgtest.URL(t, migrations())
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	require.NoError(t, conn.Ping(t.Context())) // and it is left open: the database is dropped all the same
}
