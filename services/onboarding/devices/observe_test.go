package devices_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/services/onboarding/devices"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reader := sdkmetric.NewManualReader()
	h, d := b.hub(), b.gadget()
	require.NoError(t, h.Observe(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")))
	c, _ := d.connects(h)
	c.settled(t)
	g := d.called()
	require.NoError(t, h.Offer(t.Context()))
	c.says(devices.Acknowledge{RunID: c.offered(t, g).RunID})
	c.settled(t)

	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	values := map[string]int64{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		switch points := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range points.DataPoints {
				outcome, _ := p.Attributes.Value("outcome")
				values[m.Name+" "+outcome.AsString()] = p.Value
			}
		case metricdata.Gauge[int64]:
			values[m.Name] = points.DataPoints[0].Value
		}
	}
	require.Equal(t, map[string]int64{
		"paceline_devices_connected": 1, "paceline_goal_offers_total sent": 1, "paceline_goal_offers_total acknowledged": 1,
		"paceline_goal_offers_total repeated": 0, "paceline_goal_offers_total unsent": 0, "paceline_goal_offers_total forgotten": 0,
	}, values)
}

func TestLogHoldsNoWordsOfWhatIsSaidToADevice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log bytes.Buffer
	h := devices.NewHub(devices.HubConfig{
		Store: b.store, Goals: b.service, RunLease: runLease, Log: slog.New(slog.NewJSONHandler(&log, nil)), Now: b.clock.Now,
	})
	d := b.gadget()
	c, _ := d.connects(h)
	c.says(devices.Said{Key: "k", Goal: "open the door at nine or at ten tonight"})
	answer, ok := c.next().(devices.Answer)
	require.True(t, ok)
	require.ErrorContains(t, answer.Err, "ten")
	c.closes()
	require.Contains(t, log.String(), "goals.said_not_taken")
	require.NotContains(t, log.String(), "nine")
	require.NotContains(t, log.String(), "ten tonight")
}
