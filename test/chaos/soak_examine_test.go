package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding"
)

// soaked is a soak of three events that went well, which a test then spoils.
type soaked struct {
	t      *testing.T
	db     *pgxpool.Pool
	sender *sender
	report SoakReport
}

func newSoaked(t *testing.T) *soaked {
	t.Helper()
	s := &soaked{t: t, db: pgtest.New(t, onboarding.Migrations())}
	s.exec(sqlRecordEnds)
	s.sender = newSender(Soak{Seed: 7, Rate: 3, Duration: time.Second, Clock: clock.System()}, "", "secret")
	for n := range 3 {
		s.row("kapso.survey.response:" + s.sender.eventID(n))
		require.Empty(t, s.sender.accept(n, []byte(`{"status":"processed"}`)))
	}
	require.Empty(t, s.sender.accept(1, []byte(`{"status":"duplicate"}`)), "its answer was lost, or it is a duplicate")
	s.exec(`update webhook_jobs set status = 'completed', processed_at = now(), next_retry_at = null`)
	return s
}

func (s *soaked) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.db.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

func (s *soaked) row(key string) {
	s.t.Helper()
	s.exec(`insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
		values ($1, $2, $3, 'kapso', 'kapso.survey.response', '', '{}', 'pending', now(), now(), now())`, uuid.NewString(), uuid.NewString(), key)
}

func (s *soaked) broken() string {
	s.t.Helper()
	require.NoError(s.t, s.report.examine(s.t.Context(), s.db, s.sender))
	return strings.Join(s.report.Broken, "\n")
}

func TestSoakExamine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(s *soaked)
		want  string // empty means that every promise was kept
	}{
		{name: "AllWell", spoil: func(*soaked) {}},
		{name: "AcceptedAndNoRow", spoil: func(s *soaked) { s.exec(`delete from webhook_jobs where idempotency_key like '%.2'`) }, want: "event 2 was accepted 1 times and is no row"},
		{name: "TwoRows", spoil: func(s *soaked) {
			s.row("kapso.survey.response:" + s.sender.eventID(0))
			s.exec(`update webhook_jobs set status = 'completed', processed_at = now(), next_retry_at = null where status = 'pending'`)
		}, want: "event 0 is 2 rows"},
		{name: "CalledNewTwice", spoil: func(s *soaked) { s.sender.accept(0, []byte(`{"status":"processed"}`)) }, want: "event 0 was called new 2 times"},
		{name: "NotDone", spoil: func(s *soaked) {
			s.exec(`update webhook_jobs set status = 'failed' where idempotency_key like '%.1'`)
		}, want: "event 1 is failed"},
		{name: "DoneTwice", spoil: func(s *soaked) {
			s.exec(`update webhook_jobs set status = 'pending', processed_at = null, next_retry_at = now() where idempotency_key like '%.1'`)
			s.exec(`update webhook_jobs set status = 'completed', processed_at = now(), next_retry_at = null where status = 'pending'`)
		}, want: "event 1 is completed, and was completed 2 times"},
		{name: "ARowThatNobodyPosted", spoil: func(s *soaked) { s.row("kapso.survey.response:other") }, want: "nobody posted that"},
		{name: "NeverAccepted", spoil: func(s *soaked) {
			s.sender.accepted[2].Store(0)
			s.exec(`delete from webhook_jobs where idempotency_key like '%.2'`)
		}, want: "event 2 was never accepted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSoaked(t)
			tt.spoil(s)
			if tt.want == "" {
				require.Empty(t, s.broken())
				return
			}
			require.Contains(t, s.broken(), tt.want)
		})
	}
}

func TestSoakSender(t *testing.T) {
	t.Parallel()
	s := newSender(Soak{Seed: 7, Rate: 1, Duration: time.Second, RetryAfter: 10 * time.Second, Clock: clock.System()}, "", "secret")

	t.Run("RepeatsAsKapsoDoes", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []time.Duration{10 * time.Second, 40 * time.Second, 90 * time.Second, 90 * time.Second},
			[]time.Duration{s.retryAfter(1), s.retryAfter(2), s.retryAfter(3), s.retryAfter(4)})
	})
	t.Run("AnAcceptanceThatSaysSomethingElseIsNone", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "accepted as ignored", s.accept(0, []byte(`{"status":"ignored"}`)))
		require.NotEmpty(t, s.accept(0, []byte(`ok`)))
		require.Zero(t, s.acceptedEvents())
	})
}

func TestSoakSilence(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(1_795_000_000_000 + int64(ms)) }
	s := &sender{oks: []time.Time{at(0), at(10), at(60), at(2500), at(2510)}}
	require.Equal(t, int64(2480), s.firstAfter(at(20)), "an answer that was on its way is not the recovery")
	require.Equal(t, int64(-1), s.firstAfter(at(3000)))
}
