package chaos

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/engagement/rules"
)

// story is a scene with a person whom engagement has followed for weeks, as it should: they wrote, were away, got a goodbye, answered 2,
// got the reminder that they were promised, and returned.
type story struct {
	*scene

	person                   *person
	wrote, away, chose, back string // messages, and the transition of the goodbye
}

// When things happened in a story.
var (
	firstDay  = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	decidedAt = time.Date(2026, 10, 16, 6, 0, 0, 0, time.UTC)
	saidAt    = decidedAt.Add(6 * time.Hour)
	choseAt   = saidAt.Add(time.Hour)
	remindAt  = time.Date(2026, 10, 31, 6, 0, 0, 0, time.UTC)
	backAt    = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
)

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{scene: newScene(t)}
	s.person = &person{phone: s.phone}
	s.cast, s.byPhone = []*person{s.person}, map[string]*person{s.phone: s.person}
	daily, weekly := "", ""
	for at := decidedAt.AddDate(0, 0, -2); at.Before(s.at); at = at.AddDate(0, 0, 1) {
		if run := s.run(rules.Daily, at); daily == "" {
			daily = run
		}
		if at.Weekday() == time.Monday {
			weekly = s.run(rules.Weekly, at.Add(3*time.Hour))
		}
	}
	s.wrote, s.chose, s.back = s.says("hi", firstDay), s.says("2", choseAt), s.says("oi", backAt)
	s.moves("", "active", "user_message", "message:"+s.wrote, firstDay, "{}")
	s.away = s.moves("active", "goodbye_sent", "inactivity_14d", "run:"+daily, decidedAt, "{}")
	s.touch("goodbye", s.away, saidAt)
	s.moves("goodbye_sent", "remind_later", "goodbye_response_2", "message:"+s.chose, choseAt, "{}")
	s.touch("reminder", s.moves("remind_later", "dormant", "reminder_due", "run:"+weekly, remindAt, "{}"), remindAt.Add(4*time.Hour))
	newest := s.moves("dormant", "active", "user_message", "message:"+s.back, backAt, "{}")
	s.exec(s.onboardingDB, `insert into user_engagement_states (id, org_id, profile_id, state, last_activity_at, transition_id, created_at, updated_at)
		select $1, org_id, id, 'active', $2, $3, $2, $2 from profiles`, uuid.NewString(), backAt, newest)
	return s
}

// run is one that has ended.
func (s *story) run(job rules.Job, nominal time.Time) (id string) {
	id = uuid.Must(uuid.NewV7()).String()
	s.exec(s.onboardingDB, `insert into engagement_runs (id, org_id, job, period, nominal_at, status, config_hash, finished_at, created_at, updated_at)
		select $1, org_id, $2, $3, $4, 'completed', 'x', $4, $4, $4 from profiles`, id, string(job),
		rules.DefaultConfig().Calendar.Newest(job, nominal).Name, nominal)
	return id
}

// says is a message of the person that messaging has stored, and that they know of.
func (s *story) says(words string, at time.Time) (id string) {
	id = uuid.Must(uuid.NewV7()).String()
	s.exec(s.messagingDB, `insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, status, twilio_sid, segments,
		correlation_id, attempts, consent_effect, created_at, updated_at)
		values ($1, $1, 'inbound', $2, '+12025550100', $4, sha256('x'), 'received', 'SM' || $5, 1, '', 0, 'none', $3, $3)`, id, s.phone, at, words, id)
	s.person.dones = append(s.person.dones, done{doing: doing{words: words}, from: at, to: at})
	return id
}

func (s *story) moves(from, to, trigger, cause string, at time.Time, metadata string) (id string) {
	id = uuid.Must(uuid.NewV7()).String()
	s.exec(s.onboardingDB, `insert into engagement_state_transitions (id, org_id, profile_id, from_state, to_state, trigger, cause, metadata, created_at)
		select $1, org_id, id, nullif($2, ''), $3, $4, $5, $6, $7 from profiles`, id, from, to, trigger, cause, metadata, at)
	return id
}

// touch is outreach that Twilio took.
func (s *story) touch(kind, transition string, at time.Time) (key string) {
	key = s.profile + ":" + kind + ":" + uuid.NewString()
	s.keyed(key, at)
	var message string
	require.NoError(s.t, s.messagingDB.QueryRow(s.t.Context(), `select id::text from sms_messages where idempotency_key = $1`, key).Scan(&message))
	s.exec(s.onboardingDB, `insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, priority, status, processed_at, profile_id,
		transition_id, message_key, local_day, scheduled_for, expires_at, recipient, locale, body, message_id, sent_at, outcome, created_at, updated_at)
		select $1, org_id, $2, $3, phone, 1, 'completed', $4, id, $5, 'k', ($4::timestamptz)::date, $4, $4, phone, 'en', 'x', $6, $4, 'sent', $4, $4 from profiles`,
		uuid.Must(uuid.NewV7()).String(), key, kind, at, transition, message)
	return key
}

// TestExamineEngagement spoils one thing after the other, as TestExamine does.
func TestExamineEngagement(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	t.Run("FindsNothingInAStoryThatWentWell", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		v, err := s.population.examine(t.Context())
		require.NoError(t, err)
		require.Empty(t, v.Broken)
		require.Equal(t, map[string]int{"goodbye sent": 1, "reminder sent": 1}, v.Outreach)
		require.Equal(t, map[string]int{"active": 1}, v.Standing)
	})
	for _, tt := range flawsOfEngagement() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			tt.spoil(s)
			v, err := s.population.examine(t.Context())
			require.NoError(t, err)
			require.Positive(t, tt.found(v.Engaged), v.Broken)
		})
	}
}

type flawOfEngagement struct {
	name  string
	spoil func(s *story)
	found func(e Engaged) int
}

func flawsOfEngagement() []flawOfEngagement {
	second := func(e Engaged) int { return e.SecondGoodbyes }
	active := func(e Engaged) int { return e.WhileActive }
	unexplained := func(e Engaged) int { return e.Unexplained }
	off := func(e Engaged) int { return e.AfterOff }
	missing := func(e Engaged) int { return e.RunsMissing }
	open := func(e Engaged) int { return e.LeftOpen }
	notOnce := func(e Engaged) int { return e.NotOnce }
	did := func(s *story, at time.Time, what doing) {
		s.person.dones = append(s.person.dones, done{doing: what, from: at, to: at})
	}
	return []flawOfEngagement{
		{"FindsTwoGoodbyesOfOneTransition", func(s *story) { s.touch("goodbye", s.away, saidAt) }, second},
		{"FindsTwoGoodbyesWithNothingInBetween", func(s *story) {
			other := s.moves("active", "goodbye_sent", "inactivity_14d", "run:x", decidedAt, "{}")
			s.touch("goodbye", other, saidAt.Add(time.Minute))
		}, second},
		{"FindsAGoodbyeToWhoDidSomethingWithinFourteenDays", func(s *story) {
			did(s, decidedAt.Add(-13*day), doing{action: "add_expense"})
		}, active},
		{"FindsAGoodbyeThatWasClaimedAfterThePersonWrote", func(s *story) { did(s, saidAt.Add(-time.Second), doing{words: "hi"}) }, active},
		{"FindsAStateThatTheAuditDoesNotLeadTo", func(s *story) {
			s.exec(s.onboardingDB, `update user_engagement_states set state = 'dormant'`)
		}, unexplained},
		{"FindsATransitionFromElsewhere", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_state_transitions set from_state = 'remind_later' where cause = $1`, "message:"+s.back)
		}, unexplained},
		{"FindsATransitionThatTheRulesDoNotKnow", func(s *story) {
			s.moves("dormant", "active", "user_message", "message:"+s.back+"x", backAt, "{}")
		}, unexplained},
		{"FindsATransitionByAMessageThatWasNeverWritten", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_state_transitions set cause = 'message:x' where cause = $1`, "message:"+s.wrote)
		}, unexplained},
		{"FindsATransitionByARunThatNeverWas", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_state_transitions set cause = 'run:x' where trigger = 'inactivity_14d'`)
		}, unexplained},
		{"FindsAChoiceThatThePersonDidNotMake", func(s *story) {
			s.exec(s.messagingDB, `update sms_messages set body = '3' where id = $1`, s.chose)
		}, unexplained},
		{"FindsAReminderThatCameTooEarly", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_state_transitions set created_at = $1 where trigger = 'reminder_due'`, choseAt.Add(13*day))
		}, unexplained},
		{"FindsATimeoutThatCameTooEarly", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_state_transitions set trigger = 'goodbye_timeout', to_state = 'dormant', cause = 'run:x',
				metadata = '{"goodbye_expires_at": "2026-12-01T00:00:00Z"}' where trigger = 'goodbye_response_2'`)
		}, unexplained},
		{"FindsAChoiceThatMovedNothing", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_state_transitions set cause = $1 where trigger = 'goodbye_response_2'`, "message:"+s.wrote)
		}, func(e Engaged) int { return e.ChoicesLost }},
		{"FindsANudgeAfterStopReminders", func(s *story) { s.says("stop reminders", decidedAt.Add(-15*day)) }, off},
		{"FindsANudgeAfterRemindersWereSwitchedOffOnThePage", func(s *story) {
			did(s, decidedAt, doing{page: map[string]string{"reminders": "off"}})
		}, off},
		{"FindsTwoNudgesOnOneDay", func(s *story) { s.touch("weekly_review", s.away, saidAt.Add(time.Hour)) }, func(e Engaged) int { return e.OverCap }},
		{"FindsOutreachAtNight", func(s *story) {
			s.exec(s.onboardingDB, `update profiles set time_zone = 'Pacific/Auckland'`)
		}, func(e Engaged) int { return e.AtNight }},
		{"FindsAPeriodWithoutARun", func(s *story) {
			s.exec(s.onboardingDB, `delete from engagement_runs where period = '2026-11-01'`)
		}, missing},
		{"FindsARunThatDidNotEnd", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_runs set status = 'running', finished_at = null where period = '2026-W46'`)
		}, missing},
		{"FindsOutreachThatIsStillOpen", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_outreach set status = 'pending', outcome = '', processed_at = null, next_retry_at = created_at`)
		}, open},
		{"FindsAGoodbyeWhoseTimeIsOver", func(s *story) {
			s.exec(s.onboardingDB, `update user_engagement_states set state = 'goodbye_sent', goodbye_sent_at = $1, goodbye_expires_at = $2`, decidedAt, choseAt)
		}, open},
		{"FindsOutreachThatIsCalledSentAndWasNot", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_outreach set idempotency_key = 'other' where event_type = 'reminder'`)
		}, notOnce},
		{"FindsOutreachThatWasSentAndIsNotCalledSo", func(s *story) {
			s.exec(s.onboardingDB, `update engagement_outreach set status = 'failed', outcome = 'rejected' where event_type = 'reminder'`)
		}, notOnce},
		{"FindsAWishThatDoesNotHold", func(s *story) { s.person.wantsReminders = consent.Off }, func(e Engaged) int { return e.WishesUndone }},
	}
}
