package flows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/schema"
)

// sqlVisitors is people who came to the second of three steps within 30 days, where half of them are still.
const sqlVisitors = `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    select gen_random_uuid(), $1, '+1' || (5000000000 + n), 'Ana', 'en', 'UTC', $2, $2 from generate_series(1, $3::int) n returning id
), s as (
    insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at, flow, flow_version, flow_state)
    select gen_random_uuid(), $1, id, 'onboarding', 'visit:day', case when n % 2 = 0 then 'active' else 'stopped' end, 'v',
        $2::timestamptz - make_interval(hours => (n % 700)::int), $2, 'visit', '0123456789abcdef', '{"step": "day", "visits": {"hello": 1, "day": 1}}'
    from (select id, row_number() over () as n from p) c returning id
)
insert into session_transitions (session_id, at, kind, from_state_token, to_state_token, trigger)
select id, $2, 'advanced', 'visit:hello', 'visit:day', 'reply_advance' from s`

// BenchmarkFunnel reads the funnel of a flow with 200,000 sessions (docs/performance.md).
func BenchmarkFunnel(b *testing.B) {
	pool := pgtest.New(b, schema.Migrations())
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	_, err := pool.Exec(b.Context(), sqlVisitors, onboardingtest.OrgID, at, 200_000)
	require.NoError(b, err)
	store := flows.NewStore(pool)
	folded := time.Now() //nolint:forbidigo // the machine's
	for more := true; more; {
		more, err = store.FoldCounts(b.Context())
		require.NoError(b, err)
	}
	b.Logf("200,000 sessions folded in %v", time.Since(folded)) //nolint:forbidigo // the machine's
	f := flow.Flow{Name: "visit", Steps: map[string]flow.Step{"hello": {ID: "hello", State: "visit:hello", Waits: true}}}
	for b.Loop() {
		found, err := store.Funnel(b.Context(), onboardingtest.OrgID, &f, at)
		require.NoError(b, err)
		require.Equal(b, []int{200_000, 100_000, 200_000}, []int{found.Began, found.Open, found.Steps["hello"].Answered})
	}
}
