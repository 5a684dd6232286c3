package pgtest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
)

// Asked is one question to the database.
type Asked struct {
	SQL  string
	Args []any
}

// Listener is a tracer of a connection that notes its statements, so that a test looks at the plans of exactly those.
type Listener struct{ Heard []Asked }

// TraceQueryStart notes a statement.
func (l *Listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	l.Heard = append(l.Heard, Asked{SQL: d.SQL, Args: d.Args})
	return ctx
}

// TraceQueryEnd does nothing.
func (*Listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart does nothing.
func (*Listener) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery notes a statement of a batch.
func (l *Listener) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	l.Heard = append(l.Heard, Asked{SQL: d.SQL, Args: d.Args})
}

// TraceBatchEnd does nothing.
func (*Listener) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Explain returns the plans of the questions about a table, and asks the others ahead of them in the same transaction.
func Explain(t *testing.T, pool *pgxpool.Pool, table string, questions []Asked) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	var plan []string
	for _, q := range questions {
		if !strings.Contains(q.SQL, table) {
			_, err := tx.Exec(t.Context(), q.SQL, q.Args...)
			require.NoError(t, err)
			continue
		}
		rows, err := tx.Query(t.Context(), `explain `+q.SQL, q.Args...)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		plan = append(plan, lines...)
	}
	require.NotEmpty(t, plan)
	return strings.Join(plan, "\n")
}

// Blocks counts the blocks that a statement reads behind postgres.PlanNow, under the given settings.
func Blocks(t *testing.T, pool *pgxpool.Pool, q Asked, settings ...string) int {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	for _, set := range append([]string{postgres.PlanNow}, settings...) {
		_, err = tx.Exec(t.Context(), set)
		require.NoError(t, err)
	}
	var explained []byte
	require.NoError(t, tx.QueryRow(t.Context(), "explain (analyze, buffers, format json) "+q.SQL, q.Args...).Scan(&explained))
	var plans []struct {
		Plan struct { //nolint:tagliatelle // Postgres names them
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		} `json:"Plan"`
		JIT any `json:"JIT"`
	}
	require.NoError(t, json.Unmarshal(explained, &plans))
	require.Nil(t, plans[0].JIT, "compiling it takes longer than all that it reads")
	return plans[0].Plan.Hit + plans[0].Plan.Read
}
