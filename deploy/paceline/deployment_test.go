package main

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// deploymentShell is the environment of a shell that has read that of a deployment, and a check that its databases were left alone: they
// are empty, and a service that opened them would have migrated them.
func deploymentShell(t *testing.T) (environ []string, untouched func()) {
	t.Helper()
	databases := map[string]string{}
	for _, service := range []string{"ONBOARDING", "MESSAGING"} {
		databases[service] = pgtest.URL(t, postgres.Migrations{})
		environ = append(environ, service+"_DATABASE_URL="+databases[service], service+"_DATABASE_MIGRATE_URL="+databases[service])
	}
	const nowhere = "127.0.0.1:9" // the port of discard: no process answers
	environ = append(environ, "PUBLIC_BASE_URL=http://"+nowhere, "GATEWAY_ADDR="+nowhere, "ONBOARDING_ADDR="+nowhere, "MESSAGING_ADDR="+nowhere,
		"QSTASH_URL=http://"+nowhere, "TWILIO_API_URL=http://"+nowhere, "REDIS_URL=redis://"+nowhere, "PGHOST="+nowhere, "PGPORT=9",
		"ONBOARDING_SCHEDULING_DISABLED=1", "SERVICE_AUTH_SECRET=short", "API_JWT_SECRET=short", "PSEUDONYM_KEY=short",
		"QSTASH_TOKEN=theirs", "TWILIO_AUTH_TOKEN=theirs", "CONSOLE_KEY=theirs")
	return environ, func() {
		for service, url := range databases {
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			var tables int
			require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from information_schema.tables where table_schema = 'public'").Scan(&tables))
			require.Zero(t, tables, "%s: the deployment's database was used", service)
			require.NoError(t, conn.Close(t.Context()))
		}
	}
}

func TestDeploymentEnviron(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	_, err := writeEnviron(data, map[string]string{"PUBLIC_BASE_URL": "http://127.0.0.1:1", "API_JWT_SECRET": "of the up"})
	require.NoError(t, err)
	shell := map[string]string{"PUBLIC_BASE_URL": "https://texts.example.com", "API_JWT_SECRET": "of the shell"}

	t.Run("TheShellsIsTakenWhereNoFolderIsNamed", func(t *testing.T) {
		t.Parallel()
		environ, err := deploymentEnviron(shell, "")
		require.NoError(t, err)
		require.Equal(t, shell, environ)
		gateway, err := gatewayAt("", environ)
		require.NoError(t, err)
		require.Equal(t, "https://texts.example.com", gateway.String())
	})
	t.Run("AFolderThatIsNamedWins", func(t *testing.T) {
		t.Parallel()
		environ, err := deploymentEnviron(shell, data)
		require.NoError(t, err)
		require.Equal(t, "of the up", environ["API_JWT_SECRET"])
		require.Equal(t, "http://127.0.0.1:1", environ["PUBLIC_BASE_URL"])
	})
	t.Run("AFolderWithoutARunningUpIsAnError", func(t *testing.T) {
		t.Parallel()
		_, err := deploymentEnviron(shell, t.TempDir())
		require.ErrorContains(t, err, "no paceline up runs")
	})
	t.Run("NoDeploymentIsAnErrorThatSaysWhatToDo", func(t *testing.T) {
		t.Parallel()
		_, err := gatewayAt("", nil)
		require.ErrorIs(t, err, errNoDeployment)
		_, err = gatewayAt("texts.example.com", nil)
		require.ErrorContains(t, err, "it is like https://texts.example.com")
	})
}

// TestUpInADeploymentsShell starts, stops and starts again where the environment is a deployment's.
func TestUpInADeploymentsShell(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	environ, untouched := deploymentShell(t)
	data := dataFolder(t)
	for range 2 {
		up := startUpWith(t, data, environ)
		require.NotEmpty(t, up.curl(t, 0, nil)["profile"])
		up.stop(t, os.Interrupt)
	}
	untouched()
}
