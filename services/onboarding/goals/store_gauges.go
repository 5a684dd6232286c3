package goals

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/platform/postgres"
)

// sqlGoalGauges looks for what waits for us among the goals that are due for longest, as many as one listing of overdue ones reads: a
// crowd of goals with offline devices costs a scrape no more than that. What a pause keeps is late on purpose, and does not count.
const sqlGoalGauges = `
select
    (select min(g.scheduled_for)
     from (select org_id, scheduled_for, waiting_since, offline_tries from goals
           where status = 'scheduled' and scheduled_for <= @now order by scheduled_for limit @reach) g
     where g.waiting_since is null and g.offline_tries = 0
       and g.org_id not in (select org_id from scheduling_pauses)) as due_at,
    (select min(a.created_at) from goal_alarms a
     where a.published_at is null and a.lease_until <= @now and a.org_id not in (select org_id from scheduling_pauses)) as written_at`

// Gauges returns the figures of the goals of all organisations that ctx may see.
func (s *Store) Gauges(ctx context.Context, now time.Time) (Gauges, error) {
	var dueAt, writtenAt *time.Time
	err := s.pool.QueryRow(ctx, sqlGoalGauges, postgres.Args{"now": now, "reach": goalReach}).Scan(&dueAt, &writtenAt)
	if err != nil {
		return Gauges{}, fmt.Errorf("see how the goals stand: %w", err)
	}
	return Gauges{Lag: postgres.Age(dueAt, now), OldestAlarm: postgres.Age(writtenAt, now)}, nil
}
