package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// empty returns a database without a schema, as a pool and as a URL.
func empty(t *testing.T) (*pgxpool.Pool, string) {
	t.Helper()
	url := pgtest.URL(t, postgres.Migrations{})
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, url
}

// columns lists what the migrations of accounts have made.
func columns(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(),
		"select column_name::text from information_schema.columns where table_name = 'accounts' order by ordinal_position")
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return found
}

func TestMigrations(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("GoUpDownAndUp", func(t *testing.T) {
		t.Parallel()
		pool, url := empty(t)
		m := accounts()
		for range 2 {
			require.NoError(t, m.Up(t.Context(), url))
			require.Equal(t, []string{"id", "balance", "owner"}, columns(t, pool))
			require.NoError(t, m.Ready(t.Context(), pool))
			require.NoError(t, m.Down(t.Context(), url))
			require.Empty(t, columns(t, pool))
			require.ErrorIs(t, m.Ready(t.Context(), pool), postgres.ErrSchemaBehind)
		}
	})

	t.Run("FourMigratorsAtOnceDoItOnce", func(t *testing.T) {
		t.Parallel()
		pool, url := empty(t)
		files := accountFiles()
		files["0003_slow.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nselect pg_sleep(0.1);\ncreate table slow (id int);\n")}
		m := postgres.Migrations{FS: files}
		var migrators errgroup.Group
		for range 4 {
			migrators.Go(func() error { return m.Up(t.Context(), url) })
		}
		require.NoError(t, migrators.Wait())
		var applied int
		require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from goose_db_version where version_id > 0").Scan(&applied))
		require.Equal(t, 3, applied)
	})

	t.Run("R_02_OneThatWaitsForALockLetsOthersPassAndTriesAgain", func(t *testing.T) {
		t.Parallel()
		pool, url := empty(t)
		files := accountFiles()
		require.NoError(t, postgres.Migrations{FS: files}.Up(t.Context(), url))
		files["0003_born.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nalter table accounts add column born date;\n")}
		holder, err := pool.Begin(t.Context()) // a frozen process
		require.NoError(t, err)
		defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
		_, err = holder.Exec(t.Context(), "select from accounts")
		require.NoError(t, err)
		ctx, cancel := contextWithTimeout(t, time.Minute)
		defer cancel()
		lines := &logged{told: make(chan string, 100)}
		migrated := make(chan error, 1)
		go func() {
			migrated <- postgres.Migrations{FS: files, Log: slog.New(slog.NewJSONHandler(lines, nil))}.Up(ctx, url)
		}()

		select {
		case line := <-lines.told:
			require.Contains(t, line, `"msg":"postgres.migration_waits_for_lock"`)
		case err := <-migrated:
			require.Fail(t, "it waited without end", err)
		}
		_, err = pool.Exec(ctx, "select from accounts") // it does not queue behind the migration
		require.NoError(t, err)
		require.NoError(t, holder.Rollback(ctx))
		require.NoError(t, <-migrated)
		require.Contains(t, columns(t, pool), "born")
	})

	t.Run("ABrokenOneLeavesTheVersionBeforeIt", func(t *testing.T) {
		t.Parallel()
		pool, url := empty(t)
		files := accountFiles()
		files["0003_broken.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\ncreate table half (id int);\nselect nonsense;\n")}
		m := postgres.Migrations{FS: files}
		require.Error(t, m.Up(t.Context(), url))
		current, err := m.Current(t.Context(), pool)
		require.NoError(t, err)
		require.EqualValues(t, 2, current)
		var half *string
		require.NoError(t, pool.QueryRow(t.Context(), "select to_regclass('half')::text").Scan(&half))
		require.Nil(t, half)
	})
}

// logged tells each line.
type logged struct{ told chan string }

func (l *logged) Write(line []byte) (int, error) {
	l.told <- string(line)
	return len(line), nil
}

func TestMigrateWithoutMigrationsFails(t *testing.T) {
	t.Parallel()
	_, url := empty(t)
	require.Error(t, postgres.Migrations{}.Up(t.Context(), url))
	require.Error(t, postgres.Migrations{FS: fstest.MapFS{}}.Up(t.Context(), url))
}

func TestReady(t *testing.T) {
	t.Parallel()
	older := postgres.Migrations{FS: fstest.MapFS{"0001_accounts.sql": accountFiles()["0001_accounts.sql"]}}
	newer := accounts()
	none := postgres.Migrations{}
	tests := []struct {
		name   string
		schema postgres.Migrations
		binary postgres.Migrations
		want   error
	}{
		{name: "SameVersion", schema: newer, binary: newer, want: nil},
		{name: "OldBinaryOnNewerSchema", schema: newer, binary: older, want: nil},
		{name: "NewBinaryOnOlderSchema", schema: older, binary: newer, want: postgres.ErrSchemaBehind},
		{name: "NothingMigratedYet", schema: none, binary: older, want: postgres.ErrSchemaBehind},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.binary.Ready(t.Context(), pgtest.New(t, tt.schema))
			require.ErrorIs(t, err, tt.want)
			if tt.want != nil {
				require.ErrorContains(t, err, "run migrate")
			}
		})
	}

	t.Run("OldBinaryMayMigrateANewerSchema", func(t *testing.T) {
		t.Parallel()
		pool, url := empty(t)
		require.NoError(t, newer.Up(t.Context(), url))
		require.NoError(t, older.Up(t.Context(), url))
		current, err := newer.Current(t.Context(), pool)
		require.NoError(t, err)
		require.EqualValues(t, 2, current)
	})
}

func TestRequired(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		files   fstest.MapFS
		want    int64
		wantErr string
	}{
		{name: "HighestNumber", files: fstest.MapFS{"0002_b.sql": {}, "0010_c.sql": {}, "0001_a.sql": {}, "README.md": {}}, want: 10},
		{name: "None", files: fstest.MapFS{}, wantErr: "no migrations"},
		{name: "NotNumbered", files: fstest.MapFS{"first.sql": {}}, wantErr: "first.sql"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := postgres.Migrations{FS: tt.files}.Required()
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}
