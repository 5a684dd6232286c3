package postgres_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/postgres"
)

// household makes a row of one organisation in every table.
const household = `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    values (gen_random_uuid(), @org, '+15005550001', 'Ada', 'en', 'UTC', @at, @at) returning id
), s as (
    insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
    select gen_random_uuid(), @org, p.id, 'onboarding', 'onboarding:awaiting_opening_response', 'active', 'v', @at, @at from p
    returning id, profile_id
), j as (
    insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
    values (gen_random_uuid(), @org, 'k', 'internal', 'e', 's', '{}', 'pending', @at, @at, @at) returning id
), t as (
    insert into session_transitions (session_id, at, kind, trigger) select id, @at, 'activated', 'activation' from s
), h as (
    insert into held_replies (job_id, session_id, turn, received_at) select j.id, s.id, 0, @at from j, s
), a as (
    insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_until, created_at)
    select gen_random_uuid(), @org, id, profile_id, 'onboarding_message_1', 'x', 1, @at, @at, @at from s
), o as (
    insert into organisation_settings (org_id, updated_at) values (@org, @at)
), w as (
    insert into inbound_audits (org_id, sender, swept_until, due_at) values (@org, '+15005550006', @at, @at)
)
insert into dead_letters (id, org_id, source_message_id, dlq_id, payload, status, response, retried, created_at)
values (gen_random_uuid(), @org, 'msg' || @org, 'd', '', 500, '', 5, @at)`

func TestTenants(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, postgres.Migrations())
	pool, err := platform.Open(t.Context(), platform.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	orgs := [2]string{uuid.NewString(), uuid.NewString()}
	for _, org := range orgs {
		_, err := pool.Exec(t.Context(), household, pgx.NamedArgs{"org": org, "at": "2026-11-21T12:00:00Z"})
		require.NoError(t, err)
	}
	_, err = pool.Exec(t.Context(), `insert into delivery_reservations (key, state, owner, expires_at) values ('k', 'done', 'o', now())`)
	require.NoError(t, err)
	const ofSession = "session_id in (select id from conversation_sessions where org_id = $1)"
	pgtest.CheckTenants(t, "S2_19_S2_20", pgtest.Tenants{
		URL: url, Service: "onboarding", Orgs: orgs, Shared: []string{"delivery_reservations"},
		Rows: map[string]string{"session_transitions": ofSession, "held_replies": ofSession},
	})
}
