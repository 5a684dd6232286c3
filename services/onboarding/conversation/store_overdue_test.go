package conversation_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/overview"
	"paceline.internal/services/onboarding/schema"
)

// waitingPeople stores @people in their bursts, with alarms due at @due, as this release, or the one before, writes them.
const waitingPeople = `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    select gen_random_uuid(), @org, '+1' || (@from::bigint + g), 'Ada', 'en', 'UTC', @at, @at from generate_series(1, @people::int) g returning id
), s as (
    insert into conversation_sessions
        (id, org_id, profile_id, mode, state_token, next_step_id, status, copy_version, created_at, updated_at)
    select gen_random_uuid(), @org, p.id, 'onboarding', 'onboarding:awaiting_burst', 'onboarding_message_2', 'active', 'v', @at, @at from p
    returning id, profile_id
)
insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_until, published_at,
    qstash_message_id, created_at)
select gen_random_uuid(), @org, id, profile_id, 'onboarding_message_2', 'onboarding:awaiting_burst', 1, @due, @at, @at, 'm' || id, @at from s`

func TestOverdue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	people := func(t *testing.T, pool *pgxpool.Pool, n int, from int64, due time.Time) {
		t.Helper()
		_, err := pool.Exec(t.Context(), waitingPeople, pgx.NamedArgs{"org": uuid.Nil, "people": n, "from": from, "at": now.Add(-time.Hour), "due": due})
		require.NoError(t, err)
	}

	t.Run("R_14_ThousandsWhoWaitAreNotReadForTheFewThatAreOverdue", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		pool := pgtest.New(t, schema.Migrations())
		owner := pgtest.Owner(t, pool)
		for _, sql := range []string{
			`alter table conversation_sessions set (autovacuum_enabled = off)`, `alter table step_alarms set (autovacuum_enabled = off)`,
			`analyze conversation_sessions`, `analyze step_alarms`,
		} {
			_, err := owner.Exec(t.Context(), sql)
			require.NoError(t, err)
		}
		people(t, pool, 5_000, 5_000_000_000, now.Add(8*time.Second))
		people(t, pool, 5, 6_000_000_000, now.Add(-2*time.Minute))
		found, err := onboarding.NewStores(pool).Overdue(t.Context(), 256, 4, time.Minute, now)
		require.NoError(t, err)
		require.Len(t, found, 5)
		require.Less(t, blocksOf(t, pool, conversation.SQLOverdue, pgx.NamedArgs{
			"grace": time.Minute, "now": now, "limit": 256, "reach": conversation.OverdueReach, "doublings": 4,
		}), 200)
	})

	t.Run("R_14_TwentyThousandWhoAreOverdueAreNotReadForTheFirstOfThemOrForAScrape", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		pool := pgtest.New(t, schema.Migrations())
		people(t, pool, 20_000, 5_000_000_000, now.Add(-2*time.Minute))
		for _, table := range []string{"conversation_sessions", "step_alarms", "profiles"} {
			_, err := pgtest.Owner(t, pool).Exec(t.Context(), `vacuum analyze `+table)
			require.NoError(t, err)
		}
		require.Less(t, blocksOf(t, pool, conversation.SQLOverdue, pgx.NamedArgs{
			"grace": time.Minute, "now": now, "limit": 256, "reach": conversation.OverdueReach, "doublings": 4,
		}), 10_000)
		require.Less(t, blocksOf(t, pool, overview.SQLGauges, pgx.NamedArgs{
			"now": now, "overdue": now.Add(-time.Minute), "most": 100_000, "kept": false,
		}), 20_000)
		gauges, err := onboarding.NewStores(pool).Overviews().Gauges(t.Context(), now)
		require.NoError(t, err)
		require.Equal(t, []any{20_000, 2 * time.Minute}, []any{gauges.InBurst, gauges.Lag})
		require.Positive(t, gauges.Overdue)
	})

	t.Run("R_14_AnAlarmOfTheReleaseBeforeIsFoundToo", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, schema.Migrations())
		people(t, pool, 1, 5_000_000_000, now.Add(-time.Minute)) // its session knows nothing of when the step is due
		found, err := onboarding.NewStores(pool).Overdue(t.Context(), 256, 4, time.Minute, now)
		require.NoError(t, err)
		require.Len(t, found, 1)
	})
}

// sqlIndexed are the columns that an index of a table has, or has in its condition.
const sqlIndexed = `
select distinct a.attname::text from pg_index i
join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refclassid = 'pg_class'::regclass and d.refobjid = i.indrelid
join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
where i.indrelid = 'conversation_sessions'::regclass`

// TestSweepAt is about what lets the steps of a burst leave the indexes of their session alone.
func TestSweepAt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	_, err := pool.Exec(t.Context(), waitingPeople, pgx.NamedArgs{
		"org": uuid.Nil, "people": 1, "from": 5_000_000_000, "at": now, "due": now.Add(8 * time.Second),
	})
	require.NoError(t, err)

	rows, err := pool.Query(t.Context(), sqlIndexed)
	require.NoError(t, err)
	indexed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, column := range []string{"next_step_id", "turn", "updated_at", "step_due_at", "unavailable_at"} {
		require.NotContains(t, indexed, column, "every step changes it")
	}

	at := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	for _, tt := range []struct {
		name, set string
		want      *time.Time
	}{
		{name: "ABurstBegins", set: `turn = turn + 1`, want: at(8 * time.Second)},
		{name: "TheNextStepIsEightSecondsLater", set: `next_step_id = 'onboarding_message_3', step_due_at = '2026-11-22T12:00:16Z'`, want: at(8 * time.Second)},
		{name: "AStepIsDueAMinuteLater", set: `step_due_at = '2026-11-22T12:01:08Z'`, want: at(8 * time.Second)},
		{name: "AStepIsDueMoreThanAMinuteLater", set: `step_due_at = '2026-11-22T12:01:09Z'`, want: at(69 * time.Second)},
		{name: "AStepIsDueEarlier", set: `step_due_at = '2026-11-22T12:00:00Z'`, want: at(0)},
		{name: "TheSweeperLetsItRest", set: `sweep_at = '2026-11-22T12:30:00Z'`, want: at(30 * time.Minute)},
		{name: "WhatElseChangesWhileItRests", set: `unavailable_at = '2026-11-22T12:00:00Z'`, want: at(30 * time.Minute)},
		{name: "ItsStepIsDone", set: `step_due_at = '2026-11-22T12:10:00Z'`, want: at(10 * time.Minute)},
		{name: "ItIsParked", set: `status = 'stuck'`},
		{name: "ItIsResumed", set: `status = 'active'`, want: at(10 * time.Minute)},
		{name: "TheBurstEnds", set: `next_step_id = null, state_token = 'interview:activity_01'`},
	} {
		_, err := pool.Exec(t.Context(), `update conversation_sessions set `+tt.set)
		require.NoError(t, err)
		var got *time.Time
		require.NoError(t, pool.QueryRow(t.Context(), `select sweep_at from conversation_sessions`).Scan(&got))
		if tt.want == nil {
			require.Nil(t, got, tt.name)
			continue
		}
		require.NotNil(t, got, tt.name)
		require.Equal(t, *tt.want, got.UTC(), tt.name)
	}
}

// blocksOf counts the blocks that a statement of the sweeper reads, under the given settings.
func blocksOf(t *testing.T, pool *pgxpool.Pool, sql string, args pgx.NamedArgs, settings ...string) int {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	for _, set := range append([]string{`set local jit = on`, conversation.SQLPlannedNow}, settings...) { // pgtest switches it off
		_, err = tx.Exec(t.Context(), set)
		require.NoError(t, err)
	}
	var explained []byte
	require.NoError(t, tx.QueryRow(t.Context(), "explain (analyze, buffers, format json) "+sql, args).Scan(&explained))
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
		JIT any
	}
	require.NoError(t, json.Unmarshal(explained, &plans))
	require.Nil(t, plans[0].JIT, "compiling it takes longer than all that it reads")
	return plans[0].Plan.Hit + plans[0].Plan.Read
}
