package goals_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/schema"
)

// TestQueriesOfGoals asks the planner about what is asked of goals again and again, with statistics of a table in which nearly all is over.
// The lists are an operator's, bounded by the policies.
func TestQueriesOfGoals(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(pgtest.URL(t, schema.Migrations()))
	require.NoError(t, err)
	l := &pgtest.Listener{}
	cfg.ConnConfig.Tracer, cfg.MaxConns = l, 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	org, now := uuid.NewString(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, sql := range []string{
		`
		insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
		select md5('p' || n)::uuid, $1, '+1555' || n, 'Ana', 'en', 'UTC', $2, $2 from generate_series(1000000, 1000199) n`, `
		insert into devices (id, org_id, profile_id, name, kind, token_hash, created_at, updated_at, deleted_at)
		select md5('d' || n)::uuid, $1, md5('p' || 1000000 + n / 10)::uuid, n::text, 'stream', decode(md5('d' || n), 'hex'), $2, $2,
		    case when n % 100 = 0 then $2::timestamptz end
		from generate_series(0, 1999) n`, `
		insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, status, scheduled_for, scheduled_delay,
		    run_id, heard_at, started_at, ended_at, created_by, created_at, updated_at)
		select gen_random_uuid(), case when n % 2 = 0 then $1::uuid when n % 50 = 1 then md5($1::uuid::text)::uuid else gen_random_uuid() end, md5('p' || 1000000 + n % 200)::uuid, md5('d' || n % 2000)::uuid,
		    'rest', n::text, 's', 'g', 'en', s.status, at, 0, case when s.status = 'completed' then gen_random_uuid() end, at, at,
		    case when s.status <> 'scheduled' then at end, 'x', at, at
		from generate_series(1, 20000) n cross join lateral (select $2::timestamptz - n * interval '1 minute' as at, case
		    when n % 1000 = 0 then 'scheduled' when n % 1000 = 2 then 'failed' else 'completed' end as status) s`, `
		insert into goal_alarms (id, org_id, goal_id, generation, cause, due_at, lease_until, published_at, qstash_message_id, created_at)
		select gen_random_uuid(), org_id, id, 1, 'due', $2, $2, $2, $1::text, $2 from goals`, `
		insert into goal_transitions (org_id, profile_id, goal_id, at, to_status, event, actor)
		select org_id, profile_id, id, $2, 'scheduled', 'created', $1::text from goals`, `
		insert into goal_readings (org_id, profile_id, idempotency_key, reading, created_at)
		select $1, profile_id, idempotency_key, '{}', $2::timestamptz - interval '1 hour' from goals`,
	} {
		_, err := pool.Exec(t.Context(), sql, org, now)
		require.NoError(t, err)
	}
	_, err = pgtest.Owner(t, pool).Exec(t.Context(), `analyze profiles, devices, goals, goal_alarms, goal_transitions, goal_readings`)
	require.NoError(t, err)
	var person, device, few string // few has a fiftieth of the goals
	require.NoError(t, pool.QueryRow(t.Context(), `select md5($1::uuid::text)::uuid::text`, org).Scan(&few))
	require.NoError(t, pool.QueryRow(t.Context(), `select profile_id::text, device_id::text from goals where status = 'scheduled' and org_id = $1 limit 1`, org).
		Scan(&person, &device))
	store, operator := goals.NewStore(pool), pgtest.Asked{
		SQL: `select set_config('role', 'onboarding_tenant', true), set_config('app.current_org_id', $1, true)`, Args: []any{org},
	}
	list := func(f goals.GoalFilter) func(context.Context) error {
		return func(ctx context.Context) error {
			f.Limit = 21
			found, err := store.List(ctx, f)
			require.NotEmpty(t, found)
			return err
		}
	}
	for _, tt := range []struct {
		name       string
		ask        func(context.Context) error
		first      []pgtest.Asked // whoever sees the rows
		want, none []string
	}{
		{name: "AllGoalsOfAnOrganisation", ask: list(goals.GoalFilter{}), first: []pgtest.Asked{operator}, want: []string{"goals_by_org on"}, none: []string{"Sort Key: w.id"}},
		{name: "FailedGoalsOfAnOrganisation", ask: list(goals.GoalFilter{Status: "failed"}), first: []pgtest.Asked{operator}, want: []string{"goals_by_org_and_status"}},
		{name: "GoalsOfADevice", ask: list(goals.GoalFilter{DeviceID: device}), first: []pgtest.Asked{operator}, want: []string{"goals_by_device"}},
		{name: "GoalsOfAPerson", ask: list(goals.GoalFilter{ProfileID: person}), first: []pgtest.Asked{operator}, want: []string{"goals_by_profile"}},
		{
			name: "Gauges", ask: func(ctx context.Context) error { _, err := store.Gauges(ctx, now); return err },
			want: []string{"goals_due", "goal_alarms_unpublished"},
		},
		{
			name: "Retention", ask: func(ctx context.Context) error {
				_, err := store.Forget(ctx, retention.Part{But: []string{}, Before: now.Add(-600 * time.Hour)}, 100)
				return err
			},
			want: []string{"goals_over", "goals_one_undo", "goal_alarms_goal_id_generation_key", "goal_transitions_by_goal", "devices_deleted", "goals_by_device"},
		},
		{
			name: "RetentionOfAnOrganisation", ask: func(ctx context.Context) error {
				_, err := store.Forget(ctx, retention.Part{Org: few, Before: now.Add(-300 * time.Hour)}, 100)
				return err
			},
			want: []string{"goals_over_by_org", "goals_one_undo"},
		},
		{
			name: "RetentionOfAnOrganisationsDevices", ask: func(ctx context.Context) error {
				_, err := store.Forget(ctx, retention.Part{Org: few, Before: now.Add(time.Hour)}, 100)
				return err
			},
			want: []string{"devices_deleted_by_org"},
		},
	} {
		l.Heard = nil
		require.NoError(t, tt.ask(t.Context()))
		plan := pgtest.Explain(t, pool, "goal", append(tt.first, l.Heard...))
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.NotContains(t, plan, "Seq Scan on goal")
			for _, name := range tt.want {
				require.Contains(t, plan, name)
			}
			for _, name := range tt.none {
				require.NotContains(t, plan, name)
			}
		})
	}
}

// goalsOf are @count goals of each device that fell due at @due, with an alarm each.
const goalsOf = `
with g as (
    insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, status, reason, scheduled_for,
        scheduled_delay, ended_at, created_by, created_at, updated_at)
    select gen_random_uuid(), d.org_id, d.profile_id, d.id, 'rest', @status || n || d.id, 'x', 'x', 'en', @status,
        case @status when 'failed' then 'device_offline' else '' end, @due, 0,
        case @status when 'failed' then @due::timestamptz end, 'x', @due, @due
    from devices d, generate_series(1, @count::int) n returning id, org_id
)
insert into goal_alarms (id, org_id, goal_id, generation, cause, due_at, lease_until, published_at, qstash_message_id, created_at)
select gen_random_uuid(), org_id, id, 1, 'due', @due, @due, @due, 'm' || id, @due from g`

func TestOverdueGoals(t *testing.T) {
	t.Parallel()

	t.Run("GoalsThatHaveEndedAreNotReadForTheFewThatAreOverdue", func(t *testing.T) {
		t.Parallel()
		now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		pool := pgtest.New(t, schema.Migrations())
		cfg, l := pool.Config(), &pgtest.Listener{}
		cfg.ConnConfig.Tracer = l
		listened, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		defer listened.Close()
		owner := pgtest.Owner(t, pool) // for the statistics
		exec := func(sql string, args ...any) {
			_, err := owner.Exec(t.Context(), sql, args...)
			require.NoError(t, err)
		}
		exec(`alter table goals set (autovacuum_enabled = off)`)
		exec(`alter table goal_alarms set (autovacuum_enabled = off)`)
		exec(`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
values (gen_random_uuid(), $1, '+14155550001', 'Ada', 'en', 'UTC', $2, $2)`, uuid.Nil, now)
		exec(`insert into devices (id, org_id, profile_id, name, kind, token_hash, created_at, updated_at)
select gen_random_uuid(), org_id, id, 'door', 'stream', '\x00', created_at, created_at from profiles`)
		exec(`analyze goals, goal_alarms`)
		exec(goalsOf, pgx.NamedArgs{"count": 10_000, "status": "failed", "due": now.Add(-time.Hour)})
		exec(goalsOf, pgx.NamedArgs{"count": 5, "status": "scheduled", "due": now.Add(-time.Hour)})
		patience := goals.Patience{Grace: time.Minute, Doublings: 4, Busy: time.Hour, Lease: time.Minute, Limit: time.Hour}
		found, err := goals.NewStore(listened).Overdue(t.Context(), patience, 256, now)
		require.NoError(t, err)
		require.Len(t, found, 5)
		asked := l.Heard[len(l.Heard)-1]
		planned := pgtest.Blocks(t, pool, asked)
		all := pgtest.Blocks(t, pool, asked, `set local enable_indexscan = off`, `set local enable_indexonlyscan = off`, `set local enable_bitmapscan = off`)
		require.Less(t, 20*planned, all, "%d blocks, and %d without the indexes", planned, all)
	})
}
