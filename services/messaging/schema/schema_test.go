package schema_test

import (
	"os"
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
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

func TestMigrations(t *testing.T) {
	t.Parallel()
	url, migrations := pgtest.OwnerURL(t, pgtest.URL(t, schema.Migrations())), schema.Migrations()
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
	url := pgtest.OwnerURL(t, pgtest.URL(t, schema.Migrations()))
	first, err := os.ReadFile("migrations/0001_messages_and_consent.sql")
	require.NoError(t, err)
	require.NoError(t, schema.Migrations().Down(t.Context(), url))
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

	require.NoError(t, schema.Migrations().Up(t.Context(), url))
	var unfinished int
	require.NoError(t, pool.QueryRow(t.Context(), `select (select count(*) from pg_constraint where not convalidated)
		+ (select count(*) from pg_index where not indisvalid)`).Scan(&unfinished))
	require.Zero(t, unfinished)
	abandoned, err := sendtest.NewStore(pool).ExpireAbandoned(t.Context(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Second, 10)
	require.NoError(t, err)
	require.Equal(t, 2, abandoned)
	due, unread, err := sendtest.NewStore(pool).ClaimDue(t.Context(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 2, 0, 0, 0, 0, time.UTC), 10)
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
	require.NoError(t, schema.Migrations().Down(t.Context(), url))
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
		migrators.Go(func() error { return schema.Migrations().Up(t.Context(), url) })
	}
	require.NoError(t, migrators.Wait())
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, schema.Migrations().Ready(t.Context(), pool))
}

// TestSchema tries what the code never does: the constraints must refuse it also to an operator who uses psql as the owner.
func TestSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Owner(t, pgtest.New(t, schema.Migrations()))
	org, to := uuid.Must(uuid.NewV7()), sendtest.Phone(t, "+14155550123")
	a := sendtest.Attempt(t, org, to, "key")
	_, err := sendtest.NewStore(pool).Claim(t.Context(), a)
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
	pool := pgtest.New(t, schema.Migrations())
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
		"HasInFlight": "select 1 from sms_messages where to_number = '+1' and org_id = gen_random_uuid() and status = 'sending' and lease_until > now()",
		"Troubled":    "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and status = 'parked' and status in ('unknown', 'parked', 'given_up') and id < '0190a000-0000-7000-8000-000000000001' order by id desc limit 5",
		"InDoubt":     "select 1 from sms_messages where to_number = '+1' and org_id = gen_random_uuid() and direction = 'outbound' and status in ('sending', 'unknown', 'parked') limit 1",
		"UnderWay":    "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and status = 'queued' and status in ('accepted', 'queued', 'sent', 'failed', 'undelivered') limit 5",
		"Rejected":    "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and status = 'rejected' and status not in ('sending', 'accepted', 'queued', 'sent', 'delivered', 'received') and id < '0190a000-0000-7000-8000-000000000001' order by id desc limit 5",
		"Undelivered": "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and status in ('accepted', 'queued', 'sent') and accepted_at >= '2026-11-24' and accepted_at < '2026-11-25' limit 5",
		"Looks":       "select 1 from sms_looks where message_id = '0190a000-0000-7000-8000-000000000001' order by id",
		"Deliveries":  "select message_id, min(received_at) from sms_receipts where message_id = any(array['0190a000-0000-7000-8000-000000000001']::uuid[]) and status = 'delivered' group by message_id",
		"Settled":     "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' order by id desc limit 5",
		"Asked": "select body from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and to_number = '+1' and direction = 'outbound' " +
			"and attempted_at <= now() and attempted_at > now() - interval '24 hours' and status not in ('rejected', 'throttled') order by attempted_at desc limit 3",
		"Counted":        "select 1 from sms_messages where body <> '' and created_at >= '2026-11-24' and created_at < '2026-11-25'",
		"CountedWithout": "select 1 from sms_messages where body = '' and created_at >= '2026-11-24' and created_at < '2026-11-25'",
		"Trend":          "select 1 from sms_quarters where org_id = '0190a000-0000-7000-8000-000000000001' and quarter >= '2026-11-24' and quarter < '2026-11-25'",
		"UsedSender":     "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' and id >= '0190a000-0000-7000-8000-000000000001' and sender_id = '0190a000-0000-7000-8000-000000000001' limit 1",
		"Receipts":       "select 1 from sms_receipts where message_id = '0190a000-0000-7000-8000-000000000001'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := explain(t, pool, sql)
			require.NotContains(t, plan, "Seq Scan")
			require.NotContains(t, plan, "Sort")
		})
	}
}

// TestIndexesOfTheReleaseBefore keeps what a release lists by that runs next to this one.
func TestIndexesOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	plan := explain(t, pgtest.New(t, schema.Migrations()), "select 1 from sms_messages where org_id = '0190a000-0000-7000-8000-000000000001' "+
		"and status = 'sending' and status not in ('delivered', 'received') order by id desc limit 5")
	require.Contains(t, plan, "sms_messages_by_status")
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
