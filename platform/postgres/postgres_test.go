package postgres_test

import (
	"flag"
	"net"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

func TestMain(m *testing.M) {
	// Many tests wait for a deadline, so more of them run at once than there are cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	pgtest.Run(m)
}

// accounts is a schema with a table and a named constraint, in two migrations.
func accounts() postgres.Migrations { return postgres.Migrations{FS: accountFiles()} }

func accountFiles() fstest.MapFS {
	return fstest.MapFS{
		"0001_accounts.sql": {Data: []byte(`-- +goose Up
create table accounts (id int constraint accounts_id_key unique, balance int not null default 0);
-- +goose Down
drop table accounts;
`)},
		"0002_owner.sql": {Data: []byte(`-- +goose Up
alter table accounts add column owner text;
-- +goose Down
alter table accounts drop column owner;
`)},
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("HasConnectionsByItsProcessors", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, postgres.Migrations{})
		require.EqualValues(t, min(4+2*runtime.GOMAXPROCS(0), 16), pool.Config().MaxConns)
	})

	t.Run("TakesSettingsOfTheServerFromTheURL", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t, postgres.Migrations{}) + "&plan_cache_mode=force_generic_plan"
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 1})
		require.NoError(t, err)
		defer pool.Close()
		var mode string
		require.NoError(t, pool.QueryRow(t.Context(), "show plan_cache_mode").Scan(&mode))
		require.Equal(t, "force_generic_plan", mode)
		require.EqualValues(t, 1, pool.Config().MaxConns)
	})

	t.Run("TracesQueriesWithoutTheirArguments", func(t *testing.T) {
		t.Parallel()
		spans := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t, postgres.Migrations{}), TracerProvider: provider})
		require.NoError(t, err)
		defer pool.Close()
		ctx, parent := provider.Tracer("test").Start(t.Context(), "parent") // a query outside a trace is not traced
		_, err = pool.Exec(ctx, "select $1::text", "+5511999998888")
		require.NoError(t, err)
		parent.End()
		require.Greater(t, len(spans.GetSpans()), 1)
		for _, span := range spans.GetSpans() {
			for _, attribute := range span.Attributes {
				require.NotContains(t, attribute.Value.String(), "+5511999998888")
			}
		}
	})

	t.Run("GivesUpOnAServerThatDoesNotAnswer", func(t *testing.T) {
		t.Parallel()
		silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // it takes connections into its backlog and never accepts them
		require.NoError(t, err)
		defer silent.Close()
		ctx, cancel := contextWithTimeout(t, 50*time.Millisecond)
		defer cancel()
		_, err = postgres.Open(ctx, postgres.Config{URL: "postgres://ada:s3cret@" + silent.Addr().String() + "/db"})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "s3cret")
	})
}

func TestErrorsNeverShowThePassword(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		url  string
	}{
		{name: "RefusedConnection", url: "postgres://ada:s3cret@127.0.0.1:1/db"},
		{name: "BadEscape", url: "postgres://ada:s3cret%zz@127.0.0.1/db"},
		{name: "BadPort", url: "postgres://ada:s3cret@127.0.0.1:port/db"},
		{name: "SlashInThePassword", url: "postgres://ada:s3cret/more@127.0.0.1/db"},
		{name: "PasswordInTheQuery", url: "postgres://127.0.0.1:1/db?user=ada&password=s3cret"},
		{name: "BadOption", url: "postgres://ada:s3cret@127.0.0.1/db?sslmode=perhaps"},
		{name: "KeywordForm", url: "host=127.0.0.1 port=1 user=ada password=s3cret sslmode=perhaps"},
		{name: "AnotherScheme", url: "mysql://ada:s3cret@127.0.0.1/db"},
		{name: "NewlineInThePassword", url: "postgres://ada:s3cret\n@127.0.0.1/db"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := postgres.Open(t.Context(), postgres.Config{URL: tt.url})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "s3cret")
			err = accounts().Up(t.Context(), tt.url)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}
