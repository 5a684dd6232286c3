package postgres_test

import (
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/wire"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// TestWatch waits without a bound where a call has to end: without the watch it never would.
func TestWatch(t *testing.T) {
	t.Parallel()

	t.Run("CallsToAServerThatFallsSilentEndAndItIsUsedAgainOnceItAnswers", func(t *testing.T) {
		t.Parallel()
		database := pgtest.URL(t, postgres.Migrations{})
		line, through := wired(t, database)
		pool, asked := watched(t, through)
		for _, manner := range []wire.Manner{wire.BothWays, wire.MidMessage} {
			waiting := make(chan error, 1)
			go func() { waiting <- asked("select pg_sleep(4)") }()
			require.Eventually(t, func() bool { return pool.Stats()[0].AcquiredConns() == 1 }, time.Minute, time.Millisecond)
			line.Freeze(manner, false)
			err := <-waiting
			require.Error(t, err, manner)
			require.True(t, postgres.Unanswered(err), "%s: %v", manner, err)
			err = asked("select 1")
			require.True(t, postgres.Outage(err), "%s: %v", manner, err)
			line.Cut()
			require.Eventually(t, func() bool { return asked("select 1") == nil }, time.Minute, 10*time.Millisecond, manner)
		}
	})

	t.Run("TheNextHostOfTheURLIsUsedMeanwhile", func(t *testing.T) {
		t.Parallel()
		database := pgtest.URL(t, postgres.Migrations{})
		first, through := wired(t, database)
		second, _ := wired(t, database)
		_, asked := watched(t, both(t, through, first, second))
		require.NoError(t, asked("select 1"))
		first.Freeze(wire.BothWays, false)
		require.Error(t, asked("select 1"))
		require.NoError(t, asked("select 1"))
		second.Freeze(wire.BothWays, false)
		require.Error(t, asked("select 1"))
		first.Cut()
		require.Eventually(t, func() bool { return asked("select 1") == nil }, time.Minute, 10*time.Millisecond)
	})

	t.Run("AServerThatAnswersOthersIsNotGivenUp", func(t *testing.T) {
		t.Parallel()
		database := pgtest.URL(t, postgres.Migrations{})
		line, through := wired(t, database)
		_, asked := watched(t, through)
		slept := make(chan error, 1)
		go func() { slept <- asked("select pg_sleep(3)") }()
		admin, err := postgres.Open(t.Context(), postgres.Config{URL: database, MaxConns: 2})
		require.NoError(t, err)
		defer admin.Close()
		cut := func() (n int) {
			require.NoError(t, admin.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
				where datname = current_database() and query = '-- ping'`).Scan(&n))
			return n
		}
		sleeps := func() (is bool) { // on a connection that pinged before it, perhaps
			require.NoError(t, admin.QueryRow(t.Context(), `select count(*) = 1 from pg_stat_activity
				where datname = current_database() and query = 'select pg_sleep(3)' and state = 'active'`).Scan(&is))
			return is
		}
		require.Eventually(t, sleeps, time.Minute, time.Millisecond)
		require.Eventually(t, func() bool { return cut() == 1 }, time.Minute, time.Millisecond)
		require.Eventually(t, func() bool { return cut() == 1 }, time.Minute, time.Millisecond, "it pings again")
		require.NoError(t, <-slept)
		require.False(t, line.Struck())
	})
}

func wired(t *testing.T, database string) (*wire.Wire, string) {
	t.Helper()
	line, through, err := wire.OpenPostgres(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, line.Close()) })
	return line, through
}

// watched opens the database of a service and watches it. asked runs a statement that has no bound but the end of the test.
func watched(t *testing.T, database string) (pool *postgres.Pool, asked func(sql string) error) {
	t.Helper()
	ctx := postgres.AcrossOrganisations(t.Context())
	pool, err := postgres.OpenFor(ctx, "onboarding", postgres.Config{
		URL: database, MaxConns: 2, Watch: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, func(sql string) error {
		_, err := pool.Exec(ctx, sql)
		return err
	}
}

// both is a URL with two hosts.
func both(t *testing.T, database string, hosts ...*wire.Wire) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	query := u.Query()
	var names, ports []string
	for _, w := range hosts {
		host, port, err := net.SplitHostPort(w.Addr)
		require.NoError(t, err)
		names, ports = append(names, host), append(ports, port)
	}
	query.Set("host", strings.Join(names, ","))
	query.Set("port", strings.Join(ports, ","))
	u.RawQuery = query.Encode()
	return u.String()
}
