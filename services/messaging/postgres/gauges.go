package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

const sqlInDoubt = `
select status, count(*)::int as n, min(coalesce(attempted_at, created_at)) as since
from sms_messages where status in ('unknown', 'parked') group by status`

// sqlMissing reads only what is still looked at: sms_messages_due has no other rows.
const sqlMissing = `
select count(*)::int from sms_messages
where next_look_at is not null and status in ('accepted', 'queued', 'sent') and accepted_at <= @before`

// Gauges counts the messages that are in doubt, and those whose final status is missing although Twilio took them so long ago, in all
// organisations that ctx may see.
func (s *Store) Gauges(ctx context.Context, now time.Time, overdue time.Duration) (gauges send.Gauges, err error) {
	defer mark(&err)
	gauges = send.Gauges{InDoubt: map[sms.Status]int{}, OldestInDoubt: map[sms.Status]time.Duration{}}
	rows, err := s.pool.Query(ctx, sqlInDoubt)
	if err != nil {
		return send.Gauges{}, err
	}
	var status string
	var n int
	var since time.Time
	_, err = pgx.ForEachRow(rows, []any{&status, &n, &since}, func() error {
		gauges.InDoubt[sms.Status(status)], gauges.OldestInDoubt[sms.Status(status)] = n, max(0, now.Sub(since))
		return nil
	})
	if err != nil {
		return send.Gauges{}, err
	}
	err = s.pool.QueryRow(ctx, sqlMissing, postgres.Args{"before": now.Add(-overdue)}).Scan(&gauges.Missing)
	return gauges, err
}
