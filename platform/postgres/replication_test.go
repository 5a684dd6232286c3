package postgres_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
)

// TestSafeFailover asks a real primary, as a login without rights, while its settings change.
func TestSafeFailover(t *testing.T) {
	t.Parallel()
	primary, standby := pgtest.Pair(t)
	require.NoError(t, primary.EnsureService(t.Context(), "notes"))
	require.NoError(t, standby.CaughtUp(t.Context(), primary))
	admin, err := pgx.Connect(t.Context(), primary.URL("postgres", "postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(t.Context())) }()
	alone, hosts := primary.URL("notes", embeddedpg.Serving("notes")), ","+standby.Host()+"&port=5432,5432"
	several := strings.Replace(alone, "&port=5432", hosts, 1)
	const names = "alter system set synchronous_standby_names = 'walreceiver'"
	const waits = "alter database notes set synchronous_commit = 'on'" // the server's command line says off
	for _, tt := range []struct {
		name string
		sql  []string // stays for the rows below
		url  string
		want []string
		safe bool
	}{
		{name: "AnAsynchronousStandby", url: alone, want: []string{"a standby follows (walreceiver) and no commit waits", "synchronous_commit is off"}},
		{name: "CommitsThatWaitForNone", sql: []string{names}, url: alone, want: []string{"synchronous_commit is off, so commits wait for no standby"}},
		{name: "ALoginThatDoesNotWait", sql: []string{waits}, url: alone + "&synchronous_commit=local", want: []string{"synchronous_commit is local"}},
		{name: "ASynchronousStandby", url: alone, safe: true, want: []string{"1 standbys follow, and commits wait for walreceiver"}},
		{name: "HostsOfWhichAnyIsTaken", url: several, want: []string{"names 2 hosts, of which the first that answers is used, also a standby: add target_session_attrs=read-write"}},
		{name: "HostsOfWhichThePrimaryIsTaken", url: several + "&target_session_attrs=read-write", safe: true, want: []string{"1 standbys follow"}},
	} {
		for _, sql := range append(tt.sql, "select pg_reload_conf()") {
			_, err := admin.Exec(t.Context(), sql)
			require.NoError(t, err)
		}
		var said string
		require.Eventually(t, func() bool { // a reload takes its time
			said = safeFailover(t, tt.url)
			missing := slices.ContainsFunc(tt.want, func(want string) bool { return !strings.Contains(said, want) })
			return !missing && strings.Count(said, "; ") == len(tt.want)-1 && strings.HasPrefix(said, "postgres: ") != tt.safe
		}, 20*time.Second, 100*time.Millisecond, tt.name)
		t.Log(said)
	}
	archive(t, primary, "pg_receivewal") // nothing changes
	require.Contains(t, safeFailover(t, alone), "1 standbys follow, and commits wait for walreceiver")
	require.NoError(t, standby.Stop(t.Context()))
	require.Eventually(t, func() bool {
		return strings.Contains(safeFailover(t, alone), "commits wait for the standby walreceiver, and none follows")
	}, 20*time.Second, 100*time.Millisecond)
}

// TestArchiver tries a server that nothing but an archiver follows: a commit that waits for it waits for ever once it has stopped.
func TestArchiver(t *testing.T) {
	t.Parallel()
	server, err := embeddedpg.Start(t.Context(), embeddedpg.Config{Throwaway: true, Seed: embeddedpg.Seed{Name: "empty"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	require.NoError(t, server.EnsureService(t.Context(), "notes"))
	admin := server.URL("postgres", "postgres")
	archive(t, server, "pg_receivewal")
	url := server.URL("notes", embeddedpg.Serving("notes"))
	require.Equal(t, "no standby follows this server", safeFailover(t, url))

	grant(t, admin, "alter database notes set synchronous_commit = 'local'") // or the test would wait
	for names, archiver := range map[string]string{"*": "pg_receivewal", `FIRST 1 ("PG_receivewal", other)`: "pg_receivewal", "vault": "vault"} {
		if archiver == "vault" { // its name tells nothing
			archive(t, server, archiver)
			grant(t, admin, "grant pg_read_all_stats to "+embeddedpg.Serving("notes"))
		}
		grant(t, admin, "alter system set synchronous_standby_names = '"+names+"'")
		grant(t, admin, "select pg_reload_conf()")
		require.Eventually(t, func() bool {
			said := safeFailover(t, url)
			return strings.Contains(said, "synchronous_standby_names is "+names+", so "+archiver) && !strings.Contains(said, "none follows")
		}, 20*time.Second, 50*time.Millisecond, names)
	}
	grant(t, admin, "alter system reset synchronous_standby_names")
}

// archive has PostgreSQL's archiver follow a server by a name, until the test ends.
func archive(t *testing.T, server *embeddedpg.Server, name string) {
	t.Helper()
	program, err := embeddedpg.Program("pg_receivewal")
	if err != nil {
		t.Skip(err)
	}
	url := server.URL("postgres", "postgres")
	cmd := exec.CommandContext(t.Context(), program, "--no-loop", "-D", t.TempDir(), "-d", url+"&application_name="+name)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context has ended it
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	require.Eventually(t, func() bool {
		var streams bool
		err := conn.QueryRow(t.Context(), "select exists (select from pg_stat_replication where application_name = $1 and state = 'streaming')",
			name).Scan(&streams)
		return err == nil && streams
	}, 20*time.Second, 20*time.Millisecond)
}

// safeFailover returns what is said, or the error.
func safeFailover(t *testing.T, url string) string {
	t.Helper()
	pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	said, err := pool.SafeFailover(t.Context())
	if err != nil {
		require.ErrorIs(t, err, postgres.ErrFailover)
		return err.Error()
	}
	return said
}
