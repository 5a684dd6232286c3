package tickets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/tickets"
)

// sqlCrowd is a million people, each with a ticket that is closed, but for a thousand of them.
const sqlCrowd = `
with p as (
    insert into profiles (id, org_id, phone, first_name, name_key, locale, time_zone, created_at, updated_at)
    select gen_random_uuid(), $1, '+1' || (5000000000 + n), 'Ana', 'ana', 'en', 'UTC', $2, $2 from generate_series(1, $3::int) n returning id, phone
)
insert into tickets (id, org_id, profile_id, status, reason, last_text, last_text_at, opened_at, waits_since, closed_at, outcome)
select gen_random_uuid(), $1, id, case when open then 'open' else 'closed' end, 'asked', 'Hello', $2::timestamptz + seconds, $2,
    case when open then $2::timestamptz end, case when not open then $2::timestamptz end, case when not open then 'resume' end
from (select id, make_interval(secs => row_number() over ()) as seconds, row_number() over () <= 1000 as open from p) c`

// BenchmarkList pages through 1,000 open tickets among a million people (docs/performance.md).
func BenchmarkList(b *testing.B) {
	pool := pgtest.New(b, schema.Migrations())
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	owner := pgtest.Owner(b, pool) // without triggers and the index of the search, which the list does not read
	for _, sql := range []string{"alter table profiles disable trigger user", "alter table tickets disable trigger user", "drop index profiles_search_by_org"} {
		_, err := owner.Exec(b.Context(), sql)
		require.NoError(b, err)
	}
	_, err := owner.Exec(b.Context(), sqlCrowd, onboardingtest.OrgID, at, 1_000_000)
	require.NoError(b, err)
	_, err = owner.Exec(b.Context(), "analyze tickets, profiles")
	require.NoError(b, err)
	store := onboarding.NewStores(pool).Tickets()
	filter := tickets.Filter{OrgID: onboardingtest.OrgID, Limit: 51}
	rows := 0
	for b.Loop() { // a page and its counts
		page, err := store.List(b.Context(), filter)
		require.NoError(b, err)
		_, err = store.Counts(b.Context(), onboardingtest.OrgID, "ada")
		require.NoError(b, err)
		rows += len(page)
		filter.Before = nil
		if len(page) == filter.Limit {
			filter.Before = &tickets.Place{At: page[49].LastTextAt, ID: page[49].ID}
		}
	}
	require.NotZero(b, rows)
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
}
