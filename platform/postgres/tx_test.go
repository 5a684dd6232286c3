package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

func balances(t *testing.T, pool *pgxpool.Pool) []int {
	t.Helper()
	rows, err := pool.Query(t.Context(), "select balance from accounts order by id")
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return found
}

func TestInTx(t *testing.T) {
	t.Parallel()
	insert := func(ctx context.Context, tx pgx.Tx, id int) error {
		_, err := tx.Exec(ctx, "insert into accounts (id) values ($1)", id)
		return err
	}

	t.Run("CommitsWhenTheFunctionSucceeds", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, accounts())
		require.NoError(t, postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return insert(t.Context(), tx, 1) }))
		require.Len(t, balances(t, pool), 1)
	})

	t.Run("RollsBackWhenTheFunctionFails", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, accounts())
		errFunction := errors.New("no")
		err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			return errors.Join(insert(t.Context(), tx, 1), errFunction)
		})
		require.ErrorIs(t, err, errFunction)
		require.Empty(t, balances(t, pool))
	})

	t.Run("RollsBackWhenTheFunctionPanics", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, accounts())
		require.Panics(t, func() {
			_ = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
				require.NoError(t, insert(t.Context(), tx, 1))
				panic("no")
			})
		})
		require.Empty(t, balances(t, pool))
		require.Zero(t, pool.Stat().AcquiredConns())
	})

	t.Run("RollsBackAndKeepsTheConnectionWhenTheCallerGivesUp", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, accounts())
		ctx, cancel := context.WithCancel(t.Context())
		var inside uint32
		err := postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
			inside = tx.Conn().PgConn().PID()
			require.NoError(t, insert(ctx, tx, 1))
			cancel()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, balances(t, pool))
		var after uint32
		require.NoError(t, pool.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&after))
		require.Equal(t, inside, after)
	})

	t.Run("RepeatsWhatLostAConflictAtMostFiveTimes", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, accounts())
		tests := []struct {
			name     string
			code     string
			failures int
			want     int
		}{
			{name: "SerializationFailure", code: "40001", failures: 2, want: 3},
			{name: "Deadlock", code: "40P01", failures: 4, want: 5},
			{name: "Forever", code: "40001", failures: 100, want: 5},
			{name: "AnotherError", code: "23505", failures: 1, want: 1},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				runs := 0
				err := postgres.InTx(t.Context(), pool, func(pgx.Tx) error {
					if runs++; runs <= tt.failures {
						return &pgconn.PgError{Code: tt.code}
					}
					return nil
				})
				require.Equal(t, tt.want, runs)
				require.Equal(t, tt.want <= tt.failures, err != nil)
			})
		}
	})

	t.Run("ResolvesARealDeadlock", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, accounts())
		_, err := pool.Exec(t.Context(), "insert into accounts (id) values (1), (2)")
		require.NoError(t, err)
		locked := [2]chan struct{}{make(chan struct{}), make(chan struct{})} // each holds its first row
		results := make(chan error, 2)
		for side := range 2 {
			first := true
			go func() {
				results <- postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), "update accounts set balance = balance + 1 where id = $1", 1+side); err != nil {
						return err
					}
					if first {
						first = false
						close(locked[side])
						<-locked[1-side]
					}
					_, err := tx.Exec(t.Context(), "update accounts set balance = balance + 1 where id = $1", 2-side)
					return err
				})
			}()
		}
		require.NoError(t, <-results)
		require.NoError(t, <-results)
		require.Equal(t, []int{2, 2}, balances(t, pool))
	})
}

func TestIsUniqueViolation(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, accounts())
	_, err := pool.Exec(t.Context(), "insert into accounts (id) values (1), (1)")
	require.True(t, postgres.IsUniqueViolation(err, "accounts_id_key"))
	require.False(t, postgres.IsUniqueViolation(err, "accounts_pkey"))
	_, err = pool.Exec(t.Context(), "insert into accounts (id, balance) values (1, null)")
	require.Error(t, err)
	require.False(t, postgres.IsUniqueViolation(err, "accounts_id_key"))
	require.False(t, postgres.IsUniqueViolation(nil, "accounts_id_key"))
}

func TestInTxUnlessLocked(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, accounts())
	_, err := pool.Exec(t.Context(), "insert into accounts (id) values (1), (2)")
	require.NoError(t, err)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, holder.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = holder.Exec(t.Context(), "select from accounts where id = 1 for update")
	require.NoError(t, err)
	pay := func(id int) error {
		ctx, cancel := contextWithTimeout(t, 10*time.Second)
		defer cancel()
		return postgres.InTxUnlessLocked(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "update accounts set balance = balance + 1 where id = $1", id)
			return err
		})
	}

	require.ErrorIs(t, pay(1), postgres.ErrLocked)
	require.NoError(t, pay(2))
	var timeout string
	require.NoError(t, pool.QueryRow(t.Context(), "show lock_timeout").Scan(&timeout))
	require.Equal(t, "0", timeout, "it is over with the transaction")
}
