package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/session"
)

// scene is one session that went well, and three webhooks, which a test then spoils.
type scene struct {
	t *testing.T
	*population
	session, profile, phone string
	at                      time.Time
}

func newScene(t *testing.T) *scene {
	t.Helper()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := &scene{
		t: t, at: at, session: uuid.Must(uuid.NewV7()).String(), profile: uuid.Must(uuid.NewV7()).String(), phone: "+14155550001",
		population: &population{clock: clock.NewSettable(at), began: at, recorder: &recorder{}, flow: session.DefaultFlow(), product: product{
			// The owner rigs what the service may not do.
			onboardingDB: pgtest.Owner(t, pgtest.New(t, onboarding.Migrations())), messagingDB: pgtest.Owner(t, pgtest.New(t, messaging.Migrations())),
		}},
	}
	s.exec(s.onboardingDB, `insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
		values ($1, $2, $3, 'Ana', 'en', 'UTC', $4, $4)`, s.profile, uuid.NewString(), s.phone, s.at)
	s.exec(s.onboardingDB, `insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
		select $1, org_id, id, 'interviewing', 'interview:activity_01', 'active', '1', $2, $2 from profiles`, s.session, s.at)
	for i, text := range []string{"opening", "explanation:1", "onboarding_message_1", "onboarding_message_2", "onboarding_message_3", "onboarding_message_4"} {
		s.text(text, s.at.Add(time.Duration(i)*8*time.Second))
	}
	s.exec(s.onboardingDB, sqlRecordEnds)
	s.kapso = newSender(s.population, Soak{Processes: Processes{Seed: 7, Duration: time.Second}, Rate: 3}, "secret")
	for n := range 3 {
		s.row("kapso.survey.response:" + s.kapso.eventID(n))
		require.Empty(t, s.kapso.accept(n, []byte(`{"status":"processed"}`)))
	}
	require.Empty(t, s.kapso.accept(1, []byte(`{"status":"duplicate"}`)), "its answer was lost, or it is a duplicate")
	s.complete()
	return s
}

// row is a webhook that was stored.
func (s *scene) row(key string) {
	s.t.Helper()
	s.exec(s.onboardingDB, `insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
		values ($1, $2, $3, 'kapso', 'kapso.survey.response', '', '{}', 'pending', now(), now(), now())`, uuid.NewString(), uuid.NewString(), key)
}

// complete does every job that is open.
func (s *scene) complete() {
	s.t.Helper()
	s.exec(s.onboardingDB, `update webhook_jobs set status = 'completed', processed_at = now(), next_retry_at = null where status = 'pending'`)
}

func (s *scene) exec(db *pgxpool.Pool, sql string, args ...any) {
	s.t.Helper()
	_, err := db.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

// text is sent, taken and stored.
func (s *scene) text(name string, at time.Time) {
	s.t.Helper()
	s.keyed(fmt.Sprintf("onboarding:%s:%s:%s", s.profile, s.session, name), at)
}

// keyed is a text under a key.
func (s *scene) keyed(key string, at time.Time) {
	s.t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	sid := s.take(id, at)
	s.exec(s.messagingDB, `insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status,
		twilio_sid, segments, correlation_id, attempt_token, lease_until, attempts, accepted_at, created_at, updated_at)
		values ($1, $2, 'outbound', '+12025550100', $3, 'x', sha256('x'), $4, 'delivered', $5, 1, '', $2, $6, 1, $6, $6, $6)`,
		id, uuid.NewString(), s.phone, key, sid, at)
}

// take has Twilio take a text for a row.
func (s *scene) take(id string, at time.Time) (sid string) {
	sid = "SM" + uuid.NewString()
	s.recorder.observe(twilio.Event{At: at, Kind: twilio.EventCreated, Message: twilio.Message{
		SID: sid, To: s.phone, Direction: twilio.DirectionAPI, CreatedAt: at, StatusCallback: "http://h/s?message_id=" + id + "#rc=3",
	}})
	return sid
}

// TestExamine spoils one thing after the other: an examination that cannot fail would prove nothing.
func TestExamine(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	examine := func(t *testing.T, s *scene) Verdict {
		t.Helper()
		v, err := s.population.examine(t.Context())
		require.NoError(t, err)
		return v
	}
	t.Run("FindsNothingInAConversationThatWentWell", func(t *testing.T) {
		t.Parallel()
		v := examine(t, newScene(t))
		require.Empty(t, v.Broken)
		require.True(t, v.Kept())
		require.Equal(t, map[string]int{"interviewing": 1}, v.Ended)
		require.Equal(t, 6, v.Texts)
		require.Equal(t, Intake{Accepted: 3, Rows: 3}, *v.Intake)
	})

	t.Run("OneConfirmationAfterEachStopIsAllowed", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		for _, key := range []string{"consent:stop:SM1", "consent:stop:SM2"} {
			s.recorder.stopped(s.phone, s.at)
			s.keyed(key, s.at.Add(time.Hour))
			s.recorder.restarts(s.phone, s.at)
		}
		require.Empty(t, examine(t, s).Broken)
	})

	for _, tt := range flaws() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			tt.spoil(s)
			v := examine(t, s)
			require.False(t, v.Kept())
			require.Positive(t, tt.found(v), v.Broken)
		})
	}
}

// flaw is one thing that is spoiled, and the counter that has to find it.
type flaw struct {
	name  string
	spoil func(s *scene)
	found func(v Verdict) int
}

func flaws() []flaw {
	const ofStep2 = `like '%onboarding_message_2'`
	return []flaw{
		{"FindsATextThatWasTakenTwice", func(s *scene) {
			var id string
			require.NoError(s.t, s.messagingDB.QueryRow(s.t.Context(), `select id::text from sms_messages where idempotency_key `+ofStep2).Scan(&id))
			sid := s.take(id, s.at.Add(time.Hour))
			s.exec(s.messagingDB, `update sms_messages set twilio_sid = $1 where id = $2`, sid, id)
		}, func(v Verdict) int { return v.Duplicates }},
		{"FindsAStepThatWasSkipped", func(s *scene) {
			s.exec(s.messagingDB, `delete from sms_messages where idempotency_key `+ofStep2)
		}, func(v Verdict) int { return v.Losses }},
		{"FindsATextThatNoRowKnows", func(s *scene) { s.take(uuid.NewString(), s.at) }, func(v Verdict) int { return v.OrphanTexts }},
		{"FindsStepsThatChangedPlaces", func(s *scene) {
			s.exec(s.messagingDB, `update sms_messages set idempotency_key = replace(replace(replace(idempotency_key, 'e_2', 'e_x'), 'e_3', 'e_2'), 'e_x', 'e_3')
				where idempotency_key ~ 'message_[23]$'`)
		}, func(v Verdict) int { return v.OutOfOrder }},
		{"FindsAStepThatCameTooEarly", func(s *scene) {
			s.flow = flowWithDelay(s.t, 8001)
		}, func(v Verdict) int { return v.TooEarly }},
		{"FindsATextAfterTheStop", func(s *scene) {
			s.recorder.stopped(s.phone, s.at)
			s.text("later:9", s.at.Add(time.Hour))
		}, func(v Verdict) int { return v.AfterStop }},
		{"FindsARequestAfterTheStopThatTwilioRefused", func(s *scene) {
			s.recorder.stopped(s.phone, s.at)
			s.recorder.observe(twilio.Event{Kind: twilio.EventRefused, Code: 21610, Message: twilio.Message{To: s.phone, Direction: twilio.DirectionAPI}})
		}, func(v Verdict) int { return v.AfterStop }},
		{"FindsASecondConfirmationOfTheStop", func(s *scene) {
			s.recorder.stopped(s.phone, s.at)
			s.keyed("consent:stop:SM1", s.at.Add(time.Hour))
			s.keyed("consent:stop:SM2", s.at.Add(time.Hour))
		}, func(v Verdict) int { return v.AfterStop }},
		{"FindsHelpAfterTheStop", func(s *scene) {
			s.recorder.stopped(s.phone, s.at)
			s.keyed("consent:help:SM1", s.at.Add(time.Hour))
		}, func(v Verdict) int { return v.AfterStop }},
		{"FindsABurstThatWaitsForEver", func(s *scene) {
			s.exec(s.onboardingDB, `update conversation_sessions set mode = 'onboarding', state_token = 'onboarding:awaiting_burst', next_step_id = 'onboarding_message_4'`)
		}, func(v Verdict) int { return v.Stranded }},
		{"FindsAReplyThatIsNotAnswered", func(s *scene) {
			s.exec(s.onboardingDB, `update conversation_sessions set mode = 'onboarding', state_token = 'onboarding:awaiting_interview_start'`)
			s.exec(s.onboardingDB, `insert into session_transitions (session_id, at, kind, trigger) values ($1, $2, 'sent', 'step')`, s.session, s.at)
			s.exec(s.messagingDB, `insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, status, twilio_sid, segments,
				correlation_id, attempts, consent_effect, created_at, updated_at)
				values ($1, $1, 'inbound', $2, '+12025550100', 'yes', sha256('x'), 'received', 'SMin', 1, '', 0, 'none', $3, $3)`,
				uuid.NewString(), s.phone, s.at.Add(time.Hour))
		}, func(v Verdict) int { return v.Stranded }},
		{"FindsASessionThatIsParkedWithoutAReason", func(s *scene) {
			s.exec(s.onboardingDB, `update conversation_sessions set status = 'stuck'`)
		}, func(v Verdict) int { return v.Silent }},
		{"FindsASendThatIsNotSettled", func(s *scene) {
			s.exec(s.messagingDB, `update sms_messages set status = 'unknown', twilio_sid = null, accepted_at = null where idempotency_key like '%opening'`)
		}, func(v Verdict) int { return v.Unsettled }},
		{"FindsAJobThatNoWorkerTakes", func(s *scene) {
			s.exec(s.onboardingDB, `insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
				values ($1, $1, 'k', 'internal', 'e', 's', '{}', 'pending', $2, $2, $2)`, uuid.NewString(), s.at)
		}, func(v Verdict) int { return v.OrphanRows }},
		{"FindsASessionThatWaitsForAnAnswerToATextThatWasNeverSent", func(s *scene) {
			s.exec(s.onboardingDB, `update conversation_sessions set mode = 'onboarding', state_token = 'onboarding:awaiting_opening_response'`)
			s.exec(s.messagingDB, `delete from sms_messages where idempotency_key like '%:opening'`)
		}, func(v Verdict) int { return v.Losses }},
		{"FindsAPersonWhoseTextWasAcknowledgedAndCameToNothing", func(s *scene) {
			s.exec(s.onboardingDB, `update conversation_sessions set mode = 'onboarding', state_token = 'onboarding:awaiting_interview_start'`)
			s.cast = []*person{{session: s.session, spoke: 1}}
		}, func(v Verdict) int { return v.Stranded }},
		{"FindsAPersonWhoStillWaits", func(s *scene) { s.cast = []*person{{pending: 1}} }, func(v Verdict) int { return v.Unfinished }},
		{"FindsAStopThatDoesNotHold", func(s *scene) {
			s.cast = []*person{{phone: s.phone, wish: consent.OptedOut}}
		}, func(v Verdict) int { return v.ConsentErrors }},
		{"FindsACallThatWasRefused", func(s *scene) { s.problems = []string{"person 1 could not be enrolled"} }, func(v Verdict) int { return len(v.Broken) }},
		{"FindsAnAlarmThatWasNeverPublished", func(s *scene) {
			s.exec(s.onboardingDB, `insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_until, created_at)
				values ($1, $1, $2, $3, 'onboarding_message_4', 'onboarding:awaiting_burst', 1, $4, $4, $4)`, uuid.NewString(), s.session, s.profile, s.at)
		}, func(v Verdict) int { return v.OrphanRows }},
		{"FindsAWebhookThatWasAcceptedAndIsNoRow", func(s *scene) {
			s.exec(s.onboardingDB, `delete from webhook_jobs where idempotency_key like '%.2'`)
		}, func(v Verdict) int { return v.Lost }},
		{"FindsAWebhookThatIsTwoRows", func(s *scene) {
			s.row("kapso.survey.response:" + s.kapso.eventID(0))
			s.complete()
		}, func(v Verdict) int { return v.Doubled }},
		{"FindsAWebhookThatWasCalledNewTwice", func(s *scene) {
			s.kapso.accept(0, []byte(`{"status":"processed"}`))
		}, func(v Verdict) int { return v.Doubled }},
		{"FindsAWebhookThatWasNotDone", func(s *scene) {
			s.exec(s.onboardingDB, `update webhook_jobs set status = 'failed' where idempotency_key like '%.1'`)
		}, func(v Verdict) int { return v.NotDoneOnce }},
		{"FindsAWebhookThatWasDoneTwice", func(s *scene) {
			s.exec(s.onboardingDB, `update webhook_jobs set status = 'pending', processed_at = null, next_retry_at = now() where idempotency_key like '%.1'`)
			s.complete()
		}, func(v Verdict) int { return v.NotDoneOnce }},
		{"FindsARowThatWasNeverPosted", func(s *scene) {
			s.row("kapso.survey.response:other")
			s.complete()
		}, func(v Verdict) int { return len(v.Broken) }},
		{"FindsAWebhookThatWasNeverAccepted", func(s *scene) {
			s.kapso.accepted[2].Store(0)
			s.exec(s.onboardingDB, `delete from webhook_jobs where idempotency_key like '%.2'`)
		}, func(v Verdict) int { return v.NeverAccepted }},
		{"FindsAWebhookThatWasRefusedForGood", func(s *scene) { s.kapso.note("401 Unauthorized", false) }, func(v Verdict) int { return len(v.Broken) }},
	}
}

func flowWithDelay(t *testing.T, ms int) session.Flow {
	t.Helper()
	flow, err := session.ParseFlow(fmt.Appendf(nil, `{"version": "t", "steps": [
		{"id": "onboarding_message_1", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
		{"id": "onboarding_message_2", "text": "ONBOARDING_MESSAGE_2", "delay_ms": %d}]}`, ms))
	require.NoError(t, err)
	return flow
}
