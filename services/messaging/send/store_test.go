package send_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	store := sendtest.NewStore(pgtest.New(t, schema.Migrations()))
	org, profile := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	var ids []uuid.UUID // newest first
	for _, key := range []string{"a", "b", "c"} {
		a := sendtest.Attempt(t, org, sendtest.Phone(t, "+14155550123"), key)
		a.At, a.CorrelationID = a.At.Add(1234567*time.Nanosecond), "c-"+key
		if key != "b" {
			a.ProfileID = profile
		}
		claim, err := store.Claim(t.Context(), a)
		require.NoError(t, err)
		require.True(t, claim.Won)
		stored, err := store.Message(t.Context(), org, claim.Message.ID)
		require.NoError(t, err)
		require.Equal(t, stored, *claim.Message)
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

// TestClaimInANewDatabase: Postgres keeps the plan that it has made of a statement while the table was empty, until the table is analyzed.
func TestClaimInANewDatabase(t *testing.T) {
	t.Parallel()
	// A database that no test has had: the statistics are of this test alone, and the connection ends with its pool.
	pool, err := platform.Open(t.Context(), platform.Config{URL: pgtest.URL(t, schema.Migrations())})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
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
	store, org := sendtest.NewStore(claiming), uuid.Must(uuid.NewV7())
	for i := range 20 {
		claim, err := store.Claim(t.Context(), sendtest.Attempt(t, org, sendtest.Phone(t, "+14155550123"), "key"+strconv.Itoa(i)))
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
	store := sendtest.NewStore(pgtest.New(t, schema.Migrations()))
	org, who := uuid.Must(uuid.NewV7()), sendtest.Phone(t, "+14155550123")
	first := sendtest.Attempt(t, org, who, "key")
	claim, err := store.Claim(t.Context(), first)
	require.NoError(t, err)
	throttled, err := store.Settle(t.Context(), *claim.Message, send.Answer{
		MessageID: claim.Message.ID, Token: first.Token, Outcome: twilio.Outcome{Status: sms.Throttled}, At: first.At,
	})
	require.NoError(t, err)
	_, err = store.RecordInbound(t.Context(), inbound.Entry{
		Inbound: inbound.Inbound{SID: "SM1", From: who, To: "+14155550100", Body: "STOP", OrgID: org, ReceivedAt: first.At},
		ID:      uuid.Must(uuid.NewV7()), At: first.At,
	})
	require.NoError(t, err)

	second := sendtest.Attempt(t, org, who, "key")
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
		{"S1_35_Unknown", twilio.Outcome{Status: sms.Unknown}},
		{"S1_35_Rejected", twilio.Outcome{Status: sms.Rejected, Code: 21614}},
		{"S1_35_Accepted", twilio.Outcome{Status: sms.Accepted, SID: "SM1", Reported: "queued"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := sendtest.NewStore(pgtest.New(t, schema.Migrations()))
			org, who := uuid.Must(uuid.NewV7()), sendtest.Phone(t, "+14155550123")
			first := sendtest.Attempt(t, org, who, "key")
			claim, err := store.Claim(t.Context(), first)
			require.NoError(t, err)
			settled, err := store.Settle(t.Context(), *claim.Message, send.Answer{MessageID: claim.Message.ID, Token: first.Token, Outcome: tt.outcome, At: first.At})
			require.NoError(t, err)
			second := sendtest.Attempt(t, org, who, "key")
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
		pool := pgtest.New(t, schema.Migrations())
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // or a failure would wait for the pool
		_, err = tx.Exec(t.Context(), "lock table consents")
		require.NoError(t, err)
		failed := make(chan error, 1)
		a := sendtest.Attempt(t, uuid.Must(uuid.NewV7()), sendtest.Phone(t, "+14155550123"), "key")
		go func() {
			_, err := sendtest.NewStore(pool).Claim(t.Context(), a)
			failed <- err
		}()
		require.Eventually(t, func() bool { // Postgres has no signal for a backend that waits
			tag, err := pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock'`)
			return err == nil && tag.RowsAffected() == 1
		}, 10*time.Second, time.Millisecond)
		require.ErrorIs(t, <-failed, sms.ErrUnavailable)
	})

	t.Run("DefectIsNot", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, schema.Migrations())
		_, err := pgtest.Owner(t, pool).Exec(t.Context(), "alter table consents rename to elsewhere")
		require.NoError(t, err)
		_, err = sendtest.NewStore(pool).Claim(t.Context(), sendtest.Attempt(t, uuid.Must(uuid.NewV7()), sendtest.Phone(t, "+14155550123"), "key"))
		require.Error(t, err)
		require.NotErrorIs(t, err, sms.ErrUnavailable, "a missing table does not come back by asking again")
	})
}
