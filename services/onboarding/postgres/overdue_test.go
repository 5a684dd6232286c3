package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/postgres"
)

// waitingPeople are @people in their bursts, whose alarms are due at @due and as this release, or the one before, writes them.
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

	t.Run("R_14_TwentyThousandWhoWaitAreNotReadForTheFewThatAreOverdue", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, postgres.Migrations())
		for _, sql := range []string{
			`alter table conversation_sessions set (autovacuum_enabled = off)`, `alter table step_alarms set (autovacuum_enabled = off)`,
			`analyze conversation_sessions`, `analyze step_alarms`,
		} {
			_, err := pool.Exec(t.Context(), sql)
			require.NoError(t, err)
		}
		people(t, pool, 20_000, 5_000_000_000, now.Add(8*time.Second))
		people(t, pool, 5, 6_000_000_000, now.Add(-2*time.Minute))
		found, err := postgres.NewStore(pool).Overdue(t.Context(), 256, 4, time.Minute, now)
		require.NoError(t, err)
		require.Len(t, found, 5)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		_, err = tx.Exec(t.Context(), postgres.SQLPlannedNow)
		require.NoError(t, err)
		plan := explain(t, tx, postgres.SQLOverdue, pgx.NamedArgs{
			"grace": time.Minute, "now": now, "limit": 256, "reach": postgres.OverdueReach, "doublings": 4,
		})
		require.Less(t, plan.Plan.Hit+plan.Plan.Read, 200)
	})

	t.Run("R_14_AnAlarmOfTheReleaseBeforeIsFoundToo", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, postgres.Migrations())
		people(t, pool, 1, 5_000_000_000, now.Add(-time.Minute)) // its session knows nothing of when the step is due
		found, err := postgres.NewStore(pool).Overdue(t.Context(), 256, 4, time.Minute, now)
		require.NoError(t, err)
		require.Len(t, found, 1)
	})
}

// plannedGoals are @goals that are due at @due, on one device.
const plannedGoals = `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    values (gen_random_uuid(), @org, '+15550100', 'Ada', 'en', 'UTC', @at, @at) returning id
), d as (
    insert into devices (id, org_id, profile_id, name, kind, created_at, updated_at)
    select gen_random_uuid(), @org, id, 'phone', 'phone', @at, @at from p returning id, profile_id
)
insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, status, scheduled_for, scheduled_delay,
    created_by, created_at, updated_at)
select gen_random_uuid(), @org, profile_id, d.id, 'rest', 'key-' || g, 'milk', 'milk', 'en', 'scheduled', @due, 0, 'user', @at, @at
from d, generate_series(1, @goals::int) g`

func TestOverdueGoals(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	t.Run("GoalsThatWaitForTheirTimeAreNotReadForTheFewThatAreOverdue", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, postgres.Migrations())
		_, err := pool.Exec(t.Context(), `alter table goals set (autovacuum_enabled = off)`)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `analyze goals`)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), plannedGoals, pgx.NamedArgs{"org": uuid.Nil, "goals": 20_000, "at": now.Add(-time.Hour), "due": now.Add(time.Hour)})
		require.NoError(t, err)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		_, err = tx.Exec(t.Context(), postgres.SQLPlannedNow)
		require.NoError(t, err)
		plan := explain(t, tx, postgres.SQLOverdueGoals, pgx.NamedArgs{
			"now": now, "grace": time.Minute, "doublings": 4, "busy": time.Hour, "lease": time.Minute, "limit_of_run": time.Hour, "limit": 256,
			"reach": postgres.GoalReach,
		})
		require.Less(t, plan.Plan.Hit+plan.Plan.Read, 200)
		require.Nil(t, plan.JIT, "compiling it takes longer than everything that it does")
	})
}

type plan struct {
	Plan struct {
		Hit  int `json:"Shared Hit Blocks"`
		Read int `json:"Shared Read Blocks"`
	}
	JIT any
}

func explain(t *testing.T, tx pgx.Tx, sql string, args pgx.NamedArgs) plan {
	t.Helper()
	var explained []byte
	require.NoError(t, tx.QueryRow(t.Context(), "explain (analyze, buffers, format json) "+sql, args).Scan(&explained))
	var plans []plan
	require.NoError(t, json.Unmarshal(explained, &plans))
	return plans[0]
}
