package schema_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/schema"
)

// household makes a row of one organisation in every table.
const household = `
with c as (
    insert into consents (org_id, phone, state, updated_at) values (@org, '+15005550001', 'opted_in', @at) returning org_id, phone
), m as (
    insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, segments, correlation_id,
        attempt_token, lease_until, attempts, created_at, updated_at)
    values (gen_random_uuid(), @org, 'outbound', '+15005550006', '+15005550001', 'Hi', sha256('Hi'), 'k', 'unknown', 1, 'c',
        gen_random_uuid(), @at, 1, @at, @at) returning id
), r as (
    insert into sms_receipts (message_id, twilio_sid, status, error_code, raw, received_at) select id, 'SM' || @org, 'sent', 0, '{}', @at from m
), j as (
    insert into sms_outbound_jobs (id, org_id, idempotency_key, event_type, subject, payload, priority, status, next_retry_at, created_at, updated_at)
    values (gen_random_uuid(), @org, 'k', 'otp', '', '{"to": "+15005550001", "body": "Hi"}', 0, 'pending', @at, @at, @at)
), h as (
    insert into holds (org_id, phone, held, version, updated_at) values (@org, '+15005550001', true, 1, @at)
), p as (
    insert into reminder_preferences (org_id, phone, off, said_at, source, updated_at) values (@org, '+15005550001', true, @at, 'person', @at)
), k as (
    insert into sms_counts (org_id, scope, hour, messages, segments) values (@org, '', @at, 1, 1)
), q as (
    insert into sms_quarters (org_id, quarter, country, delivered, failed, under_way, replies, opt_outs, taken, segments)
    values (@org, @at, '+1', 1, 0, 0, 0, 0, 1, 1)
), l as (
    insert into sms_looks (message_id, at, finding, detail, candidates) select id, @at, 'absent', '', '[]' from m
), sp as (
    insert into suppressions (org_id, pseudonym, key_id, created_at) values (@org, 'erased:1', 'k', @at)
), ep as (
    insert into erased_profiles (org_id, profile_id, pseudonym, began_at) values (@org, gen_random_uuid(), 'erased:1', @at)
), el as (
    insert into erased_ledgers (id, org_id, pseudonym, erased_at, state, length, lines)
    values (gen_random_uuid(), @org, 'erased:1', @at, 'opted_out', 1, sha256(''))
), fl as (
    insert into forgotten_ledgers (ledger_id, org_id, forgotten_at, witnesses) values (gen_random_uuid(), @org, @at, array[sha256('')])
), sn as (
    insert into senders (id, org_id, name, account_sid, api_key_sid, number, segments_per_second, countries, status, version, created_at, updated_at)
    values (gen_random_uuid(), @org, 'n', 'AC' || repeat('0', 32), 'SK' || repeat('0', 32), '+1415' || (1000000 + (random() * 8999999)::int), 1, '{}',
        'disabled', 1, @at, @at)
), rb as (
    insert into readbacks (org_id, since, noticed_at) values (@org, @at, @at)
), og as (
    insert into organisations (org_id, status, version, updated_at) values (@org, 'suspended', 1, @at)
), os as (
    insert into organisation_settings (org_id, sending, version, updated_at) values (@org, '{}', 1, @at)
), a as (
    insert into consent_replies (message_id, org_id, phone, kind, body, idempotency_key, created_at, expires_at)
    select id, @org, '+15005550001', 'help', 'Hi', 'consent:help:SM1', @at, @at from m
)
insert into consent_events (org_id, phone, at, state, source, words, sender) select org_id, phone, @at, 'opted_in', 'first_send', '', '' from c`

func TestTenants(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, schema.Migrations())
	pool, err := platform.Open(t.Context(), platform.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	orgs := [2]string{uuid.NewString(), uuid.NewString()}
	for _, org := range orgs {
		_, err := pool.Exec(t.Context(), household, pgx.NamedArgs{"org": org, "at": "2026-11-21T12:00:00Z"})
		require.NoError(t, err)
	}
	_, err = pool.Exec(t.Context(), `insert into ledger_anchors (number, at, ledgers, hash) values (1, now(), 1, repeat('0', 64))`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `insert into sender_rates (sender, arrival) values ('MG1', now())`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `insert into sms_quarters_counted (quarter, counted_at) values ('2026-11-21T12:00:00Z', now())`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `insert into histories (name, since, noticed_at) values ('1/00000001', now(), now())`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `insert into beats (process, n, at) values (gen_random_uuid(), 1, now())`)
	require.NoError(t, err)
	left := []string{"forgotten_ledgers", "erased_ledgers"}
	const ofMessage = "message_id in (select id from sms_messages where org_id = $1)"
	pgtest.CheckTenants(t, "S2_19_S2_20", pgtest.Tenants{
		URL: url, Service: "messaging", Orgs: orgs,
		Rows:       map[string]string{"sms_receipts": ofMessage, "sms_looks": ofMessage},
		Shared:     []string{"sender_rates", "sms_quarters_counted", "event_outbox", "event_types", "audit", "ledger_anchors", "histories", "beats"},
		AppendOnly: append([]string{"consent_events", "sms_receipts", "sms_looks", "ledger_anchors"}, left...),
		Kept:       append([]string{"sms_messages", "consents", "consent_events", "sms_looks", "ledger_anchors", "organisations"}, left...),
	})
}
