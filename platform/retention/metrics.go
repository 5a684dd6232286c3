package retention

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics counts the rows that passes delete, by table, and measures how late that is.
type Metrics struct {
	rows metric.Int64Counter
	late metric.Float64Gauge
}

// NewMetrics registers them.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	rows, rowsErr := meter.Int64Counter("paceline_retention_rows_total",
		metric.WithDescription("Rows that were deleted, or emptied, because their time was over."))
	late, lateErr := meter.Float64Gauge("paceline_retention_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("By how much the oldest row that the last pass deleted was past its time; 0 when it found none."))
	return &Metrics{rows: rows, late: late}, errors.Join(rowsErr, lateErr)
}

func (m *Metrics) deleted(ctx context.Context, table string, rows int, late time.Duration) {
	if m == nil {
		return
	}
	of := metric.WithAttributes(attribute.String("table", table))
	m.rows.Add(ctx, int64(rows), of)
	m.late.Record(ctx, late.Seconds(), of)
}
