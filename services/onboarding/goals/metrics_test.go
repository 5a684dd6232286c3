package goals_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/services/onboarding/goals"
)

// measured reads the metrics of a bundle.
type measured struct {
	t      *testing.T
	reader *sdkmetric.ManualReader
}

// measures has the bundle's service measure.
func (b *bundle) measures() measured {
	b.t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	b.t.Cleanup(func() { require.NoError(b.t, provider.Shutdown(context.WithoutCancel(b.t.Context()))) })
	m, err := goals.NewMetrics(provider.Meter("test"))
	require.NoError(b.t, err)
	b.service.Metrics = m
	require.NoError(b.t, b.service.Observe(b.t.Context(), provider.Meter("test"), b.store))
	return measured{t: b.t, reader: reader}
}

// mutes has QStash take alarms, and deliver none.
func (b *bundle) mutes() {
	b.qstash.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Lose: true})})
}

// value returns the value of a counter or a gauge, or how often a histogram was recorded and the sum of it, by pairs of label and value.
func (m measured) value(name string, labels ...string) (value, sum float64) {
	m.t.Helper()
	var attrs []attribute.KeyValue
	for i := 0; i < len(labels); i += 2 {
		attrs = append(attrs, attribute.String(labels[i], labels[i+1]))
	}
	want := attribute.NewSet(attrs...)
	var got metricdata.ResourceMetrics
	require.NoError(m.t, m.reader.Collect(m.t.Context(), &got))
	for _, scope := range got.ScopeMetrics {
		for _, one := range scope.Metrics {
			if one.Name == name {
				return valueOf(one.Data, want)
			}
		}
	}
	return 0, 0
}

func valueOf(data metricdata.Aggregation, want attribute.Set) (value, sum float64) {
	switch points := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range points.DataPoints {
			if p.Attributes.Equals(&want) {
				return float64(p.Value), 0
			}
		}
	case metricdata.Gauge[float64]:
		return points.DataPoints[0].Value, 0
	case metricdata.Gauge[int64]:
		return float64(points.DataPoints[0].Value), 0
	case metricdata.Histogram[float64]:
		for _, p := range points.DataPoints {
			if p.Attributes.Equals(&want) {
				return float64(p.Count), p.Sum
			}
		}
	}
	return 0, 0
}

// is requires the value of a counter or a gauge.
func (m measured) is(want float64, name string, labels ...string) {
	m.t.Helper()
	got, _ := m.value(name, labels...)
	require.InDelta(m.t, want, got, 1e-6, "%s %v", name, labels)
}

// once requires one recording of a histogram.
func (m measured) once(want time.Duration, name string, labels ...string) {
	m.t.Helper()
	count, sum := m.value(name, labels...)
	require.InDelta(m.t, 1, count, 0, "%s %v", name, labels)
	require.InDelta(m.t, want.Seconds(), sum, 1e-6, "%s %v", name, labels)
}

func TestMetrics(t *testing.T) {
	t.Parallel()

	t.Run("OfferIsMeasuredFromTheTimeOfTheGoalAndFromItsAlarm", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.mutes()
		m := b.measures()
		g := b.says(b.device(), time.Minute)
		b.clock.Advance(time.Minute + time.Second)
		require.NoError(t, b.store.Call(t.Context(), g, b.clock.Now()))
		b.clock.Advance(40 * time.Millisecond)
		run := b.offers(g).RunID
		m.once(1040*time.Millisecond, "paceline_goal_lateness_seconds", "device", "stream", "waited", "nothing")
		m.once(40*time.Millisecond, "paceline_goal_call_seconds", "device", "stream")
		for range 2 {
			b.ends(g, goals.End{RunID: run, Reason: goals.ReasonDevice, Detail: "the words of the device"})
		}
		m.is(1, "paceline_goals_ended_total", "device", "stream", "outcome", goals.ReasonDevice)
		m.is(0, "paceline_goals_ended_total", "device", "stream", "outcome", "completed")
	})

	t.Run("TextIsMeasuredUntilItIsAccepted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.mutes()
		m := b.measures()
		g := b.says("", time.Minute)
		b.clock.Advance(time.Minute + 3*time.Second)
		for range 2 {
			_, err := b.alarmed(g)
			require.NoError(t, err)
		}
		m.once(3*time.Second, "paceline_goal_lateness_seconds", "device", "phone", "waited", "nothing")
		m.once(0, "paceline_goal_call_seconds", "device", "phone")
		m.is(1, "paceline_goals_ended_total", "device", "phone", "outcome", "completed")
	})

	t.Run("GoalThatWaitedForItsDeviceIsNotLateOfOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.mutes()
		m := b.measures()
		g := b.says(b.device(), time.Minute)
		b.disconnect(g.DeviceID)
		b.clock.Advance(time.Minute)
		_, err := b.alarmed(g)
		require.ErrorIs(t, err, goals.ErrOffline)
		b.connect(g.DeviceID)
		b.clock.Advance(10 * time.Second)
		b.begins(g)
		m.is(1, "paceline_goal_alarms_offline_total")
		m.once(10*time.Second, "paceline_goal_lateness_seconds", "device", "stream", "waited", "offline")
	})
}

func TestMetricsOfEnds(t *testing.T) {
	t.Parallel()

	t.Run("AnOfflineDeviceIsCountedByTryAndOnceByItsEnd", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.measures()
		device := b.device()
		b.disconnect(device)
		g := b.says(device, time.Minute)
		b.plays(11 * time.Minute)
		b.is(g, goals.Failed)
		b.clock.Advance(time.Hour)
		b.sweeps()
		m.is(6, "paceline_goal_alarms_offline_total")
		m.is(1, "paceline_goals_ended_total", "device", "stream", "outcome", goals.ReasonOffline)
	})

	t.Run("WhatTheSweeperEndsIsCountedByItsReason", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.measures()
		b.says("", time.Minute)
		b.says("", time.Minute+time.Second)
		b.phone.set(errDoubt)
		b.plays(time.Minute + time.Second)
		b.clock.Advance(time.Hour)
		for range 2 {
			b.sweeps()
		}
		m.is(1, "paceline_goals_ended_total", "device", "phone", "outcome", goals.ReasonBusy)
		m.is(1, "paceline_goals_ended_total", "device", "phone", "outcome", goals.ReasonLimit)
	})

	t.Run("GoalsOfARemovedDeviceAreCountedOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.measures()
		device := b.device()
		b.says(device, time.Minute)
		b.says(device, time.Hour)
		registry := &goals.Devices{Store: b.store, Metrics: b.service.Metrics, Now: b.clock.Now}
		for range 2 {
			require.NoError(t, registry.Remove(t.Context(), b.me(), device))
		}
		m.is(2, "paceline_goals_ended_total", "device", "stream", "outcome", goals.ReasonRemoved)
	})

	t.Run("LagIsOfTheGoalThatHasWaitedLongestForItsAlarm", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.measures()
		b.qstash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault { return emulator.PublishFault{Status: 500} }})
		b.says("", time.Hour)
		g := b.says("", time.Minute)
		m.is(0, "paceline_goal_lag_seconds")
		b.clock.Advance(3 * time.Minute)
		m.is(120, "paceline_goal_lag_seconds")
		m.is(180, "paceline_goal_alarms_unpublished_oldest_seconds")
		require.NoError(t, b.store.Waits(t.Context(), g, b.clock.Now()))
		m.is(0, "paceline_goal_lag_seconds")
	})
}
