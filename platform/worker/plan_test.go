package worker_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/worker"
)

// TestPlans is about statements that are planned while the table is empty, and whose plans are kept for as long as the connection: each
// finds its rows one by one, and never goes through all that is open, or all that is there.
func TestPlans(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.pool.Exec(t.Context(), `analyze jobs`)
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		sql, nulls, want string
	}{
		"EndsWhatIsLeasedByItsID":   {sql: b.queue.SQLComplete(), nulls: "null, null, null", want: "Index Cond: (id = ANY ($1))"},
		"EndsWhatIsHeldByWhereItIs": {sql: b.queue.SQLDone(), nulls: "null, null", want: "Tid Scan"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx, err := b.pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
			_, err = tx.Exec(t.Context(), worker.SQLByIndex)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "prepare "+name+" as "+tt.sql)
			require.NoError(t, err)
			rows, err := tx.Query(t.Context(), "explain execute "+name+"("+tt.nulls+")")
			require.NoError(t, err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			plan := strings.Join(lines, "\n")
			require.Contains(t, plan, tt.want)
			for _, wrong := range []string{"Seq Scan", "jobs_due", "jobs_leased"} {
				require.NotContains(t, plan, wrong)
			}
		})
	}
}
