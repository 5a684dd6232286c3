package send_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// gauge is the value of a gauge, of this status unless that is empty.
func gauge(t *testing.T, reader *sdkmetric.ManualReader, name, status string) float64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	want := attribute.NewSet()
	if status != "" {
		want = attribute.NewSet(attribute.String("status", status))
	}
	for _, m := range got.ScopeMetrics[0].Metrics {
		if m.Name != name {
			continue
		}
		switch points := m.Data.(type) {
		case metricdata.Gauge[int64]:
			for _, p := range points.DataPoints {
				if p.Attributes.Equals(&want) {
					return float64(p.Value)
				}
			}
		case metricdata.Sum[int64]:
			return float64(points.DataPoints[0].Value)
		case metricdata.Gauge[float64]:
			for _, p := range points.DataPoints {
				if p.Attributes.Equals(&want) {
					return p.Value
				}
			}
		}
	}
	require.FailNow(t, "no such gauge: "+name)
	return 0
}

func TestGauges(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*bundle, *sdkmetric.ManualReader) {
		t.Helper()
		b, reader := setup(t), sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
		require.NoError(t, send.Observe(t.Context(), provider.Meter("test"), b.Store.Gauges, b.Clock.Now))
		return b, reader
	}
	exec := func(t *testing.T, b *bundle, sql string, args ...any) {
		t.Helper()
		_, err := b.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}

	// text stores a row as a send leaves it that went no further; Twilio's emulator would soon report on the texts that it has.
	text := func(t *testing.T, b *bundle, key, status string) {
		t.Helper()
		exec(t, b, `insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
				segments, correlation_id, attempt_token, attempted_at, lease_until, attempts, accepted_at, next_look_at, created_at, updated_at)
			values (gen_random_uuid(), gen_random_uuid(), 'outbound', 'MG1', '+14155550123', 'hello', decode(repeat('00', 32), 'hex'), $1, $2,
				case when $2 = 'sent' then 'SM1' end, 1, '', gen_random_uuid(), $3, $3, 1, case when $2 = 'sent' then $3::timestamptz end, $3, $3, $3)`,
			key, status, b.Clock.Now())
	}

	t.Run("TextsInDoubtAreCountedByStatusWithTheirAge", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		for _, status := range []string{"unknown", "parked"} {
			require.Zero(t, gauge(t, reader, "paceline_sms_in_doubt", status))
			require.Zero(t, gauge(t, reader, "paceline_sms_in_doubt_oldest_seconds", status))
		}
		text(t, b, "one", "unknown")
		b.Clock.Advance(time.Minute)
		text(t, b, "two", "unknown")
		b.Clock.Advance(time.Minute)
		require.InDelta(t, 2, gauge(t, reader, "paceline_sms_in_doubt", "unknown"), 0)
		require.InDelta(t, 120, gauge(t, reader, "paceline_sms_in_doubt_oldest_seconds", "unknown"), .001)
		exec(t, b, `update sms_messages set status = 'parked' where idempotency_key = 'one'`)
		require.InDelta(t, 1, gauge(t, reader, "paceline_sms_in_doubt", "unknown"), 0)
		require.InDelta(t, 60, gauge(t, reader, "paceline_sms_in_doubt_oldest_seconds", "unknown"), .001)
		require.InDelta(t, 120, gauge(t, reader, "paceline_sms_in_doubt_oldest_seconds", "parked"), .001)
		exec(t, b, `update sms_messages set status = 'given_up' where idempotency_key = 'one'`)
		require.Zero(t, gauge(t, reader, "paceline_sms_in_doubt", "parked"), "an operator has said")
	})

	t.Run("AReceiptIsMissingAfterAQuarterOfAnHour", func(t *testing.T) {
		t.Parallel()
		b, reader := setup(t)
		text(t, b, "one", "sent")
		b.Clock.Advance(15*time.Minute - time.Millisecond)
		require.Zero(t, gauge(t, reader, "paceline_sms_receipts_missing", ""))
		b.Clock.Advance(time.Millisecond)
		require.InDelta(t, 1, gauge(t, reader, "paceline_sms_receipts_missing", ""), 0)
		exec(t, b, `update sms_messages set status = 'delivered', next_look_at = null`)
		require.Zero(t, gauge(t, reader, "paceline_sms_receipts_missing", ""))
	})

	t.Run("RefusedAccountsAreCounted", func(t *testing.T) {
		t.Parallel()
		b, _ := setup(t)
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
		metrics, err := send.NewMetrics(provider.Meter("test"))
		require.NoError(t, err)
		code := 0
		service := b.Service(func(c *send.Config) {
			c.Metrics = metrics
			c.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Status: sms.Rejected, Code: code}
			})
		})
		for _, code = range []int{21614, 20003} {
			r := b.Request()
			r.Key = fmt.Sprint("refused", code)
			_, err := service.Send(t.Context(), r)
			require.NoError(t, err)
		}
		require.InDelta(t, 1, gauge(t, reader, "paceline_sms_account_refusals_total", ""), 0)
	})
}
