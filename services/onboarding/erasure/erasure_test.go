package erasure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/session"
)

var errCrash = errors.New("the process died here")

// ports is messaging and the database of a process that dies at its k-th call: before it, or after it has had its effect.
type ports struct {
	*erasure.Store

	dieAt int // 0 for never
	after bool
	calls int

	waits  int // how often messaging says that something is on its way
	erased map[string]int
}

func (p *ports) call(do func() error) error {
	p.calls++
	switch {
	case p.dieAt == 0 || p.calls < p.dieAt:
		return do()
	case p.calls == p.dieAt && p.after:
		return errors.Join(do(), errCrash)
	}
	return errCrash
}

func (p *ports) Request(ctx context.Context, r erasure.Request) error {
	return p.call(func() error { return p.Store.Request(ctx, r) })
}

func (p *ports) EraseProfile(ctx context.Context, orgID, profileID string, at time.Time) (done bool, err error) {
	err = p.call(func() (err error) { done, err = p.Store.EraseProfile(ctx, orgID, profileID, at); return err })
	return done, err
}

func (p *ports) Delay(ctx context.Context, profileID, waitsFor string, next time.Time) error {
	return p.call(func() error { return p.Store.Delay(ctx, profileID, waitsFor, next) })
}

func (p *ports) MayErase(context.Context, erasure.Person) (pseudonym string, err error) {
	return "erased:1", p.call(func() error { return nil })
}

func (p *ports) Erase(_ context.Context, e erasure.Erasure) (waitsFor string, err error) {
	err = p.call(func() error {
		if e.Phone == "" {
			return errors.New("there is no number to erase")
		}
		if p.waits > 0 {
			p.waits--
			waitsFor = "message 1"
			return nil
		}
		p.erased[e.Phone]++
		return nil
	})
	return waitsFor, err
}

func (p *ports) ExportPerson(context.Context, erasure.Person) (json.RawMessage, error) {
	return json.RawMessage(`{"consent": {"events": [{"actor": {"subject": "olga", "role": "operator"}}]}, "queued_texts": [{"actor": null}]}`), nil
}

func (p *ports) ErasedConsent(context.Context, string, string) (erasure.Consent, error) {
	return erasure.Consent{}, nil
}

type bundle struct {
	ports   *ports
	pool    *pgxpool.Pool
	store   *onboarding.Stores
	service *erasure.Service
	request erasure.Request
	now     time.Time
}

const phone = "+15005550001"

func setup(t *testing.T) *bundle {
	t.Helper()
	pool := pgtest.New(t, schema.Migrations())
	b := &bundle{pool: pool, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	b.store = onboarding.NewStores(pool)
	b.ports = &ports{Store: erasure.NewStore(pool), erased: map[string]int{}}
	b.service = &erasure.Service{
		Store: b.ports, Carrier: b.ports, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return b.now },
	}
	b.request = erasure.Request{OrgID: uuid.NewString(), ProfileID: uuid.NewString(), Source: erasure.FromOperator}
	_, err := pool.Exec(t.Context(), `
with p as (
	insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
	values (@profile, @org, @phone, 'Zuleika', 'en', 'UTC', @at, @at) returning id
), j as (
	insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
	values (gen_random_uuid(), @org, 'kapso.message.received:wamid.1', 'kapso', 'e', @phone, '{"body": "avocado"}', 'pending', @at, @at, @at)
), e as (
	insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
	values (1, gen_random_uuid(), @org, 'message.received', @profile, @at, 'message:1', '{"twilio_sid": "wamid.1"}', @at)
)
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
select gen_random_uuid(), @org, id, 'onboarding', 'onboarding:awaiting_opening_response', 'active', 'v', @at, @at from p`,
		pgx.NamedArgs{"profile": b.request.ProfileID, "org": b.request.OrgID, "phone": phone, "at": b.now})
	require.NoError(t, err)
	return b
}

func (b *bundle) left(t *testing.T) (all string) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `select string_agg(query_to_xml(format('select r::text from %I r', tablename), true, true, '')::text, '')
		from pg_tables where schemaname = 'public'`).Scan(&all))
	return all
}

// TestCrashes has the process die at every call: the caller asks again, and another process goes on.
func TestCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	good := setup(t)
	good.ports.waits = 1
	good.run(t)
	for k := 1; k <= good.ports.calls; k++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("Call%dAfter%t", k, after), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.ports.waits, b.ports.dieAt, b.ports.after = 1, k, after
				b.run(t)
				b.ports.dieAt = 0
				b.run(t)
				require.NotZero(t, b.ports.erased[phone])
				e, _, err := b.service.Get(t.Context(), b.request.OrgID, b.request.ProfileID)
				require.NoError(t, err)
				require.NotNil(t, e.ErasedAt)
				for _, word := range []string{phone, "Zuleika", "avocado", "wamid."} {
					require.NotContains(t, b.left(t), word)
				}
			})
		}
	}
}

// run asks, and goes on for a quarter of an hour.
func (b *bundle) run(t *testing.T) {
	t.Helper()
	_, err := b.service.Ask(t.Context(), b.request)
	require.True(t, err == nil || errors.Is(err, errCrash), err)
	for range 4 {
		b.now = b.now.Add(10 * time.Minute)
		_, err := b.service.Settle(t.Context())
		require.True(t, err == nil || errors.Is(err, errCrash), err)
	}
}

func TestErasure(t *testing.T) {
	t.Parallel()

	t.Run("TheRequestEndsWhatIsOpenAndNothingBegins", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.pool.Exec(t.Context(), `insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
			select gen_random_uuid(), $1, 'waits:1', 'internal', $2, 'reply:' || id || ':0', '{"body": "papaya"}', 'pending', $3, $3, $3 from conversation_sessions`,
			b.request.OrgID, conversation.EventResumedReply, b.now)
		require.NoError(t, err)
		_, err = b.service.Ask(t.Context(), b.request)
		require.NoError(t, err)
		var status, job string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select (select status from conversation_sessions), (select distinct status from webhook_jobs)`).Scan(&status, &job))
		require.Equal(t, []string{"closed", "cancelled"}, []string{status, job})
		_, err = b.store.OpenSession(t.Context(), conversation.Opening{
			Session: session.Record{ID: uuid.NewString(), OrgID: b.request.OrgID, ProfileID: b.request.ProfileID}, Phone: phone,
		})
		require.ErrorIs(t, err, erasure.ErrBegun)
		was := people.Profile{OrgID: b.request.OrgID, ID: b.request.ProfileID, Phone: phone}
		_, err = b.store.ChangeProfile(t.Context(), was, was, people.FieldChange{}, people.Unfinished{}, b.now)
		require.ErrorIs(t, err, erasure.ErrBegun, "what was said under the number would stay")
		_, err = b.store.CreateProfile(t.Context(), people.Profile{
			ID: uuid.NewString(), OrgID: b.request.OrgID, Phone: phone, FirstName: "Zuleika", Locale: "en", TimeZone: "UTC", CreatedAt: b.now,
		})
		require.ErrorIs(t, err, erasure.ErrBegun, "they would be gone in a moment")
		of := goals.Goal{ID: uuid.NewString(), OrgID: b.request.OrgID, ProfileID: b.request.ProfileID, Key: "k"}
		_, _, err = b.store.Goals().Insert(t.Context(), of, goals.Alarm{})
		require.ErrorIs(t, err, erasure.ErrBegun)
		device := goals.Device{ID: uuid.NewString(), OrgID: b.request.OrgID, ProfileID: b.request.ProfileID}
		require.ErrorIs(t, b.store.Goals().RegisterDevice(t.Context(), device, nil), erasure.ErrBegun)
		_, _, err = b.store.QuietHours(t.Context(), b.request.OrgID, phone, b.request.ProfileID)
		require.ErrorIs(t, err, erasure.ErrBegun, "a text that is queued would be deleted")
		require.ErrorIs(t, b.ports.SetLegalHold(t.Context(), b.request.OrgID, b.request.ProfileID, "case 1", b.now), erasure.ErrBegun)
	})

	t.Run("ALegalHoldKeepsThem", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.NoError(t, b.ports.SetLegalHold(t.Context(), b.request.OrgID, b.request.ProfileID, "case 1", b.now))
		_, err := b.service.Ask(t.Context(), b.request)
		require.ErrorIs(t, err, erasure.ErrLegalHold)
		exported, err := b.ports.Export(t.Context(), b.request.OrgID, b.request.ProfileID)
		require.NoError(t, err)
		require.Contains(t, string(exported), "legal_hold_at")
		require.NotContains(t, string(exported), "case 1", "what operators say among themselves does not go to the person")
		require.NoError(t, b.ports.SetLegalHold(t.Context(), b.request.OrgID, b.request.ProfileID, "", b.now))
		_, err = b.service.Ask(t.Context(), b.request)
		require.NoError(t, err)
	})

	t.Run("TheLoginThatErasesTakesOnlyWhomItWasAskedFor", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.ports.EraseProfile(t.Context(), b.request.OrgID, b.request.ProfileID, b.now)
		require.ErrorContains(t, err, "not asked for")
		_, err = b.service.Ask(t.Context(), b.request)
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), `update profiles set legal_hold_at = created_at`) // past the service, which refuses it
		require.NoError(t, err)
		_, err = b.ports.EraseProfile(t.Context(), b.request.OrgID, b.request.ProfileID, b.now)
		require.ErrorContains(t, err, "legal hold")
		_, err = b.pool.Exec(t.Context(), `update profiles set legal_hold_at = null`)
		require.NoError(t, err)
		_, err = b.ports.EraseProfile(t.Context(), uuid.NewString(), b.request.ProfileID, b.now)
		require.NoError(t, err)
		e, _, err := b.service.Get(t.Context(), b.request.OrgID, b.request.ProfileID)
		require.NoError(t, err)
		require.Nil(t, e.ErasedAt, "in the name of another organisation none is ended")
		done, err := b.ports.EraseProfile(t.Context(), b.request.OrgID, b.request.ProfileID, b.now.AddDate(90, 0, 0))
		require.NoError(t, err)
		require.True(t, done)
		var soon bool
		require.NoError(t, b.pool.QueryRow(t.Context(), `select erased_at < now() + interval '1 hour' from erasures`).Scan(&soon))
		require.True(t, soon, "the end is by the database's clock")
	})

	t.Run("WhatCallersChoseIsTakenOut", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := pgtest.Owner(t, b.pool).Exec(t.Context(), `
with e as (
	insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
	select n, gen_random_uuid(), @org, 'engagement.tier_completed', @profile, @at, cause, '{}', @at
	from (values (2, 'action:of Zuleika'), (3, 'request:of Zuleika'), (4, 'run:1')) c (n, cause)
), o as (
	insert into event_outbox (event_id, org_id, type, subject, time, causation_id)
	values (gen_random_uuid(), @org, 'engagement.tier_completed', @profile, @at, 'action:of Zuleika')
), s as (
	insert into event_subscriptions (id, org_id, url, types, include, secret, status, cursor_seq, created_at, updated_at)
	values (@other, @org, 'https://example.com', '{}', '{}', decode(repeat('00', 24), 'hex'), 'active', 2, @at, @at)
	returning id
), d as (
	insert into event_deliveries (id, org_id, idempotency_key, event_type, subject, payload, status, max_attempts, subscription_id, seq, type, created_at,
		updated_at)
	select gen_random_uuid(), @org, 'k', 'e', 's', jsonb_build_object('subject', @profile::text, 'causationid', 'action:of Zuleika'), 'completed', 5, id, 2,
		'engagement.tier_completed', @at, @at from s
), j as (
	update webhook_jobs set actor = '{"subject": "ada", "request_id": "of Zuleika"}'
)
insert into audit (id, at, org_id, subject, role, client_address, request_id, method, profile_id, target_id, phone)
select gen_random_uuid(), @at, @org, subject, 'user', '', 'of ' || whose, 'm', profile, target, phone
from (values ('Zuleika', 'ada', @profile::uuid, null::uuid, null), ('Zuleika', 'ada', null, (select id from conversation_sessions), null),
	('Zuleika', 'ada', null, null, @phone), ('Zuleika', @profile::text, null, null, null), ('Bia', 'ada', @other::uuid, null, null)
) a (whose, subject, profile, target, phone)`,
			pgx.NamedArgs{"org": b.request.OrgID, "profile": b.request.ProfileID, "other": uuid.NewString(), "phone": phone, "at": b.now})
		require.NoError(t, err)
		b.run(t)
		left := b.left(t)
		for _, kept := range []string{"action:erased", "request:erased", "run:1", "of Bia", "message:1"} {
			require.Contains(t, left, kept)
		}
		require.NotContains(t, left, "Zuleika")
	})

	t.Run("AJobAtWorkIsWaitedFor", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.pool.Exec(t.Context(), `update webhook_jobs set subject = 'another', payload = jsonb_build_object('from', subject),
			status = 'processing', next_retry_at = null, lease_token = gen_random_uuid(), lease_until = now()`)
		require.NoError(t, err)
		b.run(t)
		e, _, err := b.service.Get(t.Context(), b.request.OrgID, b.request.ProfileID)
		require.NoError(t, err)
		require.Nil(t, e.ErasedAt)
		require.Contains(t, e.WaitsFor, "at work")
	})

	t.Run("JobsThatNameThemAreEmptied", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		want := map[string]string{}
		var long strings.Builder // no phone, and too long for an index
		for i := range 5000 {
			fmt.Fprint(&long, i*i)
		}
		for _, tt := range []struct{ key, payload, left string }{
			{key: "to " + phone, payload: `{}`, left: "erased:"},
			{key: "ref 1", payload: `{"call": "+1 (500) 555-0001 today"}`, left: "erased:"},
			{key: "shopify:w1", payload: `{"phone": "0015005550001"}`, left: "shopify:w1"},
			{key: "kapso.whatsapp.phone:15005550001", payload: `{}`, left: "erased:"},
			{key: "ref 4", payload: `{"message": {"context": "wamid.HBgLMTUwMDU1NTAwMDEVAgARGBI="}}`, left: "erased:"},
			{key: "ref 2", payload: `{"of": "` + b.request.ProfileID + `"}`, left: "erased:"},
			{key: "ref 3", payload: `{"of": "another person", "phone": "+15005550002", "long": "` + long.String() + `+` + long.String() + `"}`, left: "ref 3"},
		} {
			id := uuid.NewString()
			_, err := b.pool.Exec(t.Context(), `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, processed_at, created_at, updated_at)
values ($1, $2, $3, 'internal', 'internal.e', 'another', $4, 'completed', $5, $5, $5)`, id, b.request.OrgID, tt.key, tt.payload, b.now)
			require.NoError(t, err)
			want[id] = tt.left
		}
		b.run(t)
		for id, left := range want {
			var key, payload string
			require.NoError(t, b.pool.QueryRow(t.Context(), `select idempotency_key, payload from webhook_jobs where id = $1`, id).Scan(&key, &payload))
			require.Contains(t, key, left)
			require.Equal(t, left == "ref 3", payload != "{}", left)
		}
		require.NotContains(t, b.left(t), "555-0001")
	})

	t.Run("JobsUnderTheirUserNameAreExportedAndEmptied", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.pool.Exec(t.Context(), `
with u as (
	update profiles set whatsapp_user_id = 'US.1'
)
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, processed_at, created_at, updated_at)
select gen_random_uuid(), org::uuid, 'kapso.message.received:wamid.2', 'kapso', 'e', 'whatsapp:' || who, jsonb_build_object('body', words), 'completed', @at,
	@at, @at
from (values (@org, 'US.1', 'banana'), (@other, 'US.1', 'of another organisation')) j (org, who, words)`,
			pgx.NamedArgs{"org": b.request.OrgID, "other": uuid.NewString(), "at": b.now})
		require.NoError(t, err)
		exported, err := b.ports.Export(t.Context(), b.request.OrgID, b.request.ProfileID)
		require.NoError(t, err)
		require.Contains(t, string(exported), "banana")
		require.NotContains(t, string(exported), "of another organisation")
		b.run(t)
		left := b.left(t)
		require.NotContains(t, left, "banana")
		require.Contains(t, left, "of another organisation")
	})

	t.Run("EventsOfBeforeTheyHadAProfileLoseTheirNumber", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const theirs, another = "wamid.HBgLMTUwMDU1NTAwMDEVAgARGBI=", "wamid.HBgLMTUwMDU1NTAwMDIVAgARGBI="
		_, err := pgtest.Owner(t, b.pool).Exec(t.Context(), `
with e as (
	insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
	select n, gen_random_uuid(), @org, 'message.received', 'unknown', @at, 'message:2', jsonb_build_object('twilio_sid', sid), @at
	from (values (2, @theirs), (3, @another)) m (n, sid)
), s as (
	insert into event_subscriptions (id, org_id, url, types, include, secret, status, cursor_seq, created_at, updated_at)
	values (gen_random_uuid(), @org, 'https://example.com', '{}', '{}', decode(repeat('00', 24), 'hex'), 'active', 2, @at, @at) returning id
)
insert into event_deliveries (id, org_id, idempotency_key, event_type, subject, payload, status, max_attempts, subscription_id, seq, type, created_at,
	updated_at)
select gen_random_uuid(), @org, sid, 'e', 's', jsonb_build_object('subject', 'unknown', 'data', jsonb_build_object('twilio_sid', sid)), 'completed', 5, id,
	2, 'message.received', @at, @at from s, (values (@theirs), (@another)) m (sid)`,
			pgx.NamedArgs{"org": b.request.OrgID, "theirs": theirs, "another": another, "at": b.now})
		require.NoError(t, err)
		b.run(t)
		var ofThem, ofAnother int
		require.NoError(t, b.pool.QueryRow(t.Context(), `
select count(*) filter (where data ->> 'twilio_sid' = $1), count(*) filter (where data ->> 'twilio_sid' = $2)
from (select data from events union all select payload -> 'data' from event_deliveries) d`, theirs, another).Scan(&ofThem, &ofAnother))
		require.Equal(t, []int{0, 2}, []int{ofThem, ofAnother})
	})

	t.Run("AnExportHasNothingOfOperators", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := pgtest.Owner(t, b.pool).Exec(t.Context(), `
with d as (
	insert into devices (id, org_id, profile_id, name, kind, created_at, updated_at) values (gen_random_uuid(), @org, @profile, 'phone', 'phone', @at, @at)
	returning id
), g as (
	insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, status, scheduled_for, scheduled_delay, created_by,
		created_at, updated_at)
	select gen_random_uuid(), @org, @profile, id, 'rest', 'k', 's', 'g', 'en', 'scheduled', @at, 0, 'operator:olga', @at, @at from d
), a as (
	insert into audit (id, at, org_id, subject, role, client_address, request_id, method, profile_id)
	select gen_random_uuid(), @at, @org, who, role, '192.0.2.' || length(role), 'r-' || who, 'm', @profile
	from (values ('olga', 'operator'), (@profile::text, 'user')) by (who, role)
), l as (
	insert into dead_letters (id, org_id, source_message_id, dlq_id, session_id, payload, status, response, retried, created_at)
	select gen_random_uuid(), @org, 'm', 'd', id, '{"step":1}', 500, 'no', 5, @at from conversation_sessions
)
insert into session_transitions (session_id, at, kind, trigger, actor)
select id, @at, 'held', 'operator', '{"subject": "olga", "role": "operator", "client_address": "192.0.2.8"}' from conversation_sessions`,
			pgx.NamedArgs{"org": b.request.OrgID, "profile": b.request.ProfileID, "at": b.now})
		require.NoError(t, err)
		export, err := b.service.Export(t.Context(), b.request.OrgID, b.request.ProfileID)
		require.NoError(t, err)
		all := string(export["onboarding"]) + string(export["messaging"])
		for _, theirs := range []string{"Zuleika", "avocado", `{\"step\":1}`, `"role":"operator"`, `"created_by":"operator"`, "192.0.2.4", "r-" + b.request.ProfileID} {
			require.Contains(t, all, theirs)
		}
		for _, ofStaff := range []string{"olga", "192.0.2.8"} {
			require.NotContains(t, all, ofStaff)
		}
	})

	t.Run("PersonOfAnotherOrganisationIsNotErased", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.request.OrgID = uuid.NewString()
		_, err := b.service.Ask(t.Context(), b.request)
		require.ErrorIs(t, err, erasure.ErrNoProfile)
	})
}

// TestExport: a table that is new is in the export of a person, or says here why not.
func TestExport(t *testing.T) {
	t.Parallel()
	const organisations, noPerson, events = "the organisation's", "no person", "a copy of what events has"
	pgtest.CheckExport(t, schema.Migrations(), erasure.SQLExportProfile, map[string]string{
		"erasures": "GET /v1/profiles/{id}/erasure", "event_outbox": events, "event_deliveries": events,
		"flow_counts": "counts of sessions", "flow_count_changes": "the same, until they are added up", "delivery_reservations": "ids of deliveries, for minutes", "inbound_sweeps": organisations, "organisation_settings": organisations, "settings_versions": organisations,
		"scheduling_pauses": organisations, "engagement_runs": organisations, "event_subscriptions": organisations, "event_log_starts": organisations,
		"flow_versions": organisations, "flow_runs": organisations, "flow_publications": organisations, "flow_drafts": organisations, "saved_replies": organisations,
		"api_keys": organisations, "organisations": organisations, "alarm_jobs": "ids of a session or a goal, until the alarm has rung, or a day after it did not",
		"device_nodes": noPerson, "event_feed": noPerson, "event_types": noPerson, "goose_db_version": noPerson, "histories": noPerson, "beats": noPerson, "restores": noPerson,
	})
}
