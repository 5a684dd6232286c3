package manifests

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	script := filepath.Join(root(t), "deploy/compose/secrets.sh")

	t.Run("RunningItAgainChangesNothing", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "secrets")
		environ := []string{"SECRETS=" + dir}
		out, err := run(t, environ, script, "real")
		require.NoError(t, err)
		require.Contains(t, out, "fill in "+dir+"/qstash_token")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "qstash_token"), []byte("mine\n"), 0o600))
		before := contents(t, dir)
		out, err = run(t, environ, script, "real")
		require.NoError(t, err)
		require.NotContains(t, out, "qstash_token")
		require.Equal(t, before, contents(t, dir))
	})

	t.Run("OnlyTheOwnerEntersTheFolderAndTheContainersReadTheFiles", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "secrets")
		_, err := run(t, []string{"SECRETS=" + dir}, script, "emulated")
		require.NoError(t, err)
		about, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), about.Mode().Perm())
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, file := range files {
			about, err := file.Info()
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o644), about.Mode().Perm(), file.Name())
		}
	})

	t.Run("NoTwoInstallationsHaveTheSame", func(t *testing.T) {
		t.Parallel()
		first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		for _, dir := range []string{first, second} {
			_, err := run(t, []string{"SECRETS=" + dir}, script, "emulated")
			require.NoError(t, err)
		}
		one, other := contents(t, first), contents(t, second)
		for _, own := range []string{"gateway_signing_key", "service_public_keys", "api_jwt_secret", "postgres_password", "onboarding_database_password", "messaging_database_password", "redis_conf", "console_key", "pseudonym_key", "ledger_signing_key"} {
			require.GreaterOrEqual(t, len(one[own]), 64)
			require.NotEqual(t, one[own], other[own])
		}
		require.NotEqual(t, one["gateway_signing_key"], one["onboarding_signing_key"])
	})

	t.Run("ItAsksWhichVendors", func(t *testing.T) {
		t.Parallel()
		out, err := run(t, nil, script)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.Contains(t, out, "emulated | real")
	})
	t.Run("RealRefusesPublicSecrets", func(t *testing.T) {
		t.Parallel()
		environ := []string{"SECRETS=" + filepath.Join(t.TempDir(), "secrets")}
		_, err := run(t, environ, script, "emulated")
		require.NoError(t, err)
		out, err := run(t, environ, script, "real")
		require.Error(t, err)
		require.Contains(t, out, "is the emulators', which is public")
	})
}

// contents are the files of a folder by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		require.NoError(t, err)
		found[file.Name()] = string(content)
	}
	return found
}

// TestDatabases runs what the image of Postgres runs on an empty volume against a real server, and then what migrate runs.
func TestDatabases(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed")
	}
	secrets := filepath.Join(t.TempDir(), "secrets")
	_, err := run(t, []string{"SECRETS=" + secrets}, filepath.Join(root(t), "deploy/compose/secrets.sh"), "emulated")
	require.NoError(t, err)
	server, err := embeddedpg.Start(t.Context(), embeddedpg.Config{}) // in a folder that it makes and removes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	admin, err := url.Parse(server.URL("postgres", "postgres"))
	require.NoError(t, err)

	environ := []string{"SECRETS=" + secrets, "PGHOST=" + admin.Query().Get("host"), "POSTGRES_USER=" + admin.Query().Get("user")}
	out, err := run(t, environ, filepath.Join(root(t), "deploy/compose/databases.sh"))
	require.NoError(t, err, out)
	require.Empty(t, out, "above all no password")

	require.NoError(t, onboarding.Migrations().Up(t.Context(), server.URL("onboarding", "onboarding")))
	require.NoError(t, messaging.Migrations().Up(t.Context(), server.URL("messaging", "messaging")))
	for _, tc := range []struct{ database, user string }{{"onboarding", "messaging"}, {"messaging", "onboarding"}, {"postgres", "messaging"}} {
		_, err := pgx.Connect(t.Context(), server.URL(tc.database, tc.user))
		require.ErrorContains(t, err, "permission denied for database", "%s in %s", tc.user, tc.database)
	}
	conn, err := pgx.Connect(t.Context(), server.URL("postgres", admin.Query().Get("user")))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	var withPassword int
	require.NoError(t, conn.QueryRow(t.Context(),
		`select count(*) from pg_authid where rolname in ('onboarding', 'messaging') and rolpassword like 'SCRAM-SHA-256$%' and not rolsuper`).Scan(&withPassword))
	require.Equal(t, 2, withPassword)

	t.Run("WithoutAPasswordNoRoleIsMade", func(t *testing.T) {
		empty := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(empty, "onboarding_database_password"), []byte("\n"), 0o600))
		out, err := run(t, append([]string{"SECRETS=" + empty}, environ[1:]...), filepath.Join(root(t), "deploy/compose/databases.sh"))
		require.Error(t, err)
		require.True(t, strings.HasSuffix(strings.TrimSpace(out), "is empty"), out)
	})
}

// TestDatabaseOfYourOwn is the login that docs/deploy.md describes: it owns its database, and may make no roles.
func TestDatabaseOfYourOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	server, err := embeddedpg.Start(t.Context(), embeddedpg.Config{Throwaway: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	administrator := func(t *testing.T, sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), server.URL("postgres", "postgres"))
		require.NoError(t, err)
		for statement := range strings.SplitSeq(sql, ";") { // a database is not made in a transaction
			_, err := conn.Exec(t.Context(), statement)
			require.NoError(t, err, statement)
		}
		require.NoError(t, conn.Close(t.Context()))
	}
	page, err := os.ReadFile(filepath.Join(root(t), "docs/deploy.md"))
	require.NoError(t, err)
	_, documented, _ := strings.Cut(string(page), "```sql\n")
	documented, _, _ = strings.Cut(documented, "```")
	serves := func(t *testing.T, service string) {
		t.Helper()
		pool, err := postgres.OpenFor(t.Context(), service, postgres.Config{URL: server.URL(service, service)})
		require.NoError(t, err)
		defer pool.Close()
		require.NoError(t, pool.Sound(t.Context()))
	}

	t.Run("R_20_DocumentedStatementsAreEnough", func(t *testing.T) {
		t.Parallel()
		administrator(t, documented)
		require.NoError(t, onboarding.Migrations().Up(t.Context(), server.URL("onboarding", "onboarding")))
		serves(t, "onboarding")
	})

	t.Run("R_20_LoginThatOnlyOwnsItsDatabaseGetsTheStatementsToRun", func(t *testing.T) {
		t.Parallel()
		administrator(t, "create role messaging login; create database messaging owner messaging")
		url := server.URL("messaging", "messaging")
		err := messaging.Migrations().Up(t.Context(), url)
		require.ErrorIs(t, err, postgres.ErrLogin)
		_, statements, found := strings.Cut(err.Error(), "run once as an administrator of the server: ")
		require.True(t, found, err)
		require.True(t, strings.HasPrefix(statements, `create role "messaging_tenant" nologin; create role "messaging_worker" nologin; `+
			`grant "messaging_tenant" to "messaging"`), statements)

		administrator(t, "create role messaging_tenant nologin; create role messaging_worker nologin")
		require.ErrorIs(t, messaging.Migrations().Up(t.Context(), url), postgres.ErrLogin, "roles of another owner")
		administrator(t, "drop role messaging_tenant; drop role messaging_worker")
		administrator(t, statements)
		require.NoError(t, messaging.Migrations().Up(t.Context(), url))
		serves(t, "messaging")
	})
}
