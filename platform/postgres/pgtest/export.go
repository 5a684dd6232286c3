package pgtest

import (
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
)

// CheckExport holds the export of a person to the tables that there are: each is read by its statement, or is left out for a reason.
func CheckExport(t *testing.T, schema postgres.Migrations, sql string, left map[string]string) {
	t.Helper()
	rows, err := New(t, schema).Query(t.Context(), `select tablename::text from pg_tables where schemaname = 'public'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, table := range tables {
		read := regexp.MustCompile(`\b(from|join) ` + table + `\b`).MatchString(sql)
		require.NotEqual(t, read, left[table] != "",
			"%s: the export reads it, or the test says why it has nothing of a person that is not in the export already; not both", table)
	}
	for table := range left {
		require.Contains(t, tables, table)
	}
}
