package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Observe registers gauges of a pool, which ask the pool alone and never the database. A wait for a connection comes before
// any statement that shows as slow.
func Observe(meter metric.Meter, pool interface{ Stat() *pgxpool.Stat }) error {
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
		s := pool.Stat()
		o.ObserveInt64(connections, int64(s.AcquiredConns()), state("in_use"))
		o.ObserveInt64(connections, int64(s.IdleConns()), state("idle"))
		o.ObserveInt64(connections, int64(s.MaxConns()), state("max"))
		o.ObserveInt64(waits, s.EmptyAcquireCount())
		o.ObserveFloat64(waited, s.EmptyAcquireWaitTime().Seconds())
		o.ObserveInt64(gaveUp, s.CanceledAcquireCount())
		return nil
	}, connections, waits, waited, gaveUp)
	return err
}
