package conversation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/schema"
)

// asked has what a connection was asked.
type asked struct {
	sql  string
	args []any
}

// listener notes what the database is asked, so that the plans of exactly that can be looked at.
type listener struct{ heard []asked }

func (l *listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	l.heard = append(l.heard, asked{sql: d.SQL, args: d.Args})
	return ctx
}

func (l *listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *listener) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *listener) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	l.heard = append(l.heard, asked{sql: d.SQL, args: d.Args})
}

func (l *listener) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestStatusQueries asks the planner about the statements of Gauges and List themselves, with statistics of a table that has many
// finished jobs and enough that are open to tempt it to search the finished ones for them. How long they take is BenchmarkStatus in
// platform/queue.
func TestStatusQueries(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, schema.Migrations())
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	l := &listener{}
	cfg.ConnConfig.Tracer, cfg.MaxConns = l, 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	org, now := uuid.NewString(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	_, err = pool.Exec(t.Context(), `
		insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status,
		    next_retry_at, lease_token, lease_until, processed_at, created_at, updated_at)
		select gen_random_uuid(), case when n % 2 = 0 then $1::uuid else gen_random_uuid() end, n::text, 'internal', 'e', '', '{}', s.status,
		    case when s.status = 'pending' then $2::timestamptz end,
		    case when s.status = 'processing' then gen_random_uuid() end, case when s.status = 'processing' then $2::timestamptz end,
		    case when s.status in ('completed', 'failed') then $2::timestamptz end, $2, $2
		from generate_series(1, 10000) n cross join lateral (select case
		    when n % 20 < 2 then 'pending' when n % 200 = 2 then 'failed' when n % 200 = 4 then 'processing' else 'completed' end as status) s`, org, now)
	require.NoError(t, err)
	_, err = pgtest.Owner(t, pool).Exec(t.Context(), `analyze webhook_jobs`)
	require.NoError(t, err)
	jobs := onboarding.NewStores(pool).Jobs()

	list := func(status string) func(context.Context) error {
		return func(ctx context.Context) error {
			found, err := jobs.List(ctx, queue.Filter{OrgID: org, Status: status, Limit: 50})
			require.NotEmpty(t, found)
			return err
		}
	}
	for _, tt := range []struct {
		name       string
		ask        func(context.Context) error
		want, none []string
	}{
		{
			name: "S2_13_CountsOfAQueueReadNothingThatIsFinished", ask: func(ctx context.Context) error { _, err := jobs.Gauges(ctx, now); return err },
			want: []string{"idx_webhook_jobs_pending", "webhook_jobs_leased", "webhook_jobs_failed"}, none: []string{"webhook_jobs_by_org", "webhook_jobs_ended"},
		},
		{name: "S2_13_PendingJobsOfAnOrganisation", ask: list(queue.StatusPending), want: []string{"idx_webhook_jobs_pending"}, none: []string{"webhook_jobs_by_org"}},
		{name: "S2_13_RunningJobsOfAnOrganisation", ask: list(queue.StatusProcessing), none: []string{"webhook_jobs_by_org"}},
		{name: "S2_13_FailedJobsOfAnOrganisation", ask: list(queue.StatusFailed), want: []string{"webhook_jobs_failed"}},
		{name: "S2_13_FinishedJobsOfAnOrganisation", ask: list(queue.StatusCompleted), want: []string{"webhook_jobs_by_org"}},
		{name: "S2_13_AllJobsOfAnOrganisation", ask: list(""), want: []string{"webhook_jobs_by_org"}},
	} {
		l.heard = nil
		require.NoError(t, tt.ask(t.Context()))
		plan := explained(t, pool, `"webhook_jobs"`, l.heard)
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.NotContains(t, plan, "Seq Scan on webhook_jobs")
			require.Contains(t, plan, "Index")
			for _, name := range tt.want {
				require.Contains(t, plan, name)
			}
			for _, name := range tt.none {
				require.NotContains(t, plan, name)
			}
		})
	}
}

// explained are the plans of what was asked of a table, after whatever was set for it in the same transaction.
func explained(t *testing.T, pool *pgxpool.Pool, table string, questions []asked) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	var plan []string
	for _, q := range questions {
		if !strings.Contains(q.sql, table) {
			_, err := tx.Exec(t.Context(), q.sql, q.args...)
			require.NoError(t, err)
			continue
		}
		rows, err := tx.Query(t.Context(), `explain `+q.sql, q.args...)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		plan = append(plan, lines...)
	}
	require.NotEmpty(t, plan)
	return strings.Join(plan, "\n")
}
