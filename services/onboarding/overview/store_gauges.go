package overview

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// mostInBurst limits how many sessions a scrape looks at, and up to how much it counts.
const mostInBurst = 100_000

// overdueAfter is after how long a step that was not sent is overdue: the sweeper leaves a minute to QStash.
const overdueAfter = time.Minute

// SQLGauges counts a step as due by the newest alarm that was set on purpose: the sweeper's repeats are due anew each time,
// and would hide how long a sequence has stood still. Of the sessions in their burst it looks at the alarms of those with a step due by
// now, the thousand that are due for longest, so that a crowd that waits for its steps costs a scrape no more than that. What a pause keeps
// counts only if it is asked for: it is late on purpose.
const SQLGauges = `
with burst as materialized (
    select id, org_id, profile_id, next_step_id, step_due_at, paused_at from conversation_sessions
    where sweep_at is not null order by sweep_at limit @most
), late as materialized (
    select b.id, b.next_step_id, b.step_due_at from burst b
    where b.step_due_at <= @now and b.paused_at is null
      and b.profile_id not in (select id from profiles where hold)
      and (@kept or b.org_id not in (select org_id from paused_organisations))
)
select
    (select count(*) from burst) as in_burst,
    (select count(*) from late where step_due_at <= @overdue) as overdue,
    (select min(meant.due_at)
     from (select id, next_step_id from late order by step_due_at limit 1000) s
     cross join lateral (
         select a.due_at from step_alarms a
         where a.session_id = s.id and a.step_id = s.next_step_id and a.cause <> 'overdue'
         order by a.generation desc limit 1
     ) meant) as waiting_since,
    (select count(*) from (
        select from step_alarms a
        where ` + sqlLeft + `
        limit @most) a) as unpublished,
    (select min(a.created_at) from step_alarms a
     where ` + sqlLeft + `) as written_at,
    (select count(*) from (select from dead_letters d where ` + conversation.LetterOpen + ` limit @most) d) as dead_letters,
    (select count(*) from scheduling_pauses) as pauses,
    (select min(e.requested_at) from erasures e where e.next_try_at is not null) as erasing_since`

// sqlLeft is an alarm that was not published, and that the process which wrote it does not publish or ring any more.
const sqlLeft = `a.published_at is null and (a.attempts > 0 or a.lease_until <= @now)
        and (@kept or a.org_id not in (select org_id from paused_organisations))`

// Gauges counts how the conversations stand of all organisations that ctx may see.
func (s *Store) Gauges(ctx context.Context, now time.Time) (Gauges, error) {
	return s.GaugesUpTo(ctx, now, mostInBurst, false)
}

// GaugesUpTo are the gauges, with what a pause keeps if kept says so.
func (s *Store) GaugesUpTo(ctx context.Context, now time.Time, most int, kept bool) (Gauges, error) {
	var found struct {
		InBurst, Overdue, Unpublished, DeadLetters, Pauses int
		WaitingSince, WrittenAt, ErasingSince              *time.Time
	}
	var batch pgx.Batch
	batch.Queue(postgres.PlanNow)
	args := postgres.Args{"now": now, "overdue": now.Add(-overdueAfter), "most": most, "kept": kept}
	batch.Queue(SQLGauges, args).QueryRow(func(row pgx.Row) error {
		return row.Scan(
			&found.InBurst, &found.Overdue, &found.WaitingSince, &found.Unpublished, &found.WrittenAt, &found.DeadLetters, &found.Pauses,
			&found.ErasingSince)
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return Gauges{}, fmt.Errorf("see how the conversations stand: %w", err)
	}
	return Gauges{
		InBurst: found.InBurst, Overdue: found.Overdue, Lag: postgres.Age(found.WaitingSince, now), Unpublished: found.Unpublished,
		OldestAlarm: postgres.Age(found.WrittenAt, now), DeadLetters: found.DeadLetters,
		Pauses: found.Pauses, OldestErasure: postgres.Age(found.ErasingSince, now),
	}, nil
}

const sqlParked = `
select s.status, count(*)::int as n from conversation_sessions s where s.status in ('stuck', 'undeliverable')
  and not exists (select from tickets t where t.session_id = s.id and t.status <> 'closed') group by s.status`

// Parked counts the sessions that wait for an operator, but for those with a ticket: the inbox counts them.
func (s *Store) Parked(ctx context.Context) (map[session.Status]int, error) {
	rows, err := s.pool.Query(ctx, sqlParked)
	if err != nil {
		return nil, fmt.Errorf("count parked sessions: %w", err)
	}
	counted := map[session.Status]int{}
	var status string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&status, &n}, func() error {
		counted[session.Status(status)] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count parked sessions: %w", err)
	}
	return counted, nil
}
