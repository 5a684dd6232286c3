package send_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/services/messaging/send"
)

// TestMessagesOfOrganisations bounds the series, whatever the number of organisations.
func TestMessagesOfOrganisations(t *testing.T) {
	t.Parallel()
	b, reader := setup(t), sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	require.NoError(t, send.ObserveOrganisations(t.Context(), provider.Meter("test"), b.Store.Busy, b.Clock.Now))
	series := func() map[string]int64 {
		var got metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &got))
		found := map[string]int64{}
		points := got.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[int64]).DataPoints
		for _, p := range points {
			org, _ := p.Attributes.Value("org_id")
			result, _ := p.Attributes.Value("result")
			found[org.AsString()+" "+result.AsString()] = p.Value
		}
		return found
	}
	require.Equal(t, map[string]int64{"other delivered": 0, "other failed": 0, "other under_way": 0, "other received": 0}, series(), "none is a number")

	quarter := b.Clock.Now().Truncate(15 * time.Minute)
	_, err := b.Pool.Exec(t.Context(), `insert into sms_quarters (org_id, quarter, country, delivered, failed, under_way, replies, opt_outs, taken, segments)
		select ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, q, c, i, 1, 0, 2, 0, i, i
		from generate_series(1, 203) i, unnest(array[$1::timestamptz, $1::timestamptz - interval '2 hours']) q, unnest(array['+1', '+55']) c`, quarter)
	require.NoError(t, err)
	found := series()
	require.Len(t, found, 4*201)
	require.EqualValues(t, 2*203, found["00000000-0000-7000-8000-000000000203 delivered"], "of the last hour, of all countries")
	require.EqualValues(t, 2, found["00000000-0000-7000-8000-000000000203 failed"])
	require.EqualValues(t, 2*(1+2+3), found["other delivered"], "of the three with the fewest")
	require.EqualValues(t, 3*4, found["other received"])
	b.Clock.Advance(2 * time.Hour)
	require.Len(t, series(), 4)
}
