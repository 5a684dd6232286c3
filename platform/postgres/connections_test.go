package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
)

func TestConnections(t *testing.T) {
	t.Parallel()

	t.Run("RoomIsWhatTheServerTheDatabaseAndTheLoginAllow", func(t *testing.T) {
		t.Parallel()
		pool := scoped(t, pgtest.URL(t, notes)) // of one connection
		ctx := postgres.AcrossOrganisations(t.Context())
		_, err := pool.Room(ctx, 2, 5)
		require.NoError(t, err)
		_, err = pool.Room(ctx, 1000, 5)
		require.ErrorIs(t, err, postgres.ErrRoom, "no server of a test has so many")
		_, err = pool.Exec(ctx, `do $$ begin execute format('alter database %I connection limit 13', current_database()); end $$`)
		require.NoError(t, err)
		_, err = pool.Room(ctx, 2, 5)
		require.ErrorIs(t, err, postgres.ErrRoom)
		require.ErrorContains(t, err, "2 processes have up to 7 connections each, and the server has 13 for them")
		_, err = pool.Room(ctx, 1, 5)
		require.NoError(t, err)
	})

	t.Run("TheOtherServiceIsToHaveAsMany", func(t *testing.T) {
		t.Parallel()
		server, err := embeddedpg.Start(t.Context(), embeddedpg.Config{Throwaway: true, Seed: embeddedpg.Seed{Name: "empty"}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
		var most int
		for _, service := range []string{"notes", "letters"} {
			require.NoError(t, server.EnsureService(t.Context(), service))
			grant(t, server.URL(service, service), "create table t (); grant select on t to "+service+"_worker")
		}
		for service, listens := range map[string]int{"notes": 5, "letters": 0} {
			pool, err := postgres.OpenFor(t.Context(), service, postgres.Config{URL: server.URL(service, embeddedpg.Serving(service)), MaxConns: 8})
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			require.NoError(t, pool.QueryRow(postgres.AcrossOrganisations(t.Context()), `select current_setting('max_connections')::int
				- current_setting('superuser_reserved_connections')::int`).Scan(&most))
			fit := most / (8 + 6 + 8 + 1) // replicas of both services
			said, err := pool.Room(t.Context(), fit, listens)
			require.NoError(t, err, service)
			require.Contains(t, said, fmt.Sprintf("besides the %d of another service's processes", fit*(8+1+5-listens)))
			_, err = pool.Room(t.Context(), fit+1, listens)
			require.ErrorIs(t, err, postgres.ErrRoom, service)
		}
	})

	t.Run("BehindAPoolerOnlyThoseThatListenAreTheServers", func(t *testing.T) {
		t.Parallel()
		direct := pgtest.URL(t, notes)
		pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: pgtest.Pooler(t, direct, 2), DirectURL: direct, Timeouts: usual})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		said, err := pool.Room(t.Context(), 2, 5)
		require.NoError(t, err)
		require.Contains(t, said, "2 processes have up to 6 connections each")
	})

	for name, tt := range map[string]struct {
		environ map[string]string
		want    string
	}{
		"DefaultsAreSound":        {},
		"TakesANumber":            {map[string]string{"DATABASE_CONNECTIONS": "2", "DATABASE_REPLICAS": "8"}, ""},
		"RefusesOneForTwoLanes":   {map[string]string{"DATABASE_CONNECTIONS": "1"}, "DATABASE_CONNECTIONS must be 2 to 1000, or 0"},
		"RefusesFewerThanNone":    {map[string]string{"DATABASE_CONNECTIONS": "-1"}, "DATABASE_CONNECTIONS must be 2 to 1000, or 0"},
		"RefusesNoProcessesAtAll": {map[string]string{"DATABASE_REPLICAS": "0"}, "DATABASE_REPLICAS must be 1 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var connections postgres.Connections
			err := config.Load(tt.environ, &connections)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}
