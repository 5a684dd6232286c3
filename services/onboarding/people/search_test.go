package people_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/schema"
)

// TestSearchBehindTheNewest finds people who are not among the newest 5,000, along the index, and none of another organisation.
func TestSearchBehindTheNewest(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	org, other := uuid.NewString(), uuid.NewString()
	_, err := pool.Exec(t.Context(), `
insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
select lpad(to_hex(n), 32, '0')::uuid, case when n = 2 then $2::uuid else $1::uuid end, '+5511' || 987650000 + n,
    case when n < 3 then 'João Pedro' else 'Ana' || n % 97 end, 'en', 'UTC', now(), now()
from generate_series(1, 6000) n`, org, other)
	require.NoError(t, err)
	_, err = pgtest.Owner(t, pool).Exec(t.Context(), `vacuum analyze profiles`)
	require.NoError(t, err)
	store := people.NewStore(pool)
	ctx := postgres.ForOrganisation(t.Context(), org)
	for _, tt := range []struct {
		name string
		in   people.ProfileFilter
		want int
	}{
		{name: "ByAPartOfAName", in: people.ProfileFilter{Part: "AO PED"}, want: 1},
		{name: "ByTheLastDigits", in: people.ProfileFilter{Digits: "650001"}, want: 1},
		{name: "OfAnotherOrganisation", in: people.ProfileFilter{Digits: "87650002"}},
		{name: "WithAnotherFilter", in: people.ProfileFilter{Part: "pedro", Held: true}},
		{name: "ByAPartThatManyHave", in: people.ProfileFilter{Part: "na1"}, want: 50},
	} {
		tt.in.OrgID, tt.in.Limit = org, 50
		found, _, err := store.ListProfiles(ctx, tt.in)
		require.NoError(t, err, tt.name)
		require.Len(t, found, tt.want, tt.name)
	}

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	rows, err := tx.Query(t.Context(), `set local role onboarding_worker`)
	require.NoError(t, err)
	rows.Close()
	rows, err = tx.Query(t.Context(), `explain (analyze, costs off, timing off, summary off) select id from profiles where org_id = $1
    and search_pieces(org_id, name_key, phone) @> search_pieces($1, key_of_name('OÃO'), '')`, org)
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Regexp(t, `profiles_search_by_org \(actual rows=1(\.00)? `, strings.Join(plan, "\n"), "one of the two people of that name is read")
}
