package send

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

const (
	// mostSeries bounds the organisations with series: those with the most messages. All others are one more.
	mostSeries = 200
	// otherOrganisations is the label of all others.
	otherOrganisations = "other"
)

// sqlBusy adds up the quarters of the last hour by organisation: a few rows of each that has messages.
const sqlBusy = `
with busy as (
    select q.org_id, sum(q.delivered) as delivered, sum(q.failed) as failed, sum(q.under_way) as under_way, sum(q.replies) as received
    from sms_quarters q where q.quarter > @since group by q.org_id
), ranked as (
    select b.*, row_number() over (order by delivered + failed + under_way + received desc, org_id) as place from busy b
)
select case when place <= @most then org_id::text else @other::text end as org, sum(delivered)::bigint as delivered,
    sum(failed)::bigint as failed, sum(under_way)::bigint as under_way, sum(received)::bigint as received
from ranked group by 1`

// Busy has the messages of the last hour of an organisation, or of all that are not among the busiest, by how they ended so far.
type Busy struct {
	Org                                   string
	Delivered, Failed, UnderWay, Received int64
}

// Busy reads the messages of the last hour, as they were counted last.
func (s *Store) Busy(ctx context.Context, now time.Time) (found []Busy, err error) {
	defer edge.Mark(&err)
	rows, err := s.pool.Query(postgres.AcrossOrganisations(ctx), sqlBusy, postgres.Args{
		"since": now.Add(-time.Hour), "most": mostSeries, "other": otherOrganisations,
	})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[Busy])
}

// ObserveOrganisations registers the gauge of the messages of organisations, which is read at every collection.
func ObserveOrganisations(
	ctx context.Context, meter metric.Meter, read func(ctx context.Context, now time.Time) ([]Busy, error), now func() time.Time,
) error {
	_, err := meter.Int64ObservableGauge("paceline_organisation_messages",
		metric.WithDescription("Messages of the last hour by organisation and by how they ended so far: of the 200 busiest, and of the others."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
			defer cancel()
			found, err := read(ctx, now())
			if err != nil {
				return err
			}
			rest := Busy{Org: otherOrganisations} // none is a number, too
			for _, b := range found {
				if b.Org == otherOrganisations {
					rest = b
					continue
				}
				b.observe(o)
			}
			rest.observe(o)
			return nil
		}))
	return err
}

func (b Busy) observe(o metric.Int64Observer) {
	for result, n := range map[string]int64{"delivered": b.Delivered, "failed": b.Failed, "under_way": b.UnderWay, "received": b.Received} {
		o.Observe(n, metric.WithAttributes(attribute.String("org_id", b.Org), attribute.String("result", result)))
	}
}
