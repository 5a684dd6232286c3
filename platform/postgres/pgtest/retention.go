package pgtest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/retention"
)

// CheckRetention fails unless every table of a schema has a rule and every rule a table, the rules stand in the page between the service's
// marks, and each statement finds its rows by indexes.
func CheckRetention(t *testing.T, schema postgres.Migrations, rules []retention.Rule, page string) {
	t.Helper()
	pool := New(t, schema)
	t.Run("EveryTableHasARule", func(t *testing.T) {
		t.Parallel()
		rows, err := pool.Query(t.Context(),
			`select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`)
		require.NoError(t, err)
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		ruled := map[string]bool{}
		for _, r := range rules {
			ruled[r.Table] = true
			require.Contains(t, tables, r.Table, "a rule of a table that is not there")
		}
		for _, table := range tables {
			require.True(t, ruled[table], "%s has no rule: how long are its rows kept? See Rules", table)
		}
	})
	t.Run("ThePageSaysSo", func(t *testing.T) {
		t.Parallel()
		written, err := os.ReadFile(page)
		require.NoError(t, err)
		_, after, _ := strings.Cut(string(written), "<!-- rules of "+schema.Service+" -->\n")
		table, _, _ := strings.Cut(after, "<!-- end -->")
		require.Equal(t, retention.Page(rules), table, "put the rules into %s as they are", page)
	})
	for _, r := range rules {
		if r.Over == nil {
			continue
		}
		t.Run(r.Table+"Over"+r.Over.At+"IsFoundByAnIndex", func(t *testing.T) {
			t.Parallel()
			plan := planOf(t, pool, r)
			require.NotContains(t, plan, "Seq Scan", "of a whole table")
			require.Regexp(t, `Index (Only )?Scan using \S+ on \S+ r( r_1)?\n +Index Cond: \(.*`+r.Over.At+` <`, plan)
		})
	}
}

// planOf returns the plan of the statement of a rule where tables are large.
func planOf(t *testing.T, pool postgres.DB, r retention.Rule) (plan string) {
	t.Helper()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	args := postgres.Args{
		"before": at, "after": at, "after_row": "(0,0)", "limit": 500, "now": at, "org": "00000000-0000-7000-8000-000000000001",
	}
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `set local enable_seqscan = off; set local enable_bitmapscan = off`); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), "explain (costs off) "+r.SQL(), args)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan = strings.Join(lines, "\n")
		return err
	})
	require.NoError(t, err)
	return plan
}
