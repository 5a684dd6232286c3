package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

func TestListen(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, postgres.Migrations{})
	ctx, cancel := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(ended)
		postgres.Listen(ctx, pool.Config().ConnConfig, `due "alarms"`, func() { woken <- struct{}{} })
	}()

	<-woken // it listens now, and whatever was notified before may have been missed
	_, err := pool.Exec(t.Context(), "select pg_notify($1, '')", `due "alarms"`)
	require.NoError(t, err)
	<-woken

	_, err = pool.Exec(t.Context(), "select pg_notify('another', '')")
	require.NoError(t, err)
	for range 2 { // it connects again, as often as it must
		var cut int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
			where datname = current_database() and query like 'listen %'`).Scan(&cut))
		require.Equal(t, 1, cut)
		<-woken
	}
	_, err = pool.Exec(t.Context(), "select pg_notify($1, '')", `due "alarms"`)
	require.NoError(t, err)
	<-woken
	require.Empty(t, woken, "another channel's notification woke us")
	require.Zero(t, pool.Stat().AcquiredConns(), "it took a connection of the pool")

	cancel()
	<-ended
}
