package onboarding_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/schema"
)

// refused undoes a statement, and says which constraint refused it.
func refused(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), sql, args...)
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		require.NoError(t, err)
		return ""
	}
	require.Contains(t, []string{"23505", "23514"}, refusal.Code, refusal.Message)
	return refusal.ConstraintName
}

// texts are the rows of a statement that answers one text each.
func texts(ctx context.Context, t *testing.T, db platform.DB, sql string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(ctx, sql, args...)
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return found
}

func TestEngagementTables(t *testing.T) {
	t.Parallel()
	url, pool, orgs, people := inhabited(t)
	const columns = `select column_name::text from information_schema.columns where table_name = $1 order by ordinal_position`

	for name, tt := range map[string]struct {
		table string
		want  string
	}{
		"S4_02_StatesHaveEveryColumn": {
			table: "user_engagement_states", want: "id profile_id state last_activity_at goodbye_sent_at goodbye_expires_at remind_at created_at updated_at",
		},
		"S4_03_TransitionsHaveEveryColumn": {
			table: "engagement_state_transitions", want: "id profile_id from_state to_state trigger metadata created_at",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Subset(t, texts(t.Context(), t, pool, columns, tt.table), strings.Fields(tt.want))
		})
	}

	t.Run("S4_04_QueueOfTheSeedIsAViewWithItsColumns", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, strings.Fields(`id user_id message_type message_key message_params destination destination_jid scheduled_for sent_at status
			retry_count error_message idempotency_key created_at`), texts(t.Context(), t, pool, columns, "engagement_message_queue"))
	})
	t.Run("S4_05_ProfileOfAReleaseThatKnowsNoneOfItHasTheDefaults", func(t *testing.T) {
		t.Parallel()
		got := texts(t.Context(), t, pool, `select concat_ws(' ', preferred_destination, reengagement_opt_out, onboarding_tips_enabled, onboarding_tier,
			onboarding_tier_progress, celebration_epoch, num_nonnulls(destination_chosen_at, reengagement_changed_at, opted_out_at, consent_changed_at,
			magic_moment_at)) from profiles where id = $1`, people[0])
		require.Equal(t, []string{"individual f t 0 {} 0 0"}, got)
	})
	t.Run("S4_08_EveryCheckRefusesWhatItIsFor", func(t *testing.T) {
		t.Parallel()
		everyCheckRefuses(t, pgtest.Owner(t, pool))
	})
	t.Run("S4_02_S4_03_S4_04_WhatIsOnceIsRefusedTwice", func(t *testing.T) {
		t.Parallel()
		whatIsOnce(t, pool, orgs)
	})
	t.Run("S4_04_ViewSaysTheStatusesOfTheSeed", func(t *testing.T) {
		t.Parallel()
		viewOfTheQueue(t, pool, orgs[0])
	})
	t.Run("S4_07_ViewShowsATenantItsOwnRowsAndAPersonNone", func(t *testing.T) {
		t.Parallel()
		scoped, err := platform.OpenFor(t.Context(), "onboarding", platform.Config{URL: url})
		require.NoError(t, err)
		defer scoped.Close()
		const sql = `select user_id::text from engagement_message_queue order by created_at, user_id`
		for _, tt := range []struct {
			name string
			org  string
			want int
		}{{"Ours", orgs[0], 2}, {"Theirs", orgs[1], 1}, {"OfNoOrganisation", "", 0}} {
			require.Len(t, texts(platform.ForOrganisation(t.Context(), tt.org), t, scoped, sql), tt.want, tt.name)
		}
		tag, err := scoped.Exec(platform.ForProfile(t.Context(), orgs[0], uuid.MustParse(people[0])), sql)
		require.NoError(t, err)
		require.Zero(t, tag.RowsAffected())
	})
}

// TestEngagementMigration goes up from the schema of the release before, in a database with people.
func TestEngagementMigration(t *testing.T) {
	t.Parallel()

	t.Run("S4_01_RunsBesideTheReleaseBeforeWithoutRewritingItsProfiles", func(t *testing.T) {
		t.Parallel()
		url, before := pgtest.URL(t, platform.Migrations{}), fstest.MapFS{}
		names, err := fs.Glob(schema.Migrations().FS, "*.sql")
		require.NoError(t, err)
		for _, name := range names {
			if name < "0015" {
				file, err := fs.ReadFile(schema.Migrations().FS, name)
				require.NoError(t, err)
				before[name] = &fstest.MapFile{Data: file}
			}
		}
		require.NoError(t, platform.Migrations{FS: before, Service: "onboarding"}.Up(t.Context(), url))
		pool, err := platform.Open(t.Context(), platform.Config{URL: url, MaxConns: 1})
		require.NoError(t, err)
		defer pool.Close()
		const enrolled = `insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
			values (gen_random_uuid(), $1, $2, 'Ada', 'en', 'UTC', now(), now())`
		const file = `select pg_relation_filenode('profiles')::text`
		_, err = pool.Exec(t.Context(), enrolled, uuid.Nil, "+15005550001")
		require.NoError(t, err)
		written := texts(t.Context(), t, pool, file)
		require.NoError(t, schema.Migrations().Up(t.Context(), url))
		require.Equal(t, written, texts(t.Context(), t, pool, file))
		_, err = pool.Exec(t.Context(), enrolled, uuid.Nil, "+15005550002")
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `update profiles set hold = true, updated_at = now() where phone = $1`, "+15005550001")
		require.NoError(t, err)
		require.Equal(t, []string{"individual f t 0 {}", "individual f t 0 {}"}, texts(t.Context(), t, pool, `select concat_ws(' ', preferred_destination,
			reengagement_opt_out, onboarding_tips_enabled, onboarding_tier, onboarding_tier_progress) from profiles`))
		require.Empty(t, texts(t.Context(), t, pool, `select id::text from user_engagement_states`), "an upgrade adds no state of a person")
	})
}

// everyCheckRefuses breaks each CHECK of the tables of engagement by itself, and finds none that is not broken here.
func everyCheckRefuses(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	broken := map[string]bool{}
	for constraint, statements := range violations {
		for _, sql := range statements {
			require.Equal(t, constraint, refused(t, pool, sql), sql)
		}
		broken[constraint] = true
	}
	for _, sql := range keptColumns {
		require.Empty(t, refused(t, pool, sql), sql)
	}
	for _, constraint := range texts(t.Context(), t, pool, `select conname::text from pg_constraint where contype = 'c' and (conrelid = any(array['household_members',
		'user_engagement_states', 'engagement_state_transitions', 'engagement_outreach', 'engagement_runs', 'event_outbox']::regclass[])
		or conrelid = 'profiles'::regclass and conname ~ 'destination|onboarding|celebration')`) {
		require.True(t, broken[constraint], "nothing breaks %s", constraint)
	}
	require.Empty(t, texts(t.Context(), t, pool, `select conname::text from pg_constraint where not convalidated`))
}

const (
	ofStates      = `update user_engagement_states set `
	ofTransitions = `update engagement_state_transitions set `
	ofOutreach    = `update engagement_outreach set `
	ofRuns        = `update engagement_runs set `
	atWork        = `status = 'processing', next_retry_at = null, lease_token = gen_random_uuid(), lease_until = now()`
	atItsEnd      = `next_retry_at = null, processed_at = now()`
)

// violations are statements that one constraint refuses, on rows that all keep to.
var violations = map[string][]string{
	"profiles_preferred_destination_check":    {`update profiles set preferred_destination = 'all'`},
	"profiles_onboarding_tier_check":          {`update profiles set onboarding_tier = 4`, `update profiles set onboarding_tier = -1`},
	"profiles_onboarding_tier_progress_check": {`update profiles set onboarding_tier_progress = '[]'`},
	"profiles_celebration_epoch_check":        {`update profiles set celebration_epoch = -1`},

	"user_engagement_states_state_check": {ofStates + `state = 'asleep'`},
	"a_goodbye_has_its_time":             {ofStates + `state = 'goodbye_sent'`},
	"a_goodbye_expires_after_it": {
		ofStates + `goodbye_expires_at = now()`, ofStates + `goodbye_sent_at = now(), goodbye_expires_at = now()`,
	},
	"a_reminder_has_its_time": {ofStates + `state = 'remind_later'`, ofStates + `remind_at = now()`},

	"engagement_state_transitions_from_state_check": {ofTransitions + `from_state = 'asleep'`},
	"engagement_state_transitions_to_state_check":   {`alter table engagement_state_transitions drop constraint a_trigger_leads_to_its_state; ` + ofTransitions + `to_state = 'asleep'`},
	"engagement_state_transitions_trigger_check": {
		`alter table engagement_state_transitions drop constraint a_trigger_leads_to_its_state, drop constraint a_trigger_comes_from_its_states; ` +
			ofTransitions + `trigger = 'whim'`,
	},
	"engagement_state_transitions_cause_check":    {ofTransitions + `cause = ''`},
	"engagement_state_transitions_metadata_check": {ofTransitions + `metadata = '1'`},
	"a_trigger_leads_to_its_state":                {ofTransitions + `to_state = 'dormant'`, ofTransitions + `from_state = 'active', trigger = 'inactivity_14d'`},
	"a_trigger_comes_from_its_states": {
		ofTransitions + `from_state = 'active'`, ofTransitions + `trigger = 'goodbye_timeout', to_state = 'dormant', from_state = 'help_flow'`,
		ofTransitions + `trigger = 'inactivity_14d', to_state = 'goodbye_sent'`, ofTransitions + `trigger = 'reminder_due', to_state = 'dormant'`,
		ofTransitions + `trigger = 'goodbye_response_2', to_state = 'remind_later', from_state = 'remind_later'`,
	},
	"only_a_choice_supersedes": {
		ofTransitions + `trigger = 'goodbye_response_1', to_state = 'help_flow', from_state = 'dormant'`, ofTransitions + `from_state = 'dormant', supersedes = id`,
	},

	"engagement_outreach_idempotency_key_check": {ofOutreach + `idempotency_key = ''`, ofOutreach + `idempotency_key = repeat('k', 201)`},
	"engagement_outreach_event_type_check":      {ofOutreach + `event_type = 'nag', priority = 1`},
	"engagement_outreach_subject_check":         {ofOutreach + `subject = ''`},
	"engagement_outreach_payload_check":         {ofOutreach + `payload = '"x"'`},
	"engagement_outreach_status_check": {
		`alter table engagement_outreach drop constraint a_job_at_its_end_has_an_end; ` + ofOutreach + `status = 'sent', ` + atItsEnd,
	},
	"engagement_outreach_attempts_check":     {ofOutreach + `attempts = -1`},
	"engagement_outreach_max_attempts_check": {ofOutreach + `max_attempts = 0`},
	"engagement_outreach_message_key_check":  {ofOutreach + `message_key = ''`},
	"engagement_outreach_destination_check":  {ofOutreach + `destination = 'all'`},
	"engagement_outreach_body_check":         {ofOutreach + `body = '', recipient = subject, locale = 'en'`},
	"engagement_outreach_outcome_check":      {ofOutreach + `outcome = 'lost'`},
	"a_pending_job_has_its_time":             {ofOutreach + `next_retry_at = null`},
	"a_job_at_work_has_its_fence":            {ofOutreach + `lease_token = gen_random_uuid()`},
	"a_job_at_work_has_its_lease":            {ofOutreach + `lease_until = now()`},
	"a_job_at_its_end_has_an_end":            {ofOutreach + `processed_at = now()`, ofOutreach + `status = 'completed', next_retry_at = null`},
	"a_type_has_its_priority":                {ofOutreach + `priority = 1`, ofOutreach + `event_type = 'goodbye'`},
	"only_a_group_has_members": {
		ofOutreach + `member_id = (select p.id from profiles p where p.id <> profile_id limit 1)`, ofOutreach + `destination = 'group', member_id = profile_id`,
	},
	"a_text_is_stored_whole": {ofOutreach + `body = 'Hi'`, ofOutreach + `body = 'Hi', recipient = subject`},
	"only_what_is_done_was_sent": {
		ofOutreach + `outcome = 'sent', message_id = id`, ofOutreach + `outcome = 'sent', status = 'completed', ` + atItsEnd,
	},

	"engagement_runs_job_check":       {ofRuns + `job = 'hourly', period = '2026-W47'`},
	"engagement_runs_status_check":    {ofRuns + `status = 'lost', finished_at = now()`},
	"engagement_runs_fence_check":     {ofRuns + `fence = -1`},
	"engagement_runs_processed_check": {ofRuns + `processed = -1`},
	"engagement_runs_succeeded_check": {ofRuns + `succeeded = -1`},
	"engagement_runs_failed_check":    {ofRuns + `failed = -1`},
	"engagement_runs_skipped_check":   {ofRuns + `skipped = '[]'`},
	"engagement_runs_worked_ms_check": {ofRuns + `worked_ms = -1`},
	"a_period_is_of_its_job":          {ofRuns + `period = '2026-W47'`, ofRuns + `job = 'weekly'`},
	"a_run_at_its_end_has_an_end":     {ofRuns + `status = 'completed'`, ofRuns + `finished_at = now()`},
	"a_lease_has_its_end":             {ofRuns + `lease_token = gen_random_uuid()`, ofRuns + `lease_until = now()`},
	"only_what_runs_is_leased": {
		ofRuns + `status = 'superseded', finished_at = now(), lease_token = gen_random_uuid(), lease_until = now()`,
	},

	"event_outbox_type_check":    {`update event_outbox set type = 'Goodbye sent'`},
	"event_outbox_subject_check": {`update event_outbox set subject = ''`},
	"event_outbox_data_check":    {`update event_outbox set data = '[]'`},
}

// keptColumns are the columns that the same constraints let pass: the states, the triggers, and what a choice may do late.
var keptColumns = []string{
	ofStates + `state = 'goodbye_sent', goodbye_sent_at = now()`,
	ofStates + `state = 'dormant', goodbye_sent_at = now(), goodbye_expires_at = now() + interval '48 hours'`,
	ofStates + `state = 'remind_later', remind_at = now()`,
	ofTransitions + `from_state = 'goodbye_sent'`, ofTransitions + `from_state = 'help_flow'`, ofTransitions + `from_state = 'remind_later'`,
	ofTransitions + `from_state = 'dormant'`,
	ofTransitions + `from_state = 'active', trigger = 'inactivity_14d', to_state = 'goodbye_sent'`,
	ofTransitions + `from_state = 'goodbye_sent', trigger = 'goodbye_response_1', to_state = 'help_flow'`,
	ofTransitions + `from_state = 'active', trigger = 'goodbye_response_2', to_state = 'remind_later'`,
	ofTransitions + `from_state = 'dormant', trigger = 'goodbye_response_3', to_state = 'dormant', supersedes = id`,
	ofTransitions + `from_state = 'goodbye_sent', trigger = 'goodbye_timeout', to_state = 'dormant'`,
	ofTransitions + `from_state = 'remind_later', trigger = 'reminder_due', to_state = 'dormant'`,
	ofOutreach + `event_type = 'weekly_review', priority = 1`, ofOutreach + atWork,
	ofOutreach + `outcome = 'sent', message_id = id, status = 'completed', ` + atItsEnd,
	ofOutreach + `destination = 'group', member_id = (select p.id from profiles p where p.id <> profile_id limit 1)`,
	ofRuns + `job = 'weekly', period = '2026-W47'`, ofRuns + `lease_token = gen_random_uuid(), lease_until = now()`,
}

// whatIsOnce copies rows under another id.
func whatIsOnce(t *testing.T, pool *pgxpool.Pool, orgs [2]string) {
	t.Helper()
	for table, tt := range map[string]struct {
		once    string
		changed map[string]any // what makes the copy another one
	}{
		"household_members":            {once: "household_members_pkey", changed: nil},
		"user_engagement_states":       {once: "user_engagement_states_profile_id_key"},
		"engagement_state_transitions": {once: "engagement_state_transitions_once", changed: map[string]any{"cause": "SM2"}},
		"engagement_outreach": {
			once: "engagement_outreach_org_id_idempotency_key_key", changed: map[string]any{"org_id": orgs[1]},
		},
		"engagement_runs": {once: "engagement_runs_once", changed: map[string]any{"period": "2026-11-22"}},
	} {
		again := func(changed map[string]any) string {
			t.Helper()
			changed["id"] = uuid.NewString()
			other, err := json.Marshal(changed)
			require.NoError(t, err)
			return refused(t, pool, "insert into "+table+" select (jsonb_populate_record(x, $1)).* from "+
				table+" x where x.org_id = $2 limit 1", other, orgs[0])
		}
		require.Equal(t, tt.once, again(map[string]any{}))
		if tt.changed != nil {
			require.Empty(t, again(tt.changed), table)
		}
	}
}

// viewOfTheQueue takes a row through what the engine makes of it.
func viewOfTheQueue(t *testing.T, pool *pgxpool.Pool, org string) {
	t.Helper()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		change, want string
	}{
		{``, "welcome engagementFirstMessage {} individual +15005550000 2026-11-21 12:00:00 - pending 0 -"},
		{
			`attempts = 1, next_retry_at = scheduled_for + interval '1 second', error_message = 'busy'`,
			"welcome engagementFirstMessage {} individual +15005550000 2026-11-21 12:00:01 - pending 1 busy",
		},
		{atWork, "welcome engagementFirstMessage {} individual +15005550000 2026-11-21 12:00:00 - pending 0 -"},
		{
			`status = 'completed', sent_at = scheduled_for + interval '2 seconds', recipient = '+15005550009', body = 'Hi', locale = 'en', ` + atItsEnd,
			"welcome engagementFirstMessage {} individual +15005550009 2026-11-21 12:00:00 2026-11-21 12:00:02 sent 0 -",
		},
		{`status = 'failed', error_message = 'no', ` + atItsEnd, "welcome engagementFirstMessage {} individual +15005550000 2026-11-21 12:00:00 - failed 0 no"},
		{`status = 'cancelled', outcome = 'capped', ` + atItsEnd, "welcome engagementFirstMessage {} individual +15005550000 2026-11-21 12:00:00 - cancelled 0 -"},
	} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		if tt.change != "" {
			_, err = tx.Exec(t.Context(), ofOutreach+tt.change+` where subject = '+15005550000'`)
			require.NoError(t, err)
		}
		require.Equal(t, []string{tt.want}, texts(t.Context(), t, tx, `select concat_ws(' ', message_type, message_key, message_params, destination, destination_jid,
			(scheduled_for at time zone 'UTC')::text, coalesce((sent_at at time zone 'UTC')::text, '-'), status, retry_count, coalesce(error_message, '-'))
			from engagement_message_queue q join profiles p on p.id = q.user_id
			where p.org_id = $1 and p.phone = '+15005550000' and q.idempotency_key = q.user_id || ':welcome:2026-11-21' and q.created_at = $2`, org, at))
		require.NoError(t, tx.Rollback(t.Context()))
	}
}
