package onboarding_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/schema"
)

const day = 24 * time.Hour

var (
	retained = onboarding.Kept{
		Messages: 60 * day, Timeline: 400 * day, Alarms: 90 * day, Engagement: 400 * day, Goals: 90 * day, Jobs: 30 * day, Events: 7 * day, Audit: 400 * day,
	}
	today = time.Date(2024, 11, 20, 12, 0, 0, 0, time.UTC) // so long ago that the database's clock keeps nothing
)

func TestRules(t *testing.T) {
	t.Parallel()
	pgtest.CheckRetention(t, schema.Migrations(), onboarding.Rules(retained), "../../docs/security-and-privacy.md")
}

// over ends all that can end of an organisation.
var over = []string{
	`update conversation_sessions set status = 'closed', updated_at = $2 where org_id = $1`,
	`update tickets set status = 'closed', outcome = 'resume', closed_at = $2 where org_id = $1`,
	`update step_alarms set published_at = $2, qstash_message_id = 'm' where org_id = $1`,
	`update engagement_runs set status = 'completed', finished_at = $2 where org_id = $1`,
	`insert into engagement_runs (id, org_id, job, period, nominal_at, status, config_hash, created_at, updated_at)
	values (gen_random_uuid(), $1, 'daily', '2027-01-01', $2, 'running', 'c', $2, $2)`,
	`insert into engagement_state_transitions (id, org_id, profile_id, to_state, trigger, cause, created_at)
	select gen_random_uuid(), org_id, id, 'active', 'user_message', 'SM0', $2 from profiles where org_id = $1`,
}

// settles stores a person in a new organisation, with a row in every table, as of an instant.
func settles(t *testing.T, db platform.DB, at time.Time) (org string) {
	t.Helper()
	org = uuid.NewString()
	_, err := db.Exec(t.Context(), household, pgx.NamedArgs{"org": org, "profile": uuid.NewString(), "phone": "+15005550001", "at": at})
	require.NoError(t, err)
	return org
}

func ends(t *testing.T, db platform.DB, org string, at time.Time) {
	t.Helper()
	for _, sql := range over {
		_, err := db.Exec(t.Context(), sql, org, at)
		require.NoError(t, err)
	}
}

// rowsOf counts what there is of an organisation in the tables that retention deletes from.
func rowsOf(t *testing.T, db platform.DB, org string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for table, where := range map[string]string{
		"session_transitions": "kind = 'activated' and session_id in (select id from conversation_sessions where org_id = $1)", "step_alarms": "org_id = $1",
		"held_replies": "session_id in (select id from conversation_sessions where org_id = $1)", "dead_letters": "org_id = $1", "audit": "org_id = $1",
		"engagement_state_transitions": "org_id = $1", "engagement_runs": "org_id = $1", "engagement_actions": "org_id = $1",
	} {
		var n int
		require.NoError(t, db.QueryRow(t.Context(), `select count(*) from `+table+` where `+where, org).Scan(&n))
		counts[table] = n
	}
	return counts
}

func TestRetention(t *testing.T) {
	t.Parallel()
	all := map[string]int{
		"session_transitions": 1, "step_alarms": 1, "held_replies": 1, "dead_letters": 1, "audit": 1, "engagement_state_transitions": 2,
		"engagement_runs": 2, "engagement_actions": 1,
	}
	left := map[string]int{ // what stays of what is over: the newest of its kind
		"session_transitions": 0, "step_alarms": 0, "held_replies": 0, "dead_letters": 0, "audit": 0, "engagement_state_transitions": 1,
		"engagement_runs": 1, "engagement_actions": 0,
	}
	setup := func(t *testing.T) (*pgxpool.Pool, func()) {
		t.Helper()
		db := pgtest.New(t, schema.Migrations())
		own := func(ctx context.Context) (retention.Own, error) {
			return retention.ReadOwn(ctx, db, slog.New(slog.DiscardHandler))
		}
		sweep := &retention.Sweep{
			DB: db, Rules: onboarding.Rules(retained), Own: own, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return today },
		}
		return db, func() { require.NoError(t, sweep.Pass(t.Context())) }
	}

	t.Run("WhatIsOverIsDeletedAndNothingElse", func(t *testing.T) {
		t.Parallel()
		db, pass := setup(t)
		gone, recent, open := settles(t, db, today.Add(-401*day)), settles(t, db, today.Add(-29*day)), settles(t, db, today.Add(-89*day))
		ends(t, db, gone, today.Add(-401*day))
		ends(t, db, recent, today.Add(-29*day))
		pass()
		require.Equal(t, left, rowsOf(t, db, gone))
		require.Equal(t, all, rowsOf(t, db, recent))
		was := rowsOf(t, db, open)
		require.Equal(t, 1, was["session_transitions"])
		require.Equal(t, 1, was["held_replies"], "the burst goes on: it may still be answered")
		require.Equal(t, 1, was["step_alarms"])
	})

	t.Run("TheWordsOfATicketGoWithThoseOfMessages", func(t *testing.T) {
		t.Parallel()
		db, pass := setup(t)
		old, recent := settles(t, db, today.Add(-61*day)), settles(t, db, today.Add(-59*day))
		longer, shorter := settles(t, db, today.Add(-61*day)), settles(t, db, today.Add(-41*day))
		for org, days := range map[string]int{longer: 70, shorter: 40} {
			_, err := db.Exec(t.Context(), `update organisation_settings set retention = jsonb_build_object('messages', $2::int) where org_id = $1`, org, days)
			require.NoError(t, err)
		}
		for _, org := range []string{old, recent, longer, shorter} {
			_, err := db.Exec(t.Context(), `update tickets set last_text = 'my child is sick' where org_id = $1`, org)
			require.NoError(t, err)
			_, err = db.Exec(t.Context(), `update ticket_answers set status = 'sent' where org_id = $1`, org)
			require.NoError(t, err)
		}
		pass()
		words := func(org string) (n int) {
			require.NoError(t, db.QueryRow(t.Context(), `select (select count(*) from tickets where org_id = $1 and last_text <> '')
				+ (select count(*) from ticket_answers where org_id = $1) + (select count(*) from ticket_notes where org_id = $1)`, org).Scan(&n))
			return n
		}
		require.Zero(t, words(old))
		require.Equal(t, 3, words(recent))
		require.Equal(t, 3, words(longer), "its organisation keeps them for longer")
		require.Zero(t, words(shorter), "its organisation keeps them for less")
		var tickets int
		require.NoError(t, db.QueryRow(t.Context(), `select count(*) from tickets where org_id = $1`, old).Scan(&tickets))
		require.Equal(t, 1, tickets, "that there was one stays as long as the timeline")
	})

	t.Run("ASessionThatGoesOnKeepsItsTimelineAndItsAlarmsHoweverOldTheyAre", func(t *testing.T) {
		t.Parallel()
		db, pass := setup(t)
		org := settles(t, db, today.Add(-500*day))
		_, err := db.Exec(t.Context(), `update conversation_sessions set state_token = 'onboarding:awaiting_burst', next_step_id = 'onboarding_message_1'
			where org_id = $1`, org)
		require.NoError(t, err)
		pass()
		was := rowsOf(t, db, org)
		require.Equal(t, 1, was["session_transitions"])
		require.Equal(t, 1, was["step_alarms"])
		require.Equal(t, 1, was["held_replies"])
	})

	t.Run("AnEndedSessionSaysThatItsTimelineIsGone", func(t *testing.T) {
		t.Parallel()
		db, pass := setup(t)
		org := settles(t, db, today.Add(-500*day))
		ends(t, db, org, today.Add(-500*day))
		pass()
		pass()
		var id string
		require.NoError(t, db.QueryRow(t.Context(), `select id::text from conversation_sessions where org_id = $1`, org).Scan(&id))
		story, err := conversation.NewStore(db, people.NewStore(db)).Session(t.Context(), org, id)
		require.NoError(t, err)
		require.Len(t, story.Entries, 1)
		require.Equal(t, onboarding.TimelineDeleted, story.Entries[0].Detail)
		require.Equal(t, today, story.Entries[0].At.UTC())
	})

	t.Run("AnOrganisationKeepsForATimeOfItsOwn", func(t *testing.T) {
		t.Parallel()
		db, pass := setup(t)
		longer, shorter := settles(t, db, today.Add(-401*day)), settles(t, db, today.Add(-40*day))
		for org, days := range map[string]int{longer: 500, shorter: 35} {
			ends(t, db, org, map[string]time.Time{longer: today.Add(-401 * day), shorter: today.Add(-40 * day)}[org])
			_, err := db.Exec(t.Context(), `update organisation_settings set retention = jsonb_build_object('timeline', $2::int, 'alarms', $2::int, 'engagement', $2::int,
				'audit', $2::int) where org_id = $1`, org, days)
			require.NoError(t, err)
		}
		pass()
		was := rowsOf(t, db, longer)
		for _, table := range []string{"session_transitions", "step_alarms", "audit", "engagement_state_transitions", "engagement_runs"} {
			require.Equal(t, all[table], was[table], table)
		}
		was = rowsOf(t, db, shorter)
		for _, table := range []string{"session_transitions", "step_alarms", "audit", "engagement_state_transitions", "engagement_runs"} {
			require.Equal(t, left[table], was[table], table)
		}
	})

	t.Run("TheServiceDeletesNoCallOfLessThanAMonthAndChangesNoneThatHasEnded", func(t *testing.T) {
		t.Parallel()
		db, _ := setup(t)
		_, err := db.Exec(t.Context(), `insert into audit (id, at, org_id, subject, role, client_address, request_id, method, outcome)
			select gen_random_uuid(), now() - make_interval(days => d), gen_random_uuid(), 's', 'operator', '', '', 'm', 'OK' from unnest(array[29, 31]) d`)
		require.NoError(t, err)
		_, err = db.Exec(t.Context(), `update audit set outcome = 'NOT_FOUND'`)
		require.ErrorContains(t, err, "in audit already")
		tag, err := db.Exec(t.Context(), `delete from audit`)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	})

	t.Run("NothingWaitsForARowThatIsInUseAndTheRestIsDeleted", func(t *testing.T) {
		t.Parallel()
		db, pass := setup(t)
		used, free := settles(t, db, today.Add(-500*day)), settles(t, db, today.Add(-500*day))
		ends(t, db, used, today.Add(-500*day))
		ends(t, db, free, today.Add(-500*day))
		require.NoError(t, platform.InTx(t.Context(), db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `select from conversation_sessions where org_id = $1 for update`, used); err != nil {
				return err
			}
			pass() // it would wait for this transaction, which waits for it
			return nil
		}))
		require.Equal(t, 1, rowsOf(t, db, used)["session_transitions"])
		require.Zero(t, rowsOf(t, db, free)["session_transitions"])
		pass()
		require.Zero(t, rowsOf(t, db, used)["session_transitions"])
	})
}
