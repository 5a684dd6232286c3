package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// TestURL reads URLs as the services' environment has them. A bad one is named with the other problems, and nothing of it is shown.
func TestURL(t *testing.T) {
	t.Parallel()
	type environment struct {
		URL     postgres.URL `env:"NOTES_DATABASE_URL,required"   help:"the database"`
		Migrate postgres.URL `env:"NOTES_DATABASE_MIGRATE_URL"    help:"the owner's"`
		Other   int          `env:"OTHER"                         help:"a number"`
	}
	for name, url := range map[string]string{
		"NoURL":               "s3cret",
		"AtInThePassword":     "postgres://ada:top@s3cret@127.0.0.1:1/db",
		"SlashInThePassword":  "postgres://ada:12/s3cret@127.0.0.1/db",
		"AllInThePassword":    "postgres://ada:p@ss/s3cret#rd@127.0.0.1/db",
		"HashAfterAt":         "postgres://ada:p@s3cret#rd/db",
		"QuestionMarkAfterAt": "postgres://ada:p@host?s3cret=x@127.0.0.1/db",
		"NoNameOfAHost":       "postgres://ada@s3cret!/db",
		"KeywordForm":         "host=s3cret@127.0.0.1 user=ada",
		"NoCertificate":       "postgres://ada@host/db?sslmode=verify-full&sslrootcert=/s3cret",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env environment
			err := config.Load(map[string]string{"NOTES_DATABASE_URL": url, "NOTES_DATABASE_MIGRATE_URL": url, "OTHER": "x"}, &env)
			for _, want := range []string{"NOTES_DATABASE_URL is malformed: ", "NOTES_DATABASE_MIGRATE_URL is malformed: ", "OTHER must be"} {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "s3cret")
			_, err = postgres.Connect(t.Context(), url)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
	for name, url := range map[string]string{
		"Encoded":      "postgres://ada:top%40s3cret%2F%23@127.0.0.1:1/db",
		"SeveralHosts": "postgresql://ada:s3cret@a-1.example:1,[::1]:2,b_2/db?target_session_attrs=read-write",
		"Socket":       "postgres:///db?host=%2Frun%2Fpostgresql&user=ada@example&password=s3cret",
		"HashOfOld":    "postgres://ada:s3cret#1?@127.0.0.1/db",
		"KeywordForm":  "host=127.0.0.1 user=ada password=s3cret",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env environment
			require.NoError(t, config.Load(map[string]string{"NOTES_DATABASE_URL": url}, &env))
			require.Equal(t, url, env.URL.Reveal())
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", env, env, env), "s3cret")
			require.True(t, config.Describe[environment]()[0].Secret, "a file may have it")
		})
	}
}

// TestConnect repeats a statement on new connections, to which a pooler gives the same one to the server.
func TestConnect(t *testing.T) {
	t.Parallel()
	pooled := pgtest.Pooler(t, pgtest.URL(t, notes), 1)
	for range 3 {
		conn, err := postgres.Connect(t.Context(), pooled)
		require.NoError(t, err)
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from notes where text = $1", "ours").Scan(&n))
		require.NoError(t, conn.Close(t.Context()))
	}
}
