package conversation_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/session"
)

// Also: S4-01.
func TestMigrations(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, platform.Migrations{})
	pool, err := platform.Open(t.Context(), platform.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	tables := func() []string {
		rows, err := pool.Query(t.Context(), `select relname::text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
			and relname <> 'goose_db_version' order by 1`)
		require.NoError(t, err)
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return names
	}
	all := []string{
		"alarm_jobs", "api_keys", "audit", "beats", "conversation_sessions", "dead_letters", "delivery_reservations", "device_nodes", "devices", "engagement_actions", "engagement_outreach", "engagement_runs", "engagement_state_transitions",
		"erasures", "event_deliveries", "event_feed", "event_log_starts", "event_outbox", "event_subscriptions", "event_types", "events", "flow_count_changes", "flow_counts", "flow_drafts", "flow_publications", "flow_run_people", "flow_runs", "flow_versions", "goal_alarms", "goal_readings", "goal_transitions", "goals", "held_replies", "histories", "household_members", "inbound_sweeps", "organisation_settings", "organisations", "profile_fields", "profiles", "restores", "saved_replies", "scheduling_pauses", "session_transitions", "settings_versions",
		"step_alarms", "ticket_answers", "ticket_notes", "tickets", "user_engagement_states", "webhook_jobs",
	}
	m := schema.Migrations()
	require.NoError(t, m.Up(t.Context(), url))
	require.Equal(t, all, tables())
	require.NoError(t, m.Down(t.Context(), url))
	require.Empty(t, tables())
	require.NoError(t, m.Up(t.Context(), url))
	require.Equal(t, all, tables())
	require.NoError(t, m.Ready(t.Context(), pool))
}

// TestIndexes asks the planner what it would do once the tables are large: whatever a loop asks for every second must
// not read all of a table.
func TestIndexes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	for _, tt := range []struct {
		name string
		sql  string
		want string
	}{
		{
			name: "AuditOfAnOrganisation", sql: `select id from audit where org_id = '00000000-0000-7000-8000-000000000001' order by at desc, id desc limit 9`,
			want: "audit_by_org",
		},
		{
			name: "AuditOfACaller", sql: `select id from audit where org_id = '00000000-0000-7000-8000-000000000001' and subject = 'ada' order by at desc, id desc limit 9`,
			want: "audit_by_subject",
		},
		{
			name: "AuditOfAPerson", sql: `select id from audit where org_id = '00000000-0000-7000-8000-000000000001' and profile_id = '00000000-0000-7000-8000-000000000001' order by at desc, id desc limit 9`,
			want: "audit_by_profile",
		},
		{
			name: "AuditOfAThing", sql: `select id from audit where org_id = '00000000-0000-7000-8000-000000000001' and target_id = '00000000-0000-7000-8000-000000000001' order by at desc, id desc limit 9`,
			want: "audit_by_target",
		},
		{
			name: "AuditOfAPhone", sql: `select id from audit where org_id = '00000000-0000-7000-8000-000000000001' and phone = '+15005550006' order by at desc, id desc limit 9`,
			want: "audit_by_phone",
		},
		{name: "AuditToForget", sql: `select id from audit where at < now() order by at limit 9`, want: "audit_by_age"},
		{name: "DueJobs", sql: `select id from webhook_jobs where status = 'pending' and next_retry_at <= now()`, want: "idx_webhook_jobs_pending"},
		{name: "SessionOfAJobThatIsClearedAway", sql: `select id from conversation_sessions where parked_job_id = '00000000-0000-7000-8000-000000000001'`, want: "conversation_sessions_by_parked_job"},
		{name: "S2_12_DueJobsOfAnOrganisation", sql: `select id from webhook_jobs where status = 'pending' and org_id = gen_random_uuid() and next_retry_at <= now() order by next_retry_at, id limit 9`, want: "idx_webhook_jobs_pending"},
		{name: "JobsOfAnOrganisation", sql: `select id from webhook_jobs where org_id = '00000000-0000-7000-8000-000000000001' order by id desc limit 9`, want: "webhook_jobs_by_org"},
		{
			name: "JobsOfAType", sql: `select id from webhook_jobs where org_id = '00000000-0000-7000-8000-000000000001' and event_type = 'rare' order by id desc limit 9`,
			want: "webhook_jobs_by_rare_type",
		},
		{
			name: "OutreachOfAType", sql: `select id from engagement_outreach where org_id = '00000000-0000-7000-8000-000000000001' and event_type = 'rare' order by id desc limit 9`,
			want: "engagement_outreach_by_type",
		},
		{
			name: "SessionsWhereTheyStand", sql: `select id from conversation_sessions where org_id = '00000000-0000-7000-8000-000000000001' and state_token = 'rare' order by id desc limit 9`,
			want: "conversation_sessions_by_token",
		},
		{
			name: "JobsThatNameAPerson", sql: `select id from webhook_jobs where processed_at is not null
				and names_in(idempotency_key, subject, payload) && array['15005550001']`,
			want: "webhook_jobs_by_name",
		},
		{
			name: "JobsOfAUserName", sql: `select id from webhook_jobs where org_id = '00000000-0000-7000-8000-000000000001' and subject like 'whatsapp:%'
				and subject = (select 'whatsapp:' || whatsapp_user_id from profiles limit 1)`,
			want: "webhook_jobs_nameless",
		},
		{name: "JobsToClearAway", sql: `select id from webhook_jobs where processed_at is not null and processed_at < now() order by processed_at, id limit 9`, want: "webhook_jobs_ended"},
		{name: "AbandonedJobs", sql: `select id from webhook_jobs where status = 'processing' and lease_until <= now()`, want: "webhook_jobs_leased"},
		{name: "ExpiredReservations", sql: `select key from delivery_reservations where expires_at <= now() order by expires_at limit 16`, want: "delivery_reservations_expired"},
		{name: "UnpublishedAlarms", sql: `select id from step_alarms where published_at is null and lease_until <= now()`, want: "step_alarms_unpublished"},
		{
			name: "SessionsOfAFlow", sql: `select id from conversation_sessions where org_id = '00000000-0000-7000-8000-000000000001' and flow = 'visit' and status = 'stopped' order by id desc limit 9`,
			want: "conversation_sessions_of_flow",
		},
		{
			name: "ChangesOfAFunnel", sql: `select id from flow_count_changes where org_id = '00000000-0000-7000-8000-000000000001' and flow = 'visit'`,
			want: "flow_count_changes_of_flow",
		},
		{
			name: "SessionsThatWereCompleted", sql: `select id from conversation_sessions where org_id = '00000000-0000-7000-8000-000000000001' and completed_at >= now() and completed_at < now() order by completed_at limit 9`,
			want: "conversation_sessions_by_completion",
		},
		{
			name: "SessionsInABurst", sql: `select count(*) from conversation_sessions where sweep_at is not null`,
			want: "conversation_sessions_sweep_at",
		},
		{
			name: "NewestSession", sql: `select id from conversation_sessions where profile_id = gen_random_uuid() order by id desc limit 1`,
			want: "conversation_sessions_by_profile",
		},
		{name: "PeopleWhoOptedOut", sql: `select id from profiles where org_id = '00000000-0000-7000-8000-000000000001' and opted_out_at is not null order by id desc limit 9`, want: "profiles_opted_out"},
		{
			name: "PeopleOfAName", sql: `select id from profiles where org_id = '00000000-0000-7000-8000-000000000001'
				and name_key >= key_of_name('JOÃO') and name_key < key_of_name('JOÃO') || chr(1114111) order by name_key limit 9`,
			want: "profiles_by_name",
		},
		{name: "PeopleOfALanguage", sql: `select id from profiles where org_id = '00000000-0000-7000-8000-000000000001' and locale = 'en' order by id desc limit 9`, want: "profiles_by_locale"},
		{name: "DeadLettersThatAskForAnOperator", sql: `select count(*) from dead_letters where replayed_at is null and handled_at is null`, want: "dead_letters_unhandled"},
		{name: "DeadLettersThatAStepHandles", sql: `select id from dead_letters where session_id = any(array[gen_random_uuid()]) and replayed_at is null and handled_at is null`, want: "dead_letters_unhandled"},
		{name: "DeadLettersThatAreOpen", sql: `select id from dead_letters where replayed_at is null order by id desc limit 9`, want: "dead_letters_open"},
		{
			name: "DeadLettersOfASession", sql: `select id from dead_letters where session_id = gen_random_uuid() order by id desc limit 9`,
			want: "dead_letters_by_session",
		},
		{
			name: "S4_06_PeopleByState", sql: `select profile_id from user_engagement_states where org_id = '00000000-0000-7000-8000-000000000001' and state = 'dormant' order by profile_id limit 9`,
			want: "user_engagement_states_by_state",
		},
		{
			name: "S4_06_PeopleWhoAreAwayFor14Days", sql: `select profile_id from user_engagement_states where org_id = '00000000-0000-7000-8000-000000000001' and state = 'active'
				and (last_activity_at, profile_id) > ('-infinity', '00000000-0000-7000-8000-000000000001') and last_activity_at <= now() order by last_activity_at, profile_id limit 500`,
			want: "user_engagement_states_by_activity",
		},
		{
			name: "S4_06_PeopleOfTheWeek", sql: `select profile_id from user_engagement_states where org_id = '00000000-0000-7000-8000-000000000001' and state in ('active', 'help_flow')
				and last_activity_at >= now() order by last_activity_at, profile_id limit 500`,
			want: "user_engagement_states_by_activity",
		},
		{
			name: "S4_06_GoodbyesThatExpired", sql: `select profile_id from user_engagement_states where org_id = '00000000-0000-7000-8000-000000000001' and state = 'goodbye_sent'
				and goodbye_expires_at <= now() order by goodbye_expires_at, profile_id limit 500`,
			want: "user_engagement_states_goodbye_expires",
		},
		{
			name: "S4_06_RemindersThatAreDue", sql: `select profile_id from user_engagement_states where org_id = '00000000-0000-7000-8000-000000000001' and state = 'remind_later'
				and remind_at <= now() order by remind_at, profile_id limit 500`,
			want: "user_engagement_states_remind",
		},
		{name: "S4_06_StateOfAPerson", sql: `select state from user_engagement_states where profile_id = '00000000-0000-7000-8000-000000000001'`, want: "user_engagement_states_profile_id_key"},
		{
			name: "S4_06_HistoryOfAPerson", sql: `select id from engagement_state_transitions where profile_id = '00000000-0000-7000-8000-000000000001' order by id desc limit 9`,
			want: "engagement_state_transitions_by_profile",
		},
		{
			name: "S4_06_TransitionsOfATime", sql: `select trigger, count(*) from engagement_state_transitions where org_id = '00000000-0000-7000-8000-000000000001'
				and created_at >= now() and created_at < now() group by 1`,
			want: "engagement_state_transitions_by_time",
		},
		{
			name: "S4_06_OutreachThatIsDue", sql: `select id from engagement_outreach where status = 'pending' and org_id = '00000000-0000-7000-8000-000000000001' and priority = 0
				and next_retry_at <= now() order by next_retry_at, id limit 9`,
			want: "engagement_outreach_due",
		},
		{
			name: "ActionsOfAMonth", sql: `select count(*) from engagement_actions where org_id = '00000000-0000-7000-8000-000000000001'
				and profile_id = '00000000-0000-7000-8000-000000000001' and action = 'add_expense' and category = 'food' and occurred_at >= now() and occurred_at < now()`,
			want: "engagement_actions_by_profile",
		},
		{name: "ActionsToForget", sql: `select id from engagement_actions where created_at < now() order by created_at, id limit 9`, want: "engagement_actions_by_age"},
		{
			name: "ActionOfACause", sql: `select answer from engagement_actions where profile_id = '00000000-0000-7000-8000-000000000001' and cause = 'action:1'`,
			want: "engagement_actions_once",
		},
		{name: "S4_06_PendingOutreach", sql: `select count(*) from engagement_outreach where status = 'pending'`, want: "engagement_outreach_due"},
		{
			name: "S4_06_OutreachOfAPerson", sql: `select id from engagement_outreach where org_id = '00000000-0000-7000-8000-000000000001' and profile_id = '00000000-0000-7000-8000-000000000001' order by id desc limit 9`,
			want: "engagement_outreach_by_profile",
		},
		{name: "AbandonedOutreach", sql: `select id from engagement_outreach where status = 'processing' and lease_until <= now()`, want: "engagement_outreach_leased"},
		{name: "OutreachToClearAway", sql: `select id from engagement_outreach where processed_at is not null and processed_at < now() order by processed_at, id limit 9`, want: "engagement_outreach_ended"},
		{
			name: "PeopleOfAState", sql: `select 1 from user_engagement_states where org_id = '00000000-0000-7000-8000-000000000001' and state = 'dormant' limit 9`,
			want: "user_engagement_states_by_state",
		},
		{
			name: "RunOfAPeriod", sql: `select from engagement_runs where org_id = '00000000-0000-7000-8000-000000000001' and job = 'daily' and period = '2026-11-20'`,
			want: "engagement_runs_once",
		},
		{
			name: "OutreachOfATime", sql: `select event_type from engagement_outreach where org_id = '00000000-0000-7000-8000-000000000001'
				and created_at >= now() order by created_at limit 9`,
			want: "engagement_outreach_by_time",
		},
		{name: "OutreachOfAnOrganisation", sql: `select id from engagement_outreach where org_id = '00000000-0000-7000-8000-000000000001' order by id desc limit 9`, want: "engagement_outreach_by_org"},
		{
			name: "OpenMessagesOfAPhone", sql: `select id from webhook_jobs where org_id = '00000000-0000-7000-8000-000000000001' and subject = '+1' and status in ('pending', 'processing') limit 1`,
			want: "webhook_jobs_unfinished_by_subject",
		},
		{
			name: "MembersOfAHousehold", sql: `select profile_id from household_members where org_id = '00000000-0000-7000-8000-000000000001' and household_id = '00000000-0000-7000-8000-000000000001' order by profile_id`,
			want: "household_members_by_household",
		},
		{name: "RunsThatAreOpen", sql: `select id from engagement_runs where status = 'running' order by nominal_at, id limit 9`, want: "engagement_runs_open"},
		{name: "Timeline", sql: `select id from session_transitions where session_id = gen_random_uuid() order by id`, want: "session_transitions_by_session"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
			_, err = tx.Exec(t.Context(), `set local enable_seqscan = off`)
			require.NoError(t, err)
			rows, err := tx.Query(t.Context(), `explain `+tt.sql)
			require.NoError(t, err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.Contains(t, strings.Join(lines, "\n"), tt.want)
		})
	}
}

// TestMove holds Move to its word: all of it, or nothing.
func TestMove(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	setup := func(t *testing.T) (*onboarding.Stores, session.Record, queue.Job) {
		t.Helper()
		store := onboarding.NewStores(pgtest.New(t, schema.Migrations()))
		p, err := store.CreateProfile(t.Context(), people.Profile{
			ID: uuid.NewString(), OrgID: uuid.NewString(), Phone: "+5511987650001", FirstName: "Ana", Locale: "en", TimeZone: "UTC", CreatedAt: now,
		})
		require.NoError(t, err)
		r, err := store.OpenSession(t.Context(), conversation.Opening{
			Phone: p.Phone,
			Session: session.Record{
				ID: uuid.NewString(), OrgID: p.OrgID, ProfileID: p.ID, Mode: session.Onboarding, Token: session.AwaitingOpeningResponse,
				Status: session.Active, CopyVersion: "2026-11", CreatedAt: now, UpdatedAt: now,
			},
			Job: queue.New{
				ID: uuid.NewString(), OrgID: p.OrgID, Key: "k", Extra: []string{conversation.SourceInternal}, EventType: "e", Subject: p.Phone, Payload: []byte(`{}`), At: now, DueAt: now,
			},
		})
		require.NoError(t, err)
		claimed, err := store.Jobs().Claim(t.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, claimed.Jobs, 1)
		return store, r, claimed.Jobs[0]
	}
	// begins is the start of a burst, which has everything that a move can have.
	begins := func(r session.Record) session.Move {
		m := session.Stay(r, now)
		m.Token, m.NextStep = session.AwaitingBurst, "onboarding_message_1"
		m.Alarm = &session.Alarm{
			ID: uuid.NewString(), OrgID: r.OrgID, SessionID: r.ID, ProfileID: r.ProfileID, StepID: m.NextStep, ExpectedStateToken: m.Token, Generation: 1, Cause: session.CauseDue,
			DueAt: now,
		}
		m.Entries = []session.Entry{{At: now, Kind: session.KindAdvanced, From: r.Token, To: m.Token, Trigger: session.TriggerReplyAdvance}}
		return m
	}

	t.Run("TakesEffectTogetherWithItsAlarmItsTimelineAndItsJob", func(t *testing.T) {
		t.Parallel()
		store, r, job := setup(t)
		require.NoError(t, store.Move(t.Context(), begins(r), &conversation.Cause{Job: job}))
		moved, err := store.Session(t.Context(), r.OrgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, []any{session.AwaitingBurst, session.StepID("onboarding_message_1"), 1}, []any{moved.Token, moved.NextStep, moved.Turn})
		require.Len(t, moved.Entries, 2)
		alarms, err := store.Alarms().Claim(t.Context(), 9, now, now)
		require.NoError(t, err)
		require.Len(t, alarms, 1)
		fenced, err := store.Jobs().Finish(t.Context(), []queue.Finish{{Job: job, Status: queue.StatusFailed, At: now}})
		require.NoError(t, err)
		require.Equal(t, []string{job.ID}, fenced)
	})

	for _, tt := range []struct {
		name string
		bend func(r *session.Record, job *queue.Job)
		want error
	}{
		{name: "OfAnotherTurnChangesNothing", bend: func(r *session.Record, _ *queue.Job) { r.Turn = 1 }, want: people.ErrConflict},
		{name: "FromAnotherTokenChangesNothing", bend: func(r *session.Record, _ *queue.Job) { r.Token = session.AwaitingExplanationResponse }, want: people.ErrConflict},
		{name: "FromAnotherStepChangesNothing", bend: func(r *session.Record, _ *queue.Job) { r.NextStep = "onboarding_message_2" }, want: people.ErrConflict},
		{name: "WithALostLeaseChangesNothing", bend: func(_ *session.Record, job *queue.Job) { job.LeaseToken = uuid.NewString() }, want: queue.ErrFenced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, r, job := setup(t)
			seen := r
			tt.bend(&seen, &job)
			require.ErrorIs(t, store.Move(t.Context(), begins(seen), &conversation.Cause{Job: job}), tt.want)
			after, err := store.Session(t.Context(), r.OrgID, r.ID)
			require.NoError(t, err)
			require.Equal(t, []any{r.Token, r.NextStep, 0}, []any{after.Token, after.NextStep, after.Turn})
			require.Len(t, after.Entries, 1)
			alarms, err := store.Alarms().Claim(t.Context(), 9, now, now)
			require.NoError(t, err)
			require.Empty(t, alarms)
		})
	}

	t.Run("OfManyAtOnceOneTakesEffectAndTheOthersAreToldWhyNot", func(t *testing.T) {
		t.Parallel()
		store, r, job := setup(t)
		answers := make(chan error, 24)
		for n := range cap(answers) {
			mine := job
			if n%2 == 0 {
				mine.LeaseToken = uuid.NewString()
			}
			go func() { answers <- store.Move(t.Context(), begins(r), &conversation.Cause{Job: mine}) }()
		}
		moved, fenced := 0, 0
		for range cap(answers) {
			switch err := <-answers; {
			case err == nil:
				moved++
			case errors.Is(err, queue.ErrFenced):
				fenced++ // also those of a job that the one has ended
			default:
				require.ErrorIs(t, err, people.ErrConflict)
			}
		}
		require.Equal(t, 1, moved)
		require.GreaterOrEqual(t, fenced, cap(answers)/2)
		after, err := store.Session(t.Context(), r.OrgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, 1, after.Turn)
		require.Len(t, after.Entries, 2)
	})

	t.Run("TheEndOfABurstAnswersItsHeldReplyAndOneThatWasOvertakenDoesNot", func(t *testing.T) {
		t.Parallel()
		store, r, job := setup(t)
		require.NoError(t, store.Move(t.Context(), begins(r), nil))
		r.Token, r.NextStep, r.Turn = session.AwaitingBurst, "onboarding_message_1", 1
		require.NoError(t, store.DeferReply(t.Context(), r, conversation.Cause{Job: job}, session.Entry{At: now, Kind: session.KindHeld}))
		ends := session.Stay(r, now)
		ends.Token, ends.NextStep, ends.AnswerHeldSince = session.AwaitingInterviewStart, "", now.Add(-time.Hour)
		pending := func() int {
			claimed, err := store.Jobs().Claim(t.Context(), queue.Claim{Limit: 9, Now: now, Until: now.Add(time.Minute)})
			require.NoError(t, err)
			return len(claimed.Jobs)
		}

		overtaken := ends
		overtaken.From.Turn, overtaken.From.Detours = 2, 1 // the same place of the conversation, and another turn
		require.ErrorIs(t, store.Move(t.Context(), overtaken, nil), people.ErrConflict)
		require.Zero(t, pending())
		require.NoError(t, store.Move(t.Context(), ends, nil))
		require.Equal(t, 1, pending())
	})

	t.Run("AHeldReplyIsNotAnsweredBehindAMoveThatParkedItsSession", func(t *testing.T) {
		t.Parallel()
		store, r, job := setup(t)
		require.NoError(t, store.Move(t.Context(), begins(r), nil))
		r.Token, r.NextStep, r.Turn = session.AwaitingBurst, "onboarding_message_1", 1
		require.NoError(t, store.DeferReply(t.Context(), r, conversation.Cause{Job: job}, session.Entry{At: now, Kind: session.KindHeld}))
		answered, err := store.AnsweredBehind(t.Context(), session.Park(r, now, session.Stuck, session.TriggerStep, "", "two executions at once"))
		require.NoError(t, err)
		require.Zero(t, answered, "the one that lost must not route the reply, which the resume does")
	})
}
