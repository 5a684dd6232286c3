package onboarding_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/onboarding/schema"
)

// household makes a row of one person of an organisation in every table.
const household = `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    values (@profile, @org, @phone, 'Ada', 'en', 'UTC', @at, @at) returning id
), s as (
    insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
    select gen_random_uuid(), @org, p.id, 'onboarding', 'onboarding:awaiting_opening_response', 'active', 'v', @at, @at from p
    returning id, profile_id
), j as (
    insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
    values (gen_random_uuid(), @org, @profile, 'internal', 'e', 's', '{}', 'pending', @at, @at, @at) returning id
), aj as (
    insert into alarm_jobs (id, org_id, idempotency_key, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
    values (gen_random_uuid(), @org, @profile, 'onboarding-step', '', '{}', 'pending', @at, @at, @at)
), t as (
    insert into session_transitions (session_id, at, kind, trigger) select id, @at, 'activated', 'activation' from s
), h as (
    insert into held_replies (job_id, session_id, turn, received_at) select j.id, s.id, 0, @at from j, s
), a as (
    insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_until, created_at)
    select gen_random_uuid(), @org, id, profile_id, 'onboarding_message_1', 'x', 1, @at, @at, @at from s
), o as (
    insert into organisation_settings (org_id, updated_at) values (@org, @at) on conflict do nothing
), sv as (
    insert into settings_versions (org_id, version, at, settings) values (@org, 1, @at, '{}') on conflict do nothing
), z as (
    insert into scheduling_pauses (org_id, paused_at) values (@org, @at) on conflict do nothing
), w as (
    insert into inbound_sweeps (org_id, sender, swept_until, due_at) values (@org, '+15005550006', @at, @at) on conflict do nothing
), m as (
    insert into household_members (profile_id, org_id, household_id, created_at) select id, @org, @org, @at from p
), l as (
    insert into profile_fields (profile_id, org_id, name, value, private, updated_at) select id, @org, 'budget', '1', false, @at from p
), e as (
    insert into engagement_state_transitions (id, org_id, profile_id, to_state, trigger, cause, created_at)
    select gen_random_uuid(), @org, id, 'active', 'user_message', 'SM1', @at from p returning id, profile_id
), u as (
    insert into user_engagement_states (id, org_id, profile_id, last_activity_at, transition_id, created_at, updated_at)
    select gen_random_uuid(), @org, profile_id, @at, id, @at, @at from e
), q as (
    insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, priority, status, next_retry_at, profile_id, message_key,
        local_day, scheduled_for, expires_at, created_at, updated_at)
    select gen_random_uuid(), @org, id || ':welcome:2026-11-21', 'welcome', @phone, 0, 'pending', @at, id, 'engagementFirstMessage', '2026-11-21', @at,
        @at, @at, @at from p
), x as (
    insert into engagement_actions (id, org_id, profile_id, cause, action, source, occurred_at, answer, created_at)
    select gen_random_uuid(), @org, id, 'action:k', 'add_expense', 'web', @at, '{}', @at from p
), r as (
    insert into engagement_runs (id, org_id, job, period, nominal_at, status, config_hash, created_at, updated_at)
    values (gen_random_uuid(), @org, 'daily', '2026-11-21', @at, 'running', 'c', @at, @at) on conflict do nothing
), d as (
    insert into devices (id, org_id, profile_id, name, kind, created_at, updated_at) select gen_random_uuid(), @org, id, 'phone', 'phone', @at, @at from p
    returning id, profile_id
), g as (
    insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, status, scheduled_for, scheduled_delay, created_by,
        created_at, updated_at)
    select gen_random_uuid(), @org, profile_id, id, 'rest', 'k', 's', 'g', 'en', 'scheduled', @at, 0, 'x', @at, @at from d returning id, profile_id
), b as (
    insert into goal_alarms (id, org_id, goal_id, generation, cause, due_at, lease_until, created_at)
    select gen_random_uuid(), @org, id, 1, 'due', @at, @at, @at from g
), c as (
    insert into goal_transitions (org_id, profile_id, goal_id, at, to_status, event, actor)
    select @org, profile_id, id, @at, 'scheduled', 'created', 'x' from g
), f as (
    insert into goal_readings (org_id, profile_id, idempotency_key, reading, created_at) select @org, id, 'k', '{}', @at from p
), v as (
    insert into event_outbox (event_id, org_id, type, subject, time) select gen_random_uuid(), @org, 'engagement.state_changed', id::text, @at from p
), au as (
    insert into audit (id, at, org_id, subject, role, client_address, request_id, method)
    values (gen_random_uuid(), @at, @org, 'ada', 'operator', '192.0.2.7', 'r', 'm')
), er as (
    insert into erasures (profile_id, org_id, pseudonym, source, requested_at, next_try_at) values (@profile, @org, 'erased:1', 'operator', @at, @at)
), ev as (
    insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
    select coalesce((select max(seq) from events), 0) + 1, gen_random_uuid(), @org, 'engagement.state_changed', id::text, @at, '', '{}', @at from p
), es as (
    insert into event_log_starts (org_id, deleted_seq) values (@org, 1) on conflict do nothing
), eu as (
    insert into event_subscriptions (id, org_id, url, types, include, secret, status, cursor_seq, created_at, updated_at)
    values (gen_random_uuid(), @org, 'https://example.com/', '{}', '{}', sha256('s'), 'active', 0, @at, @at) returning id
), fv as (
    insert into flow_versions (org_id, flow, version, files, keywords, published_at)
    values (@org, 'welcome', '0123456789abcdef', '{}', '{}', @at) on conflict do nothing
), fc as (
    insert into flow_counts (org_id, flow, began_at, step) values (@org, 'welcome', @at, @profile::text) on conflict do nothing
), fcc as (
    insert into flow_count_changes (org_id, flow, began_at, step) values (@org, 'welcome', @at, 'ask')
), fp as (
    insert into flow_publications (org_id, flow, number, version, published_at)
    values (@org, 'welcome', 1, '0123456789abcdef', @at) on conflict do nothing
), fd as (
    insert into flow_drafts (org_id, flow, version, revision, texts, changed_at)
    values (@org, 'welcome', '0123456789abcdef', 1, '{}', @at) on conflict do nothing
), ti as (
    insert into tickets (id, org_id, profile_id, status, reason, last_text_at, opened_at) select gen_random_uuid(), @org, id, 'open', 'asked', @at, @at from p
    returning id, profile_id
), ta as (
    insert into ticket_answers (id, org_id, profile_id, ticket_id, idempotency_key, body, author, status, created_at)
    select gen_random_uuid(), @org, profile_id, id, id::text, 'Hi', 'ada', 'sent', @at from ti
), tn as (
    insert into ticket_notes (id, org_id, ticket_id, idempotency_key, body, author, created_at)
    select gen_random_uuid(), @org, id, 'n-1', 'Called.', 'ada', @at from ti
), sr as (
    insert into saved_replies (id, org_id, title, body, created_at, updated_at, updated_by)
    values (gen_random_uuid(), @org, @phone, 'Hi', @at, @at, 'ada')
), fr as (
    insert into flow_runs (id, org_id, flow, flow_version, status, filtering, request_hash, created_at, updated_at)
    select gen_random_uuid(), @org, 'welcome', '0123456789abcdef', 'running', false, '', @at, @at from p returning id
), frp as (
    insert into flow_run_people (run_id, profile_id, org_id, status, due_at) select fr.id, p.id, @org, 'waiting', @at from fr, p
), og as (
    insert into organisations (org_id, name, status, wanted, changed_at, created_at) values (@org, 'Ada', 'active', 'active', @at, @at) on conflict do nothing
), ak as (
    insert into api_keys (id, org_id, name, role, sha256, ends_with, created_at)
    values (gen_random_uuid(), @org, 'shop', 'app', sha256(@profile::text::bytea), 'abcd', @at)
), ed as (
    insert into event_deliveries (id, org_id, idempotency_key, event_type, subject, payload, status, max_attempts, created_at, updated_at, subscription_id,
        seq, type)
    select gen_random_uuid(), @org, id::text, 'delivery', 's', '{}', 'pending', 1, @at, @at, id, 1, 'engagement.state_changed' from eu
)
insert into dead_letters (id, org_id, source_message_id, dlq_id, payload, status, response, retried, created_at)
values (gen_random_uuid(), @org, 'msg' || @profile, 'd', '', 500, '', 5, @at)`

// inhabited is a database that holds two persons of one organisation and one of another, each with a row in every table.
func inhabited(t *testing.T) (url string, pool *pgxpool.Pool, orgs [2]string, people []string) {
	t.Helper()
	url = pgtest.URL(t, schema.Migrations())
	pool, err := platform.Open(t.Context(), platform.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	orgs = [2]string{uuid.NewString(), uuid.NewString()}
	for i, org := range []string{orgs[0], orgs[0], orgs[1]} {
		people = append(people, uuid.NewString())
		_, err := pool.Exec(t.Context(), household, pgx.NamedArgs{
			"org": org, "profile": people[i], "phone": "+1500555000" + strconv.Itoa(i), "at": "2026-11-21T12:00:00Z",
		})
		require.NoError(t, err)
	}
	_, err = pool.Exec(t.Context(), `insert into delivery_reservations (key, state, owner, expires_at) values ('k', 'done', 'o', now())`)
	require.NoError(t, err)
	return url, pool, orgs, people[:2]
}

// Also: S4-07.
func TestTenants(t *testing.T) {
	t.Parallel()
	url, _, orgs, people := inhabited(t)
	const ofSession, ofPerson = "session_id in (select id from conversation_sessions where org_id = $1)", "profile_id = $1"
	const ofTheirSession = "session_id in (select id from conversation_sessions where profile_id = $1)"
	pgtest.CheckTenants(t, "S2_19_S2_20", pgtest.Tenants{
		URL: url, Service: "onboarding", Orgs: orgs, Shared: []string{"delivery_reservations", "device_nodes", "event_types", "event_feed", "histories", "beats", "restores"},
		Rows:   map[string]string{"session_transitions": ofSession, "held_replies": ofSession},
		People: people,
		Person: map[string]string{
			"profiles": "id = $1", "conversation_sessions": ofPerson, "session_transitions": ofTheirSession, "held_replies": ofTheirSession,
			"step_alarms": ofPerson, "household_members": ofPerson, "profile_fields": ofPerson, "user_engagement_states": ofPerson, "engagement_state_transitions": ofPerson,
			"devices": ofPerson, "goals": ofPerson, "goal_transitions": ofPerson,
		},
		AppendOnly: []string{"session_transitions", "engagement_state_transitions", "flow_versions", "flow_publications"},
		Kept:       []string{"erasures", "organisations", "flow_versions", "flow_publications"},
		ReadOnly:   []string{"devices", "goals", "goal_transitions", "household_members", "profile_fields", "user_engagement_states", "engagement_state_transitions"},
		Open:       []string{"organisations", "organisation_settings", "inbound_sweeps", "scheduling_pauses"},
	})
}

// TestErasuresAreEndedByTheFunctionAlone: the service cannot say that a person was erased, nor change who asked for it.
func TestErasuresAreEndedByTheFunctionAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, schema.Migrations())
	_, err := db.Exec(t.Context(), `insert into erasures (profile_id, org_id, pseudonym, source, requested_at, next_try_at)
		values (gen_random_uuid(), gen_random_uuid(), 'erased:1', 'operator', now(), now())`)
	require.NoError(t, err)
	for _, sql := range []string{
		`update erasures set erased_at = now(), next_try_at = null`, `update erasures set requested_by = null`, `update erasures set pseudonym = 'x'`,
		`insert into erasures (profile_id, org_id, pseudonym, source, requested_at, erased_at)
			values (gen_random_uuid(), gen_random_uuid(), 'erased:2', 'operator', now(), now())`,
	} {
		_, err = db.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "permission denied", sql)
	}
}

// TestNamesInAJob is about how a number is written: what an erasure finds, and what docs/security-and-privacy.md says it does not.
func TestNamesInAJob(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, schema.Migrations())
	const us, brazil, mexico = "+14155550181", "+5511987654321", "+525512345678"
	for _, tt := range []struct {
		phone, words string
		missed       bool
	}{
		{phone: us, words: "+14155550181"},
		{phone: us, words: "call +1 (415) 555-0181 today"},
		{phone: us, words: "1-415-555-0181"},
		{phone: us, words: "room 2 1 (415) 555-0181"},
		{phone: us, words: "+1 415 555 0181 2nd floor"},
		{phone: us, words: "0014155550181"},
		{phone: us, words: "001-415-555-0181"},
		{phone: us, words: "011 1 415 555 0181"},
		{phone: us, words: "+1_415_555_0181"},
		{phone: us, words: "+1.415.555.0181"},
		{phone: us, words: "+1\u2011415\u2013555\u22120181"},
		{phone: us, words: "+1\u00a0415\u200b5550181"},
		{phone: us, words: "\uff0b\uff11\uff14\uff11\uff15\uff15\uff15\uff15\uff10\uff11\uff18\uff11"},
		{phone: us, words: "+1 (0)415 555 0181"},
		{phone: us, words: "%2B14155550181"},
		{phone: us, words: "wamid.HBgLMTQxNTU1NTAxODEVAgARGBI="},
		{phone: us, words: `a "wamid.HBgLMTQxNTU1NTAxODE"`},
		{phone: brazil, words: "551187654321"},
		{phone: brazil, words: "+55 11 8765-4321"},
		{phone: brazil, words: "wamid.HBgMNTUxMTg3NjU0MzIxFQIAEhgg"},
		{phone: mexico, words: "5215512345678"},
		{phone: us, words: "+14155550182", missed: true},
		{phone: us, words: "(415) 555-0181", missed: true},
		{phone: us, words: "+1%20415%20555%200181", missed: true},
		{phone: us, words: "+1 415 555 01 81 x " + strings.Repeat("7 ", 4000), missed: false},
		{phone: us, words: strings.Repeat("7 ", 4000) + "x +1 415 555 01 81", missed: true},
	} {
		var found bool
		err := db.QueryRow(t.Context(), `select names_in('', '', jsonb_build_object('text', @words::text)) && names_of(@phone)`,
			pgx.NamedArgs{"words": tt.words, "phone": tt.phone}).Scan(&found)
		require.NoError(t, err)
		require.Equal(t, !tt.missed, found, "%.40s", tt.words)
	}
}

// TestScopeOfCallers is about what the database shows to a call, by who makes it.
func TestScopeOfCallers(t *testing.T) {
	t.Parallel()
	url, _, orgs, people := inhabited(t)
	pool, err := platform.OpenFor(t.Context(), "onboarding", platform.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for _, tt := range []struct {
		name   string
		caller rpc.Principal
		want   int // profiles
	}{
		{name: "ServiceSeesAll", caller: rpc.Principal{Subject: "gateway", Role: rpc.RoleService}, want: 3},
		{name: "OperatorSeesTheirOrganisation", caller: rpc.Principal{Subject: people[0], OrgID: orgs[0], Role: rpc.RoleOperator}, want: 2},
		{name: "AppSeesItsOrganisation", caller: rpc.Principal{Subject: people[0], OrgID: orgs[0], Role: rpc.RoleApp}, want: 2},
		{name: "S4_07_UserSeesThemselves", caller: rpc.Principal{Subject: people[0], OrgID: orgs[0], Role: rpc.RoleUser}, want: 1},
		{name: "S4_07_UserOfAnotherOrganisationSeesNoProfile", caller: rpc.Principal{Subject: people[0], OrgID: orgs[1], Role: rpc.RoleUser}},
		{name: "S4_07_UserWhoHasNoProfileSeesNone", caller: rpc.Principal{Subject: "ada@example.com", OrgID: orgs[0], Role: rpc.RoleUser}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, texts(process.Scope(t.Context(), tt.caller), t, pool, `select id::text from profiles`), tt.want)
		})
	}
}
