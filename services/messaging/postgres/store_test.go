package postgres_test

import (
	"context"
	"crypto/sha256"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

func TestMigrations(t *testing.T) {
	t.Parallel()
	url, migrations := pgtest.OwnerURL(t, pgtest.URL(t, postgres.Migrations())), postgres.Migrations()
	require.NoError(t, migrations.Down(t.Context(), url))
	require.NoError(t, migrations.Up(t.Context(), url))
}

// TestMigrationOfRunningDatabase goes up with rows of the release before: those without an end are taken up, and it goes down
// with what only the new release has a word for.
func TestMigrationOfRunningDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	url := pgtest.OwnerURL(t, pgtest.URL(t, postgres.Migrations()))
	first, err := os.ReadFile("migrations/0001_messages_and_consent.sql")
	require.NoError(t, err)
	require.NoError(t, postgres.Migrations().Down(t.Context(), url))
	before := platform.Migrations{FS: fstest.MapFS{"0001_messages_and_consent.sql": {Data: first}}}
	require.NoError(t, before.Up(t.Context(), url))
	pool, err := platform.Open(t.Context(), platform.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), `
		insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
			segments, correlation_id, attempt_token, lease_until, attempts, accepted_at, created_at, updated_at)
		select gen_random_uuid(), gen_random_uuid(), 'outbound', 'MG1', '+14155550123', 'hello', decode(repeat('00', 32), 'hex'), s, s,
			case when s in ('queued', 'delivered') then 'SM' || s end, 1, '', gen_random_uuid(), now(), 1,
			case when s in ('queued', 'delivered') then now() end, now(), now()
		from unnest(array['sending', 'unknown', 'throttled', 'queued', 'delivered']) s`)
	require.NoError(t, err)

	require.NoError(t, postgres.Migrations().Up(t.Context(), url))
	var unfinished int
	require.NoError(t, pool.QueryRow(t.Context(), `select (select count(*) from pg_constraint where not convalidated)
		+ (select count(*) from pg_index where not indisvalid)`).Scan(&unfinished))
	require.Zero(t, unfinished)
	abandoned, err := postgres.NewStore(pool).ExpireAbandoned(t.Context(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Second, 10)
	require.NoError(t, err)
	require.Equal(t, 2, abandoned)
	due, unread, err := postgres.NewStore(pool).ClaimDue(t.Context(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 2, 0, 0, 0, 0, time.UTC), 10)
	require.NoError(t, err)
	var statuses []sms.Status
	for _, m := range due {
		statuses = append(statuses, m.Status)
		require.Equal(t, send.ConfirmAbsentThenResend, m.UnknownPolicy)
		require.Equal(t, m.CreatedAt, m.AttemptedAt, "the old schema did not store the time of the claim; the creation is its lower bound")
	}
	require.Empty(t, unread)
	require.ElementsMatch(t, []sms.Status{sms.Unknown, sms.Unknown, sms.Queued}, statuses)

	_, err = pool.Exec(t.Context(), "update sms_messages set status = case status when 'unknown' then 'parked' else 'given_up' end where status in ('unknown', 'throttled')")
	require.NoError(t, err)
	require.NoError(t, postgres.Migrations().Down(t.Context(), url))
}

// TestMigrationBesideWork builds the indexes while others migrate as well and a transaction that has nothing to do with the table
// stays open on another connection.
func TestMigrationBesideWork(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, platform.Migrations{})
	pool, err := platform.Open(t.Context(), platform.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select 1")
	require.NoError(t, err)
	var migrators errgroup.Group
	for range 3 {
		migrators.Go(func() error { return postgres.Migrations().Up(t.Context(), url) })
	}
	require.NoError(t, migrators.Wait())
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, postgres.Migrations().Ready(t.Context(), pool))
}

// TestSchema tries what the code never does: the constraints must refuse it also to an operator who uses psql as the owner.
func TestSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Owner(t, pgtest.New(t, postgres.Migrations()))
	org, to := uuid.Must(uuid.NewV7()), phone(t, "+14155550123")
	a := attempt(t, org, to, "key")
	_, err := postgres.NewStore(pool).Claim(t.Context(), a)
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		sql  string
		want string // SQLSTATE
	}{
		{name: "AcceptedNeedsASID", sql: "update sms_messages set status = 'accepted', accepted_at = now()", want: "23514"},
		{name: "SIDNeedsATimeOfAcceptance", sql: "update sms_messages set status = 'sent', twilio_sid = 'SM1'", want: "23514"},
		{name: "SIDAndSendingExcludeEachOther", sql: "update sms_messages set twilio_sid = 'SM1', accepted_at = now()", want: "23514"},
		{name: "OutboundNeedsItsKey", sql: "update sms_messages set idempotency_key = null", want: "23514"},
		{name: "OutboundNeedsItsFence", sql: "update sms_messages set attempt_token = null", want: "23514"},
		{name: "UnknownWordIsNoStatus", sql: "update sms_messages set status = 'teleported'", want: "23514"},
		{name: "ParkedHasNoSID", sql: "update sms_messages set status = 'parked', twilio_sid = 'SM1', accepted_at = now()", want: "23514"},
		{name: "GivenUpHasNoSID", sql: "update sms_messages set status = 'given_up', twilio_sid = 'SM1', accepted_at = now()", want: "23514"},
		{name: "UnknownWordIsNoPolicy", sql: "update sms_messages set unknown_policy = 'hope'", want: "23514"},
		{name: "UnknownWordIsNoFinding", sql: "insert into sms_looks (message_id, at, finding, detail, candidates) select id, now(), 'hope', '', '[]' from sms_messages", want: "23514"},
		{name: "EvidenceIsNotRewritten", sql: "update sms_looks set detail = ''", want: "23001"},
		{name: "EvidenceIsNotErased", sql: "delete from sms_looks", want: "23001"},
		{name: "UnknownWordIsNoPreference", sql: "update sms_messages set reminders = 'hope'", want: "23514"},
		{name: "OnlyPersonsAndOperatorsSpeakOfReminders", sql: "insert into reminder_preferences select org_id, to_number, true, now(), 'web', null, '', now() from sms_messages", want: "23514"},
		{name: "MessageIsThePersons", sql: "insert into reminder_preferences select org_id, to_number, true, now(), 'operator', id, 'v', now() from sms_messages", want: "23514"},
		{name: "MessageNamesTheWordsItWasReadBy", sql: "insert into reminder_preferences select org_id, to_number, true, now(), 'person', id, '', now() from sms_messages", want: "23514"},
		{name: "LedgerIsNotRewritten", sql: "update consent_events set state = 'opted_out'", want: "23001"},
		{name: "LedgerIsNotErased", sql: "delete from consent_events", want: "23001"},
		{name: "LedgerIsNotEmptied", sql: "truncate consent_events", want: "23001"},
		{name: "ConsentWithALedgerIsNotErased", sql: "delete from consents", want: "23503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := pool.Exec(t.Context(), c.sql)
			var refused *pgconn.PgError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.want, refused.Code)
		})
	}
}

// TestIndexes forbids reading whole tables, so that what is left shows whether an index serves the query.
func TestIndexes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, postgres.Migrations())
	for name, sql := range map[string]string{
		"Audit":       "select 1 from audit where org_id = '0190a000-0000-7000-8000-000000000001' order by at desc, id desc limit 5",
		"Claim":       "select 1 from consents where org_id = gen_random_uuid() and phone = '+1' for share",
		"Key":         "select 1 from sms_messages where org_id = gen_random_uuid() and idempotency_key = 'k'",
		"Receipt":     "select 1 from sms_messages where direction = 'outbound' and (id = '0190a000-0000-7000-8000-000000000001' or twilio_sid = 'SM1')",
		"Newest":      "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and id < '0190a000-0000-7000-8000-000000000001' order by id desc limit 5",
		"Profile":     "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and profile_id = '0190a000-0000-7000-8000-000000000001' order by id desc limit 5",
		"Ledger":      "select 1 from consent_events where org_id = '0190a000-0000-7000-8000-000000000001' and phone = '+1' order by id",
		"Due":         "select id from sms_messages where next_look_at <= now() order by next_look_at limit 5 for update skip locked",
		"Attempts":    "select id from sms_messages where status in ('sending', 'unknown') and lease_until <= now() and (status = 'sending' or next_look_at is null) order by lease_until limit 5",
		"Rivals":      "select 1 from sms_messages where to_number = '+1' and direction = 'outbound' and status in ('sending', 'unknown', 'parked', 'given_up')",
		"OnItsWay":    "select 1 from sms_messages where to_number = '+1' and org_id = gen_random_uuid() and status = 'sending' and lease_until > now()",
		"Troubled":    "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and status = 'parked' and status in ('unknown', 'parked', 'given_up') and id < '0190a000-0000-7000-8000-000000000001' order by id desc limit 5",
		"InDoubt":     "select 1 from sms_messages where to_number = '+1' and org_id = gen_random_uuid() and direction = 'outbound' and status in ('sending', 'unknown', 'parked') limit 1",
		"Undelivered": "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and status in ('accepted', 'queued', 'sent') and accepted_at >= '2026-11-24' and accepted_at < '2026-11-25' limit 5",
		"Looks":       "select 1 from sms_looks where message_id = '0190a000-0000-7000-8000-000000000001' order by id",
		"Deliveries":  "select message_id, min(received_at) from sms_receipts where message_id = any(array['0190a000-0000-7000-8000-000000000001']::uuid[]) and status = 'delivered' group by message_id",
		"Settled":     "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' order by id desc limit 5",
		"Asked": "select body from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and to_number = '+1' and direction = 'outbound' " +
			"and attempted_at <= now() and attempted_at > now() - interval '24 hours' and status not in ('rejected', 'throttled') order by attempted_at desc limit 3",
		"Receipts": "select 1 from sms_receipts where message_id = '0190a000-0000-7000-8000-000000000001'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := explain(t, pool, sql)
			require.NotContains(t, plan, "Seq Scan")
			require.NotContains(t, plan, "Sort")
		})
	}
}

func explain(t *testing.T, pool *pgxpool.Pool, sql string) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), "set local enable_seqscan = off; set local enable_bitmapscan = "+map[bool]string{true: "on", false: "off"}[strings.Contains(sql, " or ")])
	require.NoError(t, err)
	rows, err := tx.Query(t.Context(), "explain "+sql)
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

func TestMessages(t *testing.T) {
	t.Parallel()
	store := postgres.NewStore(pgtest.New(t, postgres.Migrations()))
	org, profile := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	var ids []uuid.UUID // newest first
	for _, key := range []string{"a", "b", "c"} {
		a := attempt(t, org, phone(t, "+14155550123"), key)
		if key != "b" {
			a.ProfileID = profile
		}
		claim, err := store.Claim(t.Context(), a)
		require.NoError(t, err)
		require.True(t, claim.Won)
		ids = append([]uuid.UUID{claim.Message.ID}, ids...)
	}
	for _, c := range []struct {
		name  string
		query send.Query
		want  []uuid.UUID
	}{
		{name: "AllNewestFirst", query: send.Query{OrgID: org, Limit: 9}, want: ids},
		{name: "Limit", query: send.Query{OrgID: org, Limit: 2}, want: ids[:2]},
		{name: "NextPage", query: send.Query{OrgID: org, Limit: 9, Before: ids[1]}, want: ids[2:]},
		{name: "Profile", query: send.Query{OrgID: org, ProfileID: profile, Limit: 9}, want: []uuid.UUID{ids[0], ids[2]}},
		{name: "Key", query: send.Query{OrgID: org, Key: "b", Limit: 9}, want: ids[1:2]},
		{name: "KeyOfAnotherProfile", query: send.Query{OrgID: org, Key: "b", ProfileID: profile, Limit: 9}},
		{name: "AnotherOrganisation", query: send.Query{OrgID: uuid.Must(uuid.NewV7()), Limit: 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.query.Before == uuid.Nil {
				c.query.Before = uuid.Max
			}
			found, err := store.Messages(t.Context(), c.query)
			require.NoError(t, err)
			var got []uuid.UUID
			for _, m := range found {
				got = append(got, m.ID)
			}
			require.Equal(t, c.want, got)
		})
	}
	t.Run("MessageOfAnotherOrganisationIsNotFound", func(t *testing.T) {
		t.Parallel()
		_, err := store.Message(t.Context(), uuid.Must(uuid.NewV7()), ids[0])
		require.ErrorIs(t, err, send.ErrMessageNotFound)
	})
}

func TestSetConsent(t *testing.T) {
	t.Parallel()
	store := postgres.NewStore(pgtest.New(t, postgres.Migrations()))
	org, who, at := uuid.Must(uuid.NewV7()), phone(t, "+14155550123"), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	_, err := store.Consent(t.Context(), org, who, inbox.LedgerPage{Limit: 1})
	require.ErrorIs(t, err, inbox.ErrConsentNotFound)
	note := inbox.Note{OrgID: org, Phone: who, State: consent.OptedOut, Reason: "called us", Sender: "MG1", At: at}
	_, err = store.SetConsent(t.Context(), note)
	require.NoError(t, err)
	note.Reason, note.At = "called again", at.Add(time.Hour)
	ledger, err := store.SetConsent(t.Context(), note)
	require.NoError(t, err)
	require.Nil(t, ledger.Broken)
	require.Len(t, ledger.Events, 2)
	first, second := ledger.Events[0].Hash, ledger.Events[1].Hash
	require.Equal(t, inbox.Ledger{
		OrgID: org, Phone: who, State: consent.OptedOut, UpdatedAt: at, Chain: consent.Chain{Length: 2, Head: second, State: "opted_out"},
		Events: []inbox.LedgerLine{
			{
				LedgerEvent: inbox.LedgerEvent{At: at, State: consent.OptedOut, Source: inbox.FromOperator, Words: "called us", Sender: "MG1"},
				Seq:         1, PrevHash: consent.NoHash, Hash: first,
			},
			{
				LedgerEvent: inbox.LedgerEvent{
					At: at.Add(time.Hour), State: consent.OptedOut, Source: inbox.FromOperator, Words: "called again", Sender: "MG1",
				},
				Seq: 2, PrevHash: first, Hash: second,
			},
		},
	}, ledger)
	claim, err := store.Claim(t.Context(), attempt(t, org, who, "key"))
	require.NoError(t, err)
	require.Equal(t, send.Claim{OptedOut: true}, claim)
}

// TestClaimInANewDatabase: Postgres keeps the plan that it has made of a statement while the table was empty, until the table is analyzed.
func TestClaimInANewDatabase(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, postgres.Migrations())
	owner := pgtest.Owner(t, pool)
	for _, sql := range []string{"alter table sms_messages set (autovacuum_enabled = off)", "vacuum analyze sms_messages"} {
		_, err := owner.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	one := pool.Config()
	one.MaxConns = 1
	claiming, err := pgxpool.NewWithConfig(t.Context(), one)
	require.NoError(t, err)
	defer claiming.Close()
	store, org := postgres.NewStore(claiming), uuid.Must(uuid.NewV7())
	for i := range 20 {
		claim, err := store.Claim(t.Context(), attempt(t, org, phone(t, "+14155550123"), "key"+strconv.Itoa(i)))
		require.NoError(t, err)
		require.True(t, claim.Won)
	}
	claiming.Close()
	var read int64
	require.Eventually(t, func() bool { // a connection says what it has read when it ends, which Close does not wait for
		var written int64
		err := pool.QueryRow(t.Context(), "select n_tup_ins, seq_tup_read from pg_stat_user_tables where relname = 'sms_messages'").
			Scan(&written, &read)
		return err == nil && written == 20
	}, 10*time.Second, 5*time.Millisecond)
	require.Zero(t, read, "the claim of a new message reads no other messages")
}

// TestReclaimAfterSTOP: a row that may be tried again is not claimed after a STOP.
func TestReclaimAfterSTOP(t *testing.T) {
	t.Parallel()
	store := postgres.NewStore(pgtest.New(t, postgres.Migrations()))
	org, who := uuid.Must(uuid.NewV7()), phone(t, "+14155550123")
	first := attempt(t, org, who, "key")
	claim, err := store.Claim(t.Context(), first)
	require.NoError(t, err)
	throttled, err := store.Settle(t.Context(), *claim.Message, send.Answer{
		MessageID: claim.Message.ID, Token: first.Token, Outcome: twilio.Outcome{Kind: twilio.Throttled}, At: first.At,
	})
	require.NoError(t, err)
	_, err = store.RecordInbound(t.Context(), inbox.Entry{
		Inbound: inbox.Inbound{SID: "SM1", From: who, To: "+14155550100", Body: "STOP", OrgID: org, ReceivedAt: first.At},
		ID:      uuid.Must(uuid.NewV7()), At: first.At,
	})
	require.NoError(t, err)

	second := attempt(t, org, who, "key")
	second.At, second.LeaseUntil = throttled.LeaseUntil, throttled.LeaseUntil.Add(time.Minute)
	require.True(t, throttled.Retryable(second.At))
	claim, err = store.Claim(t.Context(), second)
	require.NoError(t, err)
	require.Equal(t, send.Claim{Message: &throttled, OptedOut: true}, claim)
}

// TestReclaimOfARowInDoubt: only what Twilio certainly did not take is claimed again.
func TestReclaimOfARowInDoubt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		outcome twilio.Outcome
	}{
		{"S1_35_Unknown", twilio.Outcome{Kind: twilio.Unknown}},
		{"S1_35_Rejected", twilio.Outcome{Kind: twilio.Rejected, Code: 21614}},
		{"S1_35_Accepted", twilio.Outcome{Kind: twilio.Accepted, SID: "SM1", Status: "queued"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := postgres.NewStore(pgtest.New(t, postgres.Migrations()))
			org, who := uuid.Must(uuid.NewV7()), phone(t, "+14155550123")
			first := attempt(t, org, who, "key")
			claim, err := store.Claim(t.Context(), first)
			require.NoError(t, err)
			settled, err := store.Settle(t.Context(), *claim.Message, send.Answer{MessageID: claim.Message.ID, Token: first.Token, Outcome: tt.outcome, At: first.At})
			require.NoError(t, err)
			second := attempt(t, org, who, "key")
			second.At, second.LeaseUntil = first.LeaseUntil.Add(time.Hour), first.LeaseUntil.Add(2*time.Hour)
			claim, err = store.Claim(t.Context(), second)
			require.NoError(t, err)
			require.Equal(t, send.Claim{Message: &settled}, claim)
		})
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()

	t.Run("KilledConnectionIsUnavailable", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, postgres.Migrations())
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // or a failure would wait for the pool
		_, err = tx.Exec(t.Context(), "lock table consents")
		require.NoError(t, err)
		failed := make(chan error, 1)
		a := attempt(t, uuid.Must(uuid.NewV7()), phone(t, "+14155550123"), "key")
		go func() {
			_, err := postgres.NewStore(pool).Claim(t.Context(), a)
			failed <- err
		}()
		require.Eventually(t, func() bool { // Postgres has no signal for a backend that waits
			tag, err := pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock'`)
			return err == nil && tag.RowsAffected() == 1
		}, 10*time.Second, time.Millisecond)
		require.ErrorIs(t, <-failed, send.ErrUnavailable)
	})

	t.Run("DefectIsNot", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, postgres.Migrations())
		_, err := pgtest.Owner(t, pool).Exec(t.Context(), "alter table consents rename to elsewhere")
		require.NoError(t, err)
		_, err = postgres.NewStore(pool).Claim(t.Context(), attempt(t, uuid.Must(uuid.NewV7()), phone(t, "+14155550123"), "key"))
		require.Error(t, err)
		require.NotErrorIs(t, err, send.ErrUnavailable, "a missing table does not come back by asking again")
	})
}

func attempt(t *testing.T, org uuid.UUID, to sms.Phone, key string) send.Attempt {
	t.Helper()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return send.Attempt{
		Request:   send.Request{OrgID: org, To: to, Body: "hello", Key: key, UnknownPolicy: send.ConfirmAbsentThenResend},
		MessageID: uuid.Must(uuid.NewV7()), From: "MG1", BodyHash: sha256.Sum256([]byte("hello")), Segments: 1,
		Token: uuid.New(), At: at, LeaseUntil: at.Add(time.Minute),
	}
}

func phone(t *testing.T, e164 string) sms.Phone {
	t.Helper()
	p, err := sms.ParsePhone(e164)
	require.NoError(t, err)
	return p
}
