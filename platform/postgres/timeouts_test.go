package postgres_test

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

func bound(t *testing.T, url string, timeouts postgres.Timeouts) *postgres.Pool {
	t.Helper()
	pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: url, Timeouts: timeouts})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	const lock = "update notes set text = text"

	t.Run("R_02_ServerEndsTheSessionOfAProcessThatFrozeInATransaction", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t, notes)
		ctx, cancel := context.WithTimeout(postgres.AcrossOrganisations(t.Context()), 20*time.Second)
		defer cancel()
		frozen := bound(t, url, postgres.Timeouts{Statement: time.Minute, Lock: 30 * time.Second, IdleInTransaction: 2 * time.Second})
		err := postgres.InTx(ctx, frozen, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, lock)
			require.NoError(t, err)
			_, err = bound(t, url, postgres.Timeouts{Statement: time.Minute, Lock: 30 * time.Second, IdleInTransaction: time.Minute}).Exec(ctx, lock)
			require.NoError(t, err, "the rows are free again")
			_, err = tx.Exec(ctx, lock)
			return err
		})
		require.Error(t, err)
		require.True(t, postgres.Outage(err), "%v", err)
	})

	t.Run("R_02_RowThatStaysLockedAndStatementThatTakesTooLongAreOutages", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(postgres.AcrossOrganisations(t.Context()), 20*time.Second)
		defer cancel()
		pool := bound(t, pgtest.URL(t, notes), postgres.Timeouts{Statement: 2 * time.Second, Lock: 50 * time.Millisecond, IdleInTransaction: time.Minute})
		require.NoError(t, postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, lock)
			require.NoError(t, err)
			_, err = pool.Exec(ctx, lock)
			require.ErrorContains(t, err, "55P03")
			require.True(t, postgres.Outage(err))
			return nil
		}))
		for _, scope := range []string{ours, ""} {
			_, err := pool.Exec(postgres.ForOrganisation(ctx, scope), "select pg_sleep(60)")
			require.ErrorContains(t, err, "57014")
			require.True(t, postgres.Outage(err))
		}
	})

	t.Run("R_02_WhatTheURLSaysHolds", func(t *testing.T) {
		t.Parallel()
		var said string
		pool := bound(t, pgtest.URL(t, notes)+"&statement_timeout=7000", postgres.Timeouts{Statement: 9 * time.Second, Lock: time.Second, IdleInTransaction: time.Second})
		require.NoError(t, pool.QueryRow(postgres.AcrossOrganisations(t.Context()), "show statement_timeout").Scan(&said))
		require.Equal(t, "7s", said)
	})

	t.Run("R_02_MigrationsTakeAsLongAsTheyTake", func(t *testing.T) {
		t.Parallel()
		pool, url := empty(t)
		_, err := pool.Exec(t.Context(), `do $$ begin execute format('alter database %I set statement_timeout = 100', current_database()); end $$`)
		require.NoError(t, err)
		files := accountFiles()
		files["0003_slow.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nselect pg_sleep(0.3);\n")}
		require.NoError(t, postgres.Migrations{FS: files}.Up(t.Context(), url))
	})

	for name, tt := range map[string]struct {
		environ map[string]string
		want    string
	}{
		"R_02_DefaultsAreSound":                {},
		"R_02_RefusesNoLimit":                  {map[string]string{"STATEMENT_TIMEOUT": "0"}, "STATEMENT_TIMEOUT must be 1ms or more"},
		"R_02_RefusesLessThanTheServerCounts":  {map[string]string{"LOCK_TIMEOUT": "1us"}, "LOCK_TIMEOUT must be 1ms or more"},
		"R_02_RefusesANegativeLimit":           {map[string]string{"IDLE_IN_TRANSACTION_TIMEOUT": "-1s"}, "IDLE_IN_TRANSACTION_TIMEOUT must be 1ms or more"},
		"R_02_RefusesALockBeyondItsStatement":  {map[string]string{"LOCK_TIMEOUT": "10s"}, "LOCK_TIMEOUT must be shorter than STATEMENT_TIMEOUT"},
		"R_02_RefusesWhatIsNoDuration":         {map[string]string{"LOCK_TIMEOUT": "soon"}, "LOCK_TIMEOUT"},
		"R_02_TakesALockJustBelowItsStatement": {map[string]string{"LOCK_TIMEOUT": "9999ms"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var timeouts postgres.Timeouts
			err := config.Load(tt.environ, &timeouts)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}
