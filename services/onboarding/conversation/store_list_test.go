package conversation_test

import (
	"cmp"
	"context"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	room "paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/session"
)

// manyPeople are @people of whom every thousandth is parked, stopped, closed or was never activated, and every other one is in the middle
// of a
//
//	The rare ones are the oldest, so that a query that looks for them among the newest reads all people.
const manyPeople = `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, hold, opted_out_at, created_at, updated_at)
    select lpad(to_hex(n), 32, '0')::uuid, @org, '+1415' || 1000000 + n, case when n <= 40 then 'Zuleika' else 'Ana' || n % 97 end,
        case when n between 11 and 30 then 'pt-BR' else 'en' end, 'UTC', n <= 8, case when n between 11 and 20 then @at::timestamptz end, @at, @at
    from generate_series(1, @people::int) n
    returning id, org_id
)
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
select gen_random_uuid(), p.org_id, p.id, 'onboarding', 'onboarding:awaiting_opening_response',
    case when n <= 5 then 'stuck' when n <= 10 then 'undeliverable' when n <= 20 then 'stopped' when n <= 30 then 'closed' else 'active' end, 'v', @at, @at
from p join (select n, lpad(to_hex(n), 32, '0')::uuid as id from generate_series(1, @people::int) n) k using (id) where n not between 31 and 40`

// TestListsOfManyPeople holds the lists of an operator to reading about as much as they show, whatever the number of people.
func TestListsOfManyPeople(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(pgtest.URL(t, schema.Migrations()))
	require.NoError(t, err)
	l := &listener{}
	cfg.ConnConfig.Tracer, cfg.MaxConns = l, 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	org, now := uuid.NewString(), time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	_, err = pool.Exec(t.Context(), manyPeople, pgx.NamedArgs{"org": org, "people": 30_000, "at": now})
	require.NoError(t, err)
	for _, table := range []string{"profiles", "conversation_sessions"} {
		_, err := pgtest.Owner(t, pool).Exec(t.Context(), `vacuum analyze `+table)
		require.NoError(t, err)
	}
	store := onboarding.NewStores(pool)
	operator := asked{
		sql: `select set_config('role', 'onboarding_tenant', true), set_config('app.current_org_id', $1, true)`, args: []any{org},
	}
	people := func(f room.ProfileFilter) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			f.OrgID, f.Limit = org, 50
			found, _, err := store.ListProfiles(ctx, f)
			return len(found), err
		}
	}
	sessions := func(statuses ...session.Status) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			found, err := store.ListSessions(ctx, conversation.SessionFilter{OrgID: org, Statuses: statuses, Limit: 51})
			return len(found), err
		}
	}
	for _, tt := range []struct {
		name string
		ask  func(context.Context) (int, error)
		want int
		most int // how many blocks a question may read; 1000 when it is not said
	}{
		{name: "All", ask: people(room.ProfileFilter{}), want: 50},
		{name: "ByPhone", ask: people(room.ProfileFilter{Phone: "+14151000042"}), want: 1},
		{name: "ByACommonName", ask: people(room.ProfileFilter{Name: "a"}), want: 50, most: 12_000},
		{name: "ByARareNameWithAnAccent", ask: people(room.ProfileFilter{Name: "zülei"}), want: 40},
		{name: "ByARareName", ask: people(room.ProfileFilter{Name: "ZULEI"}), want: 40},
		{name: "ByAnUnknownName", ask: people(room.ProfileFilter{Name: "x"})},
		{name: "NeverActivated", ask: people(room.ProfileFilter{NotActivated: true}), want: 10},
		{name: "Held", ask: people(room.ProfileFilter{Held: true}), want: 8},
		{name: "Active", ask: people(room.ProfileFilter{Newest: []session.Status{session.Active}}), want: 50},
		{name: "Stopped", ask: people(room.ProfileFilter{Newest: []session.Status{session.Stopped}}), want: 10},
		{name: "Parked", ask: people(room.ProfileFilter{Newest: []session.Status{session.Stuck, session.Undeliverable}}), want: 10},
		{name: "ARareNameThatIsActive", ask: people(room.ProfileFilter{Name: "zu", Newest: []session.Status{session.Active}})},
		{name: "HeldWhoWereStopped", ask: people(room.ProfileFilter{Held: true, Newest: []session.Status{session.Stopped}})},
		{name: "OptedOut", ask: people(room.ProfileFilter{OptedOut: true}), want: 10},
		{name: "ALanguage", ask: people(room.ProfileFilter{Locale: "en"}), want: 50},
		{name: "ARareLanguage", ask: people(room.ProfileFilter{Locale: "pt-BR"}), want: 20},
		{name: "ALanguageOfTheActive", ask: people(room.ProfileFilter{Locale: "en", Newest: []session.Status{session.Active}}), want: 50},
		{name: "SessionsThatWereStopped", ask: sessions(session.Stopped), want: 10},
		{name: "SessionsOfTwoStatuses", ask: sessions(session.Closed, session.Active), want: 51},
	} {
		l.heard = nil
		found, err := tt.ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, tt.want, found, tt.name)
		for _, q := range questions(l.heard) {
			read, plan := blocksRead(t, pool, append([]asked{operator}, q...))
			require.Less(t, read, cmp.Or(tt.most, 1_000), "%s\n%s", tt.name, plan)
		}
	}

	// With two filters that many pass, and few pass both, a page has those found among a limited number of people.
	l.heard = nil
	found, next, err := store.ListProfiles(t.Context(), room.ProfileFilter{
		OrgID: org, Locale: "pt-BR", Newest: []session.Status{session.Active}, Limit: 50,
	})
	require.NoError(t, err)
	require.Empty(t, found)
	require.NotEmpty(t, next)
	for _, q := range questions(l.heard) {
		read, plan := blocksRead(t, pool, append([]asked{operator}, q...))
		require.Less(t, read, 50_000, plan)
	}
}

// questions lists the questions that were heard, each with the settings that were sent ahead of it.
func questions(heard []asked) (each [][]asked) {
	var settings []asked
	for _, q := range heard {
		if strings.Contains(q.sql, "set_config") {
			settings = append(settings, q)
		} else if strings.Contains(q.sql, "select") {
			each = append(each, append(slices.Clone(settings), q))
		}
	}
	return each
}

// blocksRead runs questions in one transaction, the last of them explained: how many blocks it read, and how.
func blocksRead(t *testing.T, pool *pgxpool.Pool, questions []asked) (blocks int, plan string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	questions = slices.DeleteFunc(questions, func(q asked) bool { return !strings.Contains(q.sql, "select") })
	for _, q := range questions[:len(questions)-1] {
		_, err := tx.Exec(t.Context(), q.sql, q.args...)
		require.NoError(t, err)
	}
	last := questions[len(questions)-1]
	rows, err := tx.Query(t.Context(), `explain (analyze, buffers, costs off, timing off) `+last.sql, last.args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan = strings.Join(lines, "\n")
	shared := regexp.MustCompile(`(?m)^  Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`).FindStringSubmatch(plan)
	require.NotNil(t, shared, plan)
	for _, n := range shared[1:] {
		if n == "" {
			continue
		}
		count, err := strconv.Atoi(n)
		require.NoError(t, err)
		blocks += count
	}
	return blocks, plan
}

// before is the schema of the release before a migration.
func before(t *testing.T, number string) platform.Migrations {
	t.Helper()
	m, older := schema.Migrations(), fstest.MapFS{}
	files, err := fs.Glob(m.FS, "*.sql")
	require.NoError(t, err)
	for _, name := range files {
		if name < number {
			content, err := fs.ReadFile(m.FS, name)
			require.NoError(t, err)
			older[name] = &fstest.MapFile{Data: content}
		}
	}
	m.FS = older
	return m
}

func TestPeopleWhoWereThereBeforeTheListsAreInThem(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, platform.Migrations{})
	require.NoError(t, before(t, "0025").Up(t.Context(), url))
	pool, err := platform.Open(t.Context(), platform.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	org := uuid.NewString()
	_, err = pool.Exec(t.Context(), `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    select lpad(to_hex(n), 32, '0')::uuid, $1::uuid, '+1415' || 1000000 + n, 'ÁNA', 'en', 'UTC', $2::timestamptz, $2 from generate_series(1, 1200) n
    returning id
)
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
select lpad(to_hex(n), 32, '0')::uuid, $1, lpad(to_hex(n % 1100 + 1), 32, '0')::uuid, 'onboarding', 'onboarding:awaiting_opening_response',
    case when n > 1050 then 'active' else 'closed' end, 'v', $2, $2
from generate_series(1, 2150) n`, org, time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.NoError(t, schema.Migrations().Up(t.Context(), url))
	store := onboarding.NewStores(pool)
	for _, tt := range []struct {
		name string
		in   room.ProfileFilter
		want int
	}{
		{name: "All", want: 1200},
		{name: "ByName", in: room.ProfileFilter{Name: "án"}, want: 1200},
		{name: "NeverActivated", in: room.ProfileFilter{NotActivated: true}, want: 100},
		{name: "Active", in: room.ProfileFilter{Newest: []session.Status{session.Active}}, want: 1100},
		{name: "Closed", in: room.ProfileFilter{Newest: []session.Status{session.Closed}}},
	} {
		tt.in.OrgID, tt.in.Limit = org, 2000
		found, _, err := store.ListProfiles(t.Context(), tt.in)
		require.NoError(t, err)
		require.Len(t, found, tt.want, tt.name)
	}
}

// TestNamesAreFoundWithoutAccents also checks the names of the release before: the one with its accent apart is composed.
func TestNamesAreFoundWithoutAccents(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, platform.Migrations{})
	require.NoError(t, before(t, "0041").Up(t.Context(), url))
	pool, err := platform.Open(t.Context(), platform.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	org, store := uuid.NewString(), onboarding.NewStores(pool)
	enrol := func(names ...string) {
		_, err := pool.Exec(t.Context(), `
insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
select gen_random_uuid(), $1, '+1415' || 1000000 + (select count(*) from profiles) + n, name, 'en', 'UTC', now(), now()
from unnest($2::text[]) with ordinality u (name, n)`, org, names)
		require.NoError(t, err)
	}
	enrol("João", "Jose\u0301", "Ana")
	require.NoError(t, schema.Migrations().Up(t.Context(), url))
	enrol("JOÃO", "Joao", "Joa\u0303o P", "Łukasz", "Søren", "D’Ângelo", "İpek", "Straße", "Андрей", "Ｊｏａｏ", "김")

	joao := []string{"JOÃO", "Joao", "Joa\u0303o P", "João", "Ｊｏａｏ"}
	for name, want := range map[string][]string{
		"joao": joao, "joão": joao, "JOÃO": joao, "joa\u0303o": joao, "jóa": joao,
		"jose": {"José"}, "josé": {"José"}, "lukasz": {"Łukasz"}, "soren": {"Søren"}, "d'angelo": {"D’Ângelo"}, "d’Â": {"D’Ângelo"},
		"ipek": {"İpek"}, "strass": {"Straße"}, "STRASSE": {"Straße"}, "андреи": {"Андрей"}, "김": {"김"}, "oao": nil, "joaa": nil, "jo%o": nil,
	} {
		found, _, err := store.ListProfiles(t.Context(), room.ProfileFilter{OrgID: org, Name: name, Limit: 50})
		require.NoError(t, err)
		var got []string
		for _, p := range found {
			got = append(got, p.FirstName)
		}
		slices.Sort(got)
		require.Equal(t, want, got, name)
	}
}

// TestKeysOfNames holds that the key of a name depends on nothing but the name, as an index needs it.
func TestKeysOfNames(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	var volatile string
	require.NoError(t, pool.QueryRow(t.Context(), `select provolatile::text from pg_proc where proname = 'key_of_name'`).Scan(&volatile))
	require.Equal(t, "i", volatile)
	for _, collation := range []string{"C", "POSIX", "ucs_basic", "C.utf8", "en-x-icu", "tr-x-icu"} {
		rows, err := pool.Query(t.Context(), `
select distinct key_of_name(name collate `+pgx.Identifier{collation}.Sanitize()+`) from unnest(array['João', 'JOÃO', U&'JOA\0303O', 'joao', 'JOAO']) name`)
		require.NoError(t, err)
		keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Equal(t, []string{"joao"}, keys, collation)
	}
}
