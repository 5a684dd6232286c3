package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// one is the only pool beneath.
type one struct{ *pgxpool.Pool }

func (o one) Stats() []*pgxpool.Stat { return []*pgxpool.Stat{o.Stat()} }

func TestObserve(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t, postgres.Migrations{}), MaxConns: 1})
	require.NoError(t, err)
	defer pool.Close()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, postgres.Observe(provider.Meter("test"), one{pool}))
	type seen struct {
		inUse, idle, most, waits, gaveUp int64
		waited                           float64
	}
	look := func() (s seen) {
		var got metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &got))
		for _, m := range got.ScopeMetrics[0].Metrics {
			switch points := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range points.DataPoints {
					state, _ := p.Attributes.Value(attribute.Key("state"))
					*map[string]*int64{"in_use": &s.inUse, "idle": &s.idle, "max": &s.most}[state.AsString()] = p.Value
				}
			case metricdata.Sum[int64]:
				*map[string]*int64{"paceline_postgres_pool_waits_total": &s.waits, "paceline_postgres_pool_acquire_timeouts_total": &s.gaveUp}[m.Name] = points.DataPoints[0].Value
			case metricdata.Sum[float64]:
				s.waited = points.DataPoints[0].Value
			}
		}
		return s
	}

	before := look()
	require.Equal(t, []int64{0, 1, 1}, []int64{before.inUse, before.idle, before.most})
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, []int64{look().inUse, look().idle})
	impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = pool.Acquire(impatient)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, before.gaveUp+1, look().gaveUp)
	held.Release()
	pool.Reset()
	next, err := pool.Acquire(t.Context()) // has to wait until it is connected
	require.NoError(t, err)
	next.Release()
	after := look()
	require.Greater(t, after.waits, before.waits)
	require.Greater(t, after.waited, before.waited)
}
