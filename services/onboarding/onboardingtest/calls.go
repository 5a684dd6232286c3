package onboardingtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
)

// Day is 24 hours.
const Day = 24 * time.Hour

// List returns the one text column that a query selects.
func List[T ~string](b *Bundle, sql string, args ...any) []T {
	b.T.Helper()
	rows, err := b.Pool.Query(b.T.Context(), sql, args...)
	require.NoError(b.T, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.T, err)
	typed := make([]T, len(all))
	for i, one := range all {
		typed[i] = T(one)
	}
	return typed
}

// Meter returns a meter and its reader.
func (b *Bundle) Meter() (metric.Meter, *sdkmetric.ManualReader) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	b.T.Cleanup(func() { require.NoError(b.T, provider.Shutdown(context.WithoutCancel(b.T.Context()))) })
	return provider.Meter("test"), reader
}

// Gauge returns the value of a gauge or a counter with exactly these attributes.
func Gauge(t *testing.T, reader *sdkmetric.ManualReader, name string, attrs ...attribute.KeyValue) float64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	want := attribute.NewSet(attrs...)
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range points.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Value)
					}
				}
			case metricdata.Gauge[int64]:
				for _, p := range points.DataPoints {
					if p.Attributes.Equals(&want) {
						return float64(p.Value)
					}
				}
			case metricdata.Gauge[float64]:
				for _, p := range points.DataPoints {
					if p.Attributes.Equals(&want) {
						return p.Value
					}
				}
			}
		}
	}
	require.FailNow(t, "no such gauge: "+name)
	return 0
}

// Ask calls a method as an operator of our organisation.
func Ask[In, Out any](b *Bundle, method func(context.Context, In) (Out, error), in In) (Out, error) {
	out, err := method(rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "operator-1", Role: rpc.RoleOperator, OrgID: OrgID}), in)
	if err != nil {
		err = onboarding.Answer(err)
	}
	return out, err
}

// Refused asserts the code and the reason of a refused call.
func Refused(t *testing.T, err error, code codes.Code, reason onboardingv1.Reason) {
	t.Helper()
	require.Error(t, err)
	answer, ok := rpc.ErrorFrom(onboarding.Answer(err))
	require.True(t, ok, "%v", err)
	require.Equal(t, code, answer.Code)
	require.Equal(t, reason.String(), answer.Reason)
}
