package send

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

// sqlBusy adds up the quarters of the last hour by organisation: a few rows of each that has messages.
const sqlBusy = `
with busy as (
    select q.org_id, sum(q.delivered) as delivered, sum(q.failed) as failed, sum(q.under_way) as under_way, sum(q.replies) as received
    from sms_quarters q where q.quarter > @since group by q.org_id
), ranked as (
    select org_id, delivered, failed, under_way, received,
        row_number() over (order by delivered + failed + under_way + received desc, org_id) as place from busy
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
