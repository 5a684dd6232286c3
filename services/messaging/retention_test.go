package messaging

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/retention"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/sendtest"
)

const day = 24 * time.Hour

var (
	retained = kept{Messages: 400 * day, Receipts: 90 * day, Consent: 5 * 365 * day, Outbound: 30 * day, Audit: 400 * day}
	today    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func TestRules(t *testing.T) {
	t.Parallel()
	pgtest.CheckRetention(t, schema.Migrations(), retentionRules(retained), "../../docs/security-and-privacy.md")
}

// keeping is a database that a test passes over.
type keeping struct {
	*testing.T

	db, owner platform.DB // the owner makes rows old
}

func keeps(t *testing.T) keeping {
	t.Helper()
	db := pgtest.New(t, schema.Migrations())
	return keeping{t, db, pgtest.Owner(t, db)}
}

func (k keeping) pass() {
	k.Helper()
	log := slog.New(slog.DiscardHandler)
	sweep := retention.Sweep{
		DB: k.db, Rules: retentionRules(retained), Log: log, Now: func() time.Time { return today },
		Own: func(ctx context.Context) (retention.Own, error) { return ownRetention(ctx, k.db, retained, log) },
	}
	require.NoError(k, sweep.Pass(k.Context()))
}

func (k keeping) does(sql string, args ...any) {
	k.Helper()
	_, err := k.owner.Exec(k.Context(), sql, args...)
	require.NoError(k, err)
}

func (k keeping) count(sql string, args ...any) (n int) {
	k.Helper()
	require.NoError(k, k.db.QueryRow(k.Context(), "select count(*) from "+sql, args...).Scan(&n))
	return n
}

// message is one to sendtest.Theirs that was begun at an instant and came to a status, with a receipt and a look.
func (k keeping) message(org uuid.UUID, key, status string, at time.Time) {
	k.Helper()
	claimed, err := sendtest.NewStore(k.db).Claim(k.Context(), sendtest.Attempt(k.T, org, sendtest.Phone(k.T, sendtest.Theirs), key))
	require.NoError(k, err)
	require.True(k, claimed.Won)
	sid := any("SM" + key)
	if status == "throttled" || status == "unknown" || status == "rejected" {
		sid = nil
	}
	k.does(`update sms_messages set status = $2, created_at = $3, attempted_at = $3, lease_until = $3, twilio_sid = $4, next_look_at = null,
		accepted_at = case when $4::text is not null then $3::timestamptz end where idempotency_key = $1`, key, status, at, sid)
	k.does(`insert into sms_receipts (message_id, twilio_sid, status, error_code, raw, received_at)
		select id, 'SM' || $1, 'sent', 0, '{}', $2 from sms_messages where idempotency_key = $1`, key, at)
	k.does(`insert into sms_looks (message_id, at, finding, detail, candidates) select id, $2, 'absent', '', '[]' from sms_messages where idempotency_key = $1`, key, at)
}

func TestRetention(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	ago := func(days int) time.Time { return today.Add(-time.Duration(days) * day) }

	t.Run("WordsAreTakenOutAndTheKeyStillHolds", func(t *testing.T) {
		t.Parallel()
		k, org := keeps(t), uuid.New()
		k.message(org, "old", "delivered", ago(401))
		k.message(org, "new", "delivered", ago(399))
		k.pass()
		require.Equal(t, 1, k.count(`sms_messages where idempotency_key = 'old' and body = ''`))
		require.Equal(t, 1, k.count(`sms_messages where idempotency_key = 'new' and body <> ''`))
		require.Zero(t, k.count(`sms_receipts where received_at < $1`, ago(90)))
		require.Equal(t, 2, k.count(`sms_looks`))
		again, err := sendtest.NewStore(k.db).Claim(t.Context(), sendtest.Attempt(t, org, sendtest.Phone(t, sendtest.Theirs), "old"))
		require.NoError(t, err)
		require.False(t, again.Won, "it would go out a second time")
		require.NotNil(t, again.Message)
		require.Equal(t, "SMold", again.Message.SID)
	})

	t.Run("AnOrganisationKeepsForATimeThatItChose", func(t *testing.T) {
		t.Parallel()
		k := keeps(t)
		usual, longer, shorter := uuid.New(), uuid.New(), uuid.New()
		for org, days := range map[uuid.UUID]string{
			longer: `{"messages": 3000, "receipts": 500}`, shorter: `{"messages": 60, "receipts": 40, "consent": 365}`,
		} {
			k.does(`insert into organisation_settings (org_id, sending, retention, version, updated_at) values ($1, '{}', $2, 1, $3)`, org, days, today)
		}
		for org, age := range map[uuid.UUID]int{usual: 401, longer: 401, shorter: 61} {
			k.message(org, org.String(), "delivered", ago(age))
		}
		k.does(`update sms_receipts r set org_id = m.org_id from sms_messages m where m.id = r.message_id`)
		k.does(`insert into sms_receipts (twilio_sid, status, error_code, raw, received_at) select 'SM' || d, 'sent', 0, '{}', $1::timestamptz - make_interval(days => d)
			from unnest(array[91, 89]) d`, today)
		k.pass()
		words := func(org uuid.UUID) int { return k.count(`sms_messages where body <> '' and org_id = $1`, org) }
		receipts := func(org uuid.UUID) int {
			return k.count(`sms_receipts where message_id in (select id from sms_messages where org_id = $1)`, org)
		}
		require.Equal(t, []int{0, 1, 0}, []int{words(usual), words(longer), words(shorter)})
		require.Equal(t, []int{0, 1, 0}, []int{receipts(usual), receipts(longer), receipts(shorter)})
		require.Equal(t, 1, k.count(`sms_receipts where message_id is null`), "about no message of ours: as the deployment says")

		k.does(`update sms_messages set created_at = $1, attempted_at = $1`, ago(5*365+1))
		k.does(`update sms_messages set created_at = $1, attempted_at = $1 where org_id = $2`, ago(366), shorter)
		k.does(`update consents set updated_at = (select created_at from sms_messages m where m.org_id = consents.org_id)`)
		k.does(`alter table consent_events disable trigger consent_events_append_only`)
		k.does(`update consent_events set at = (select created_at from sms_messages m where m.org_id = consent_events.org_id)`)
		k.does(`alter table consent_events enable trigger consent_events_append_only`)
		k.pass()
		for _, table := range []string{"consents", "sms_messages"} {
			left := func(org uuid.UUID) int { return k.count(table+` where org_id = $1`, org) }
			require.Equal(t, []int{0, 1, 0}, []int{left(usual), left(longer), left(shorter)}, "%s: a ledger stays as long as the words of its messages", table)
		}
	})

	t.Run("AMessageWhoseOutcomeIsOpenStaysAsItIs", func(t *testing.T) {
		t.Parallel()
		k, org := keeps(t), uuid.New()
		k.message(org, "k", "unknown", ago(4000))
		k.pass()
		require.Equal(t, 1, k.count(`sms_messages where body <> ''`))
	})

	t.Run("OneThatIsTriedAgainAfterItsWordsWereTakenOutHasThemAgain", func(t *testing.T) {
		t.Parallel()
		k, org := keeps(t), uuid.New()
		k.message(org, "k", "throttled", ago(401))
		k.pass()
		require.Equal(t, 1, k.count(`sms_messages where body = ''`))
		a := sendtest.Attempt(t, org, sendtest.Phone(t, sendtest.Theirs), "k")
		again, err := sendtest.NewStore(k.db).Claim(t.Context(), a)
		require.NoError(t, err)
		require.True(t, again.Won)
		require.EqualValues(t, a.Body, again.Message.Body)
	})

	t.Run("ALedgerGoesAsAWholeWithTheMessagesThatNothingNamesAnyMore", func(t *testing.T) {
		t.Parallel()
		k, org := keeps(t), uuid.New()
		k.message(org, "k", "delivered", ago(5*365+1))
		k.does(`update consents set updated_at = $1`, ago(5*365+1))
		k.does(`alter table consent_events disable trigger consent_events_append_only`)
		k.does(`update consent_events set at = $1, message_id = (select id from sms_messages)`, ago(5*365+1))
		k.does(`alter table consent_events enable trigger consent_events_append_only`)
		k.pass()
		for _, table := range []string{"consents", "consent_events", "sms_messages", "sms_receipts", "sms_looks"} {
			require.Zero(t, k.count(table), table)
		}
	})

	for name, stays := range map[string]struct{ state, line, message int }{
		"ALedgerStaysAfterANewLine":         {line: 10},
		"ALedgerStaysAfterANewMessage":      {message: 10},
		"AnOptOutStaysHoweverLongItWasSaid": {state: 1},
		"WhatTwilioBlocksStays":             {state: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, org := keeps(t), uuid.New()
			days := func(set int) time.Time {
				if set > 0 {
					return ago(set)
				}
				return ago(5*365 + 1)
			}
			k.message(org, "k", "delivered", days(stays.message))
			k.does(`update consents set updated_at = $1, state = case $2::int when 1 then 'opted_out' else state end, carrier_blocks = $2 = 2`,
				ago(5*365+1), stays.state)
			k.does(`alter table consent_events disable trigger consent_events_append_only`)
			k.does(`update consent_events set at = $1`, days(stays.line))
			k.does(`alter table consent_events enable trigger consent_events_append_only`)
			k.pass()
			_, err := k.db.Exec(t.Context(), `select forget_ledger($1, $2, $3)`, org, sendtest.Theirs, today)
			require.NoError(t, err)
			require.Equal(t, 1, k.count(`consents`), "neither a pass nor the service's own call forgets it")
			require.Equal(t, 1, k.count(`consent_events`))
		})
	}

	t.Run("TheServiceForgetsNoRecordOfLessThanAYearAndMakesNoneOlder", func(t *testing.T) {
		t.Parallel()
		k, org := keeps(t), uuid.New()
		k.message(org, "k", "delivered", ago(4000))
		_, err := k.db.Exec(t.Context(), `update sms_messages set created_at = $1`, ago(4001))
		require.ErrorContains(t, err, "created_at of sms_messages does not change")
		k.does(`update sms_messages set created_at = now() - interval '364 days'`)
		_, err = k.db.Exec(t.Context(), `select forget_messages(array(select id from sms_messages))`)
		require.NoError(t, err)
		for _, table := range []string{"sms_messages", "sms_receipts", "sms_looks"} {
			require.Equal(t, 1, k.count(table), table)
		}
	})

	t.Run("TheServiceForgetsNoLedgerWithinAYearOfAMessage", func(t *testing.T) {
		t.Parallel()
		k, org := keeps(t), uuid.New()
		k.message(org, "k", "delivered", ago(4000))
		k.does(`alter table consent_events disable trigger consent_events_append_only`)
		k.does(`update consent_events set at = $1`, ago(4000))
		k.does(`alter table consent_events enable trigger consent_events_append_only`)
		for _, after := range []struct{ days, left int }{{364, 1}, {366, 0}} {
			k.does(`update sms_messages set attempted_at = now() - make_interval(days => $1)`, after.days)
			_, err := k.db.Exec(t.Context(), `select forget_ledger($1, $2, $3)`, org, sendtest.Theirs, today)
			require.NoError(t, err)
			require.Equal(t, after.left, k.count(`consents`), after.days)
		}
	})

	t.Run("TheServiceForgetsNoCallOfLessThanAMonth", func(t *testing.T) {
		t.Parallel()
		k := keeps(t)
		k.does(`insert into audit (id, at, org_id, subject, role, client_address, request_id, method)
			select gen_random_uuid(), now() - make_interval(days => d), gen_random_uuid(), 's', 'operator', '', '', 'm' from unnest(array[29, 31]) d`)
		k.does(`insert into sms_receipts (twilio_sid, status, error_code, raw, received_at)
			select 'SM' || d, 'sent', 0, '{}', now() - make_interval(days => d) from unnest(array[29, 31]) d`)
		for _, table := range []string{"audit", "sms_receipts"} {
			_, err := k.db.Exec(t.Context(), `delete from `+table)
			require.NoError(t, err)
			require.Equal(t, 1, k.count(table))
		}
	})

	for name, tt := range map[string]struct{ before, deed, refused string }{
		"TheEndOfACallIsAddedOnce": {
			before: `insert into audit (id, at, org_id, subject, role, client_address, request_id, method, outcome)
				values (gen_random_uuid(), now(), gen_random_uuid(), 's', 'operator', '', '', 'm', 'OK')`,
			deed: `update audit set outcome = 'NOT_FOUND', target_id = gen_random_uuid()`, refused: "in audit already",
		},
		"AnActorIsReadable": {
			before: `insert into consents (org_id, phone, state, updated_at) values ('` + uuid.Nil.String() + `', '+14155550100', 'opted_in', now())`,
			deed: `set app.current_actor = '{"subject": ["olga"]}';
				insert into consent_events (org_id, phone, at, state, source, words, sender)
				values ('` + uuid.Nil.String() + `', '+14155550100', now(), 'opted_in', 'first_send', '', '')`,
			refused: "actor_is_of_strings",
		},
		"NoAnchorSkipsANumber":       {deed: `insert into ledger_anchors (number, at, ledgers, hash) values (5, now(), 1, repeat('0', 64))`, refused: "not the next one"},
		"AMessageIsNotSimplyDeleted": {deed: `delete from sms_messages`, refused: "permission denied"},
		"NoPersonIsErasedWithoutARecordOfIt": {
			deed:    `select erase_person(gen_random_uuid(), '+14155550100', gen_random_uuid(), 'none', now(), '{}', '{}')`,
			refused: "is not kept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keeps(t)
			if tt.before != "" {
				k.does(tt.before)
			}
			_, err := k.db.Exec(t.Context(), tt.deed)
			require.ErrorContains(t, err, tt.refused)
		})
	}

	t.Run("TheWorkerOfTheServiceMayForgetAndATenantMayNot", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t, schema.Migrations())
		pool, err := platform.OpenFor(t.Context(), "messaging", platform.Config{URL: url})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		_, err = pool.Exec(platform.AcrossOrganisations(t.Context()), `select forget_ledger($1, '', $2)`, uuid.New(), today)
		require.NoError(t, err)
		_, err = pool.Exec(platform.ForOrganisation(t.Context(), uuid.NewString()), `select forget_ledger($1, '', $2)`, uuid.New(), today)
		require.ErrorContains(t, err, "permission denied")
	})
}
