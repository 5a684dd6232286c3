package goals_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"paceline.internal/services/onboarding/postgres"
)

func TestZZ(t *testing.T) {
	b := setup(t)
	b.says("", time.Minute)
	args := pgx.NamedArgs{"now": b.clock.Now(), "grace": time.Minute, "doublings": 2, "busy": time.Hour, "lease": time.Minute, "limit_of_run": time.Hour, "limit": 256, "reach": 1000}
	for _, pre := range []string{"select 1", "set jit = off"} {
		conn, err := b.pool.Acquire(t.Context())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), pre)
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), "explain analyze "+postgres.SQLOverdueGoals, args)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		t.Log(pre, "\n", strings.Join(lines, "\n"))
		conn.Release()
	}
}
