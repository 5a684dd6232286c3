package seed_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	messaging "paceline.internal/services/messaging"
	onboarding "paceline.internal/services/onboarding"
	"paceline.internal/test/seed"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const org = "00000000-0000-7000-8000-000000000001"

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// seeded are both databases with so many sessions, and the configuration that filled them.
func seeded(t *testing.T, sessions int) (seed.Config, [2]string) {
	t.Helper()
	urls := [2]string{
		pgtest.OwnerURL(t, pgtest.URL(t, onboarding.Migrations())), pgtest.OwnerURL(t, pgtest.URL(t, messaging.Migrations())),
	}
	var conns [2]*pgx.Conn
	for i, url := range urls {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close(t.Context())) })
		conns[i] = conn
	}
	cfg := seed.Config{
		Onboarding: conns[0], Messaging: conns[1], Sessions: sessions, Messages: 10 * sessions, Now: now,
	}
	made, err := seed.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.InDelta(t, sessions, made.Sessions, 1)
	return cfg, urls
}

func count(t *testing.T, conn *pgx.Conn, sql string) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func TestSeed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	cfg, _ := seeded(t, 3_000)

	for sql, want := range map[string]int{
		`select count(*) from conversation_sessions`:                                                                                  3_000,
		`select count(*) from profiles where substr(id::text, 15, 1) <> '7' or substr(id::text, 20, 1) <> '8'`:                        0,
		`select count(*) from profiles where not activated`:                                                                           61,
		`select count(*) from conversation_sessions where status in ('stuck', 'undeliverable')`:                                       6,
		`select count(*) from conversation_sessions where sweep_at is not null`:                                                       0,
		`select count(*) from step_alarms`:                                                                                            0,
		`select count(*) from webhook_jobs where status in ('pending', 'processing')`:                                                 0,
		`select count(*) from engagement_outreach where status in ('pending', 'processing')`:                                          0,
		`select count(*) from user_engagement_states`:                                                                                 0,
		`select count(*) from event_outbox`:                                                                                           0,
		`select count(*) from profiles where hold and hold_version <> hold_told`:                                                      0,
		`select count(*) from pg_trigger where tgenabled = 'D' and not tgisinternal`:                                                  0,
		`select count(*) from session_transitions t where not exists (select from conversation_sessions s where s.id = t.session_id)`: 0,
	} {
		require.Equal(t, want, count(t, cfg.Onboarding, sql), sql)
	}
	for sql, want := range map[string]int{
		`select count(*) from sms_messages`: 30_000,
		`select count(*) from sms_messages where status in ('sending', 'throttled') or next_look_at < '2027-11-01'`: 0,
		`select count(*) from sms_messages where status = 'unknown' and next_look_at is null`:                       0,
		`select count(*) from sms_outbound_jobs where status in ('pending', 'processing')`:                          0,
		`select count(*) from event_outbox`:                                          0,
		`select count(*) from consents c where chain_length <> 1`:                    0,
		`select count(*) from pg_trigger where tgenabled = 'D' and not tgisinternal`: 0,
	} {
		require.Equal(t, want, count(t, cfg.Messaging, sql), sql)
	}
	require.Positive(t, count(t, cfg.Messaging, `select count(*) from consents`))
	require.Positive(t, count(t, cfg.Messaging, `select count(*) from sms_messages where status = 'unknown'`))

	_, err := seed.Run(t.Context(), cfg)
	require.ErrorIs(t, err, seed.ErrPeople)
}
