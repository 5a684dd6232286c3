package outbound

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// sqlSuspended counts the organisations that are suspended, and not ended, with something in the queue.
const sqlSuspended = `
select count(*)::int from organisations o
where o.status = 'suspended' and exists (select from sms_outbound_jobs j where j.org_id = o.org_id and j.status = 'pending')`

// Suspended counts the suspended organisations with messages in the queue.
func (o *Store) Suspended(ctx context.Context) (n int64, err error) {
	defer edge.Mark(&err)
	err = o.pool.QueryRow(postgres.AcrossOrganisations(ctx), sqlSuspended).Scan(&n)
	return n, err
}

// Observe registers the gauge of suspended organisations, which is read at every collection.
func Observe(ctx context.Context, meter metric.Meter, store *Store) error {
	_, err := meter.Int64ObservableGauge("paceline_organisations_suspended_waiting",
		metric.WithDescription("Suspended organisations with messages in the queue, which wait or expire."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
			defer cancel()
			n, err := store.Suspended(ctx)
			if err == nil {
				o.Observe(n)
			}
			return err
		}))
	return err
}
