package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Observe registers gauges of a pool, which ask the pool alone and never the database. A wait for a connection comes before
// any statement that shows as slow.
func Observe(meter metric.Meter, pool interface{ Stats() []*pgxpool.Stat }) error {
	connections, connectionsErr := meter.Int64ObservableGauge("paceline_postgres_pool_connections",
		metric.WithDescription("Connections of the pool by state; max is how many it may have."))
	waits, waitsErr := meter.Int64ObservableCounter("paceline_postgres_pool_waits_total",
		metric.WithDescription("How often a connection had to be waited for."))
	waited, waitedErr := meter.Float64ObservableCounter("paceline_postgres_pool_wait_seconds_total", metric.WithUnit("s"),
		metric.WithDescription("How long connections were waited for, together."))
	gaveUp, gaveUpErr := meter.Int64ObservableCounter("paceline_postgres_pool_acquire_timeouts_total",
		metric.WithDescription("How often a caller gave up waiting for a connection."))
	if err := errors.Join(connectionsErr, waitsErr, waitedErr, gaveUpErr); err != nil {
		return err
	}
	state := func(name string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("state", name))
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		var inUse, idle, most, waitCount, gaveUpCount int64
		var waitTime time.Duration
		for _, s := range pool.Stats() {
			inUse += int64(s.AcquiredConns())
			idle += int64(s.IdleConns())
			most += int64(s.MaxConns())
			waitCount += s.EmptyAcquireCount()
			waitTime += s.EmptyAcquireWaitTime()
			gaveUpCount += s.CanceledAcquireCount()
		}
		o.ObserveInt64(connections, inUse, state("in_use"))
		o.ObserveInt64(connections, idle, state("idle"))
		o.ObserveInt64(connections, most, state("max"))
		o.ObserveInt64(waits, waitCount)
		o.ObserveFloat64(waited, waitTime.Seconds())
		o.ObserveInt64(gaveUp, gaveUpCount)
		return nil
	}, connections, waits, waited, gaveUp)
	return err
}
