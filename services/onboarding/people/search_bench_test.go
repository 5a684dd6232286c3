package people_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/schema"
)

// crowd seeds a million people of 20 first names and 65,536 last names. The index of the search is built once, behind them.
var crowd = []string{
	`alter table profiles disable trigger user`,
	`drop index profiles_search_by_org`,
	`insert into profiles (id, org_id, phone, first_name, name_key, locale, time_zone, created_at, updated_at)
select lpad(to_hex(n), 32, '0')::uuid, $1, '+55119' || lpad((n::bigint * 7919 % 100000000)::text, 8, '0'), name, key_of_name(name), 'en', 'UTC', $2, $2
from generate_series(1, 1000000) n cross join lateral (select ('{Ana,João,Maria,José,Luíza,Pedro,Inês,Tomás,Clara,Rui,Bia,Caio,Davi,Eva,Íris,Hugo,Lia,Noé,Olga,Yara}'::text[])[1 + n % 20]
    || ' ' || translate(substr(md5((n % 65536)::text), 1, 6), '0123456789', 'ghijklmnop') as name) m`,
	`create index profiles_search_by_org on profiles using gin (search_pieces(org_id, name_key, phone))`,
	`vacuum analyze profiles`,
}

// BenchmarkSearch finds people among a million (docs/performance.md): by what one has, what many have, and what nobody has.
func BenchmarkSearch(b *testing.B) {
	pool := pgtest.New(b, schema.Migrations())
	org, began := uuid.NewString(), time.Now() //nolint:forbidigo // the machine's
	owner := pgtest.Owner(b, pool)
	for _, sql := range crowd {
		var args []any
		if sql == crowd[2] {
			args = []any{org, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		}
		_, err := owner.Exec(b.Context(), sql, args...)
		require.NoError(b, err)
	}
	b.Logf("seeded in %v", time.Since(began)) //nolint:forbidigo // the machine's
	var name, phone string
	require.NoError(b, owner.QueryRow(b.Context(), `select key_of_name(first_name), substr(phone, 7) from profiles order by id limit 1`).Scan(&name, &phone))
	store, ctx := people.NewStore(pool), postgres.ForOrganisation(b.Context(), org)
	for _, q := range []struct {
		name string
		in   people.ProfileFilter
		some bool
	}{
		{name: "Name", in: people.ProfileFilter{Part: name}, some: true},
		{name: "PartOfAName", in: people.ProfileFilter{Part: name[len(name)-6:]}, some: true},
		{name: "NameOfMany", in: people.ProfileFilter{Part: "joao"}, some: true},
		{name: "Number", in: people.ProfileFilter{Digits: phone}, some: true},
		{name: "LastDigits", in: people.ProfileFilter{Digits: phone[4:]}, some: true},
		{name: "Nobody", in: people.ProfileFilter{Part: "zzyzx"}},
	} {
		q.in.OrgID, q.in.Limit = org, 50
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				found, _, err := store.ListProfiles(ctx, q.in)
				require.NoError(b, err)
				require.Equal(b, q.some, len(found) > 0)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
		})
	}
}
