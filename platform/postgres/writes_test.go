package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// TestWritable asks a real standby, before and after its promotion.
func TestWritable(t *testing.T) {
	t.Parallel()

	t.Run("AStandbyIsNotReadyUntilItIsPromoted", func(t *testing.T) {
		t.Parallel()
		primary, standby := pgtest.Pair(t)
		require.NoError(t, primary.EnsureService(t.Context(), "notes"))
		require.NoError(t, notes.Up(t.Context(), primary.URL("notes", "postgres")))
		require.NoError(t, standby.CaughtUp(t.Context(), primary))
		pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: standby.URL("notes", "postgres"), Timeouts: usual})
		require.NoError(t, err)
		defer pool.Close()
		require.NoError(t, notes.Ready(t.Context(), pool), "it can be read")
		err = pool.Ready(t.Context(), notes)
		require.ErrorIs(t, err, postgres.ErrReadOnly)
		require.ErrorContains(t, err, "target_session_attrs=read-write")
		require.EqualValues(t, 1, refusing(t, pool))

		hosts := strings.Replace(standby.URL("notes", "postgres"), "host=", "target_session_attrs=read-write&host="+primary.Host()+",", 1)
		either, err := postgres.Open(t.Context(), postgres.Config{URL: strings.Replace(hosts, "port=5432", "port=5432,5432", 1)})
		require.NoError(t, err)
		defer either.Close()
		require.NoError(t, postgres.Writable(t.Context(), either), "of several hosts the one that takes writes is used")

		require.NoError(t, standby.Promote(t.Context()))
		require.NoError(t, pool.Ready(t.Context(), notes))
		require.Zero(t, refusing(t, pool))
	})

	t.Run("ALoginThatIsReadOnlyIsNotReady", func(t *testing.T) {
		t.Parallel()
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t, notes) + "&default_transaction_read_only=on"})
		require.NoError(t, err)
		defer pool.Close()
		err = postgres.Writable(t.Context(), pool)
		require.ErrorIs(t, err, postgres.ErrReadOnly)
		require.ErrorContains(t, err, "default_transaction_read_only")
	})

	t.Run("NoAnswerIsNoValue", func(t *testing.T) {
		t.Parallel()
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t, notes)})
		require.NoError(t, err)
		pool.Close()
		err = postgres.Writable(t.Context(), pool)
		require.Error(t, err)
		require.NotErrorIs(t, err, postgres.ErrReadOnly)
	})
}

// refusing is the value of the gauge.
func refusing(t *testing.T, db postgres.DB) int64 {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, postgres.ObserveWrites(provider.Meter("test"), db))
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	gauge, ok := got.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[int64])
	require.True(t, ok)
	return gauge.DataPoints[0].Value
}
