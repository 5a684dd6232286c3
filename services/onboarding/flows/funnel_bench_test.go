package flows_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/schema"
)

// visitors seeds sessions at the second of three steps that began within 30 days, half of which are open, and the changes of the counts that
// triggers would write one by one.
var visitors = []string{
	`
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at, flow, flow_version, flow_state)
select gen_random_uuid(), $1, gen_random_uuid(), 'onboarding', 'visit:day', case when n % 2 = 0 then 'active' else 'stopped' end, 'v',
    $2::timestamptz - make_interval(hours => (n % 700)::int), $2, 'visit', '0123456789abcdef', '{"step": "day", "visits": {"hello": 1, "day": 1}}'
from generate_series(1, $3::int) n`, `
insert into flow_count_changes (org_id, flow, began_at, step, began, standing, reached, went_on, stopped)
select s.org_id, s.flow, date_trunc('day', s.created_at, 'UTC'), m.step, sum(m.began), sum(m.standing), sum(m.reached), sum(m.went_on), sum(m.stopped)
from conversation_sessions s cross join flow_marks(s.flow_state, s.status) m group by s.id, m.step`, `
insert into flow_count_changes (org_id, flow, began_at, step, answered)
select org_id, flow, date_trunc('day', created_at, 'UTC'), 'visit:hello', 1 from conversation_sessions`,
}

// BenchmarkFunnel reads the funnel of a flow with 200,000 sessions (docs/performance.md).
func BenchmarkFunnel(b *testing.B) {
	pool := pgtest.New(b, schema.Migrations())
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	seed(b, pool, at, 200_000)
	store := flows.NewStore(pool)
	folded := time.Now() //nolint:forbidigo // the machine's
	for more := true; more; {
		var err error
		more, err = store.FoldCounts(b.Context())
		require.NoError(b, err)
	}
	b.Logf("200,000 sessions folded in %v", time.Since(folded))                                         //nolint:forbidigo // the machine's
	_, err := pgtest.Owner(b, pool).Exec(b.Context(), `vacuum analyze flow_counts, flow_count_changes`) // as autovacuum does
	require.NoError(b, err)
	f := flow.Flow{Name: "visit", Steps: map[string]flow.Step{"hello": {ID: "hello", State: "visit:hello", Waits: true}}}
	for b.Loop() {
		found, err := store.Funnel(b.Context(), onboardingtest.OrgID, &f, at)
		require.NoError(b, err)
		require.Equal(b, []int{200_000, 100_000, 200_000}, []int{found.Began, found.Open, found.Steps["hello"].Answered})
	}
}

// seed writes visitors as the owner of the tables, without their triggers and without people.
func seed(b *testing.B, pool *pgxpool.Pool, at time.Time, n int) {
	b.Helper()
	owner, began := pgtest.Owner(b, pool), time.Now() //nolint:forbidigo // the machine's
	run := func(sql string, args ...any) {
		_, err := owner.Exec(b.Context(), sql, args...)
		require.NoError(b, err)
	}
	run(`alter table conversation_sessions disable trigger user, drop constraint conversation_sessions_profile_id_fkey`)
	run(visitors[0], onboardingtest.OrgID, at, n)
	run(visitors[1])
	run(visitors[2])
	b.Logf("seeded in %v", time.Since(began)) //nolint:forbidigo // the machine's
}
