package pgtest_test

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
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
