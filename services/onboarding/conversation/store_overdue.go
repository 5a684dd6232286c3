package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// overdueReach limits how many sessions one listing of overdue steps reads: what keeps them from being overdue, such as alarms that
// QStash does not take, must not make it read every session that waits.
const overdueReach = 10_000

// sqlOverdue compares with the newest alarm of the step that is due. It rests twice as long after each that the sweeper set itself,
// @doublings times at most; what else sets an alarm begins the count again. It goes through the index on sweep_at, which may be a minute
// early, in its order, and looks at the alarms of no more than it takes to find @limit.
const sqlOverdue = sqlSessionColumns + `, newest.generation, newest.repeats, newest.failed,
       coalesce(s.unavailable_at >= newest.due_at, false) as unavailable
from (select w.id, w.sweep_at from conversation_sessions w join profiles h on h.id = w.profile_id and not h.hold
      where w.sweep_at <= @now::timestamptz - @grace::interval and w.step_due_at <= @now::timestamptz - @grace::interval
        and w.paused_at is null
      order by w.sweep_at limit @reach) w
join conversation_sessions s on s.id = w.id join profiles p on p.id = s.profile_id left join organisation_settings o on o.org_id = s.org_id
join lateral (
    select a.generation, a.due_at, a.published_at, greatest(a.due_at, a.published_at) as rung_at,
           a.generation - meant.generation as repeats, (
               select count(*) from step_alarms b where b.session_id = s.id and b.step_id = s.next_step_id
                and b.generation > meant.generation and b.cause = 'overdue')::int as failed
    from step_alarms a cross join lateral (
        select coalesce(max(b.generation), 1) as generation from step_alarms b
        where b.session_id = s.id and b.step_id = s.next_step_id and b.cause not in ('overdue', 'unavailable')) meant
    where a.session_id = s.id and a.step_id = s.next_step_id
    order by a.generation desc limit 1
) newest on newest.published_at is not null
where newest.rung_at + @grace::interval * power(2, least(newest.repeats, @doublings::int)) <= @now
order by w.sweep_at limit @limit`

// Overdue lists at most limit sessions that wait for a step although its newest alarm should have rung the grace ago,
// twice that after the first alarm in a row that the sweeper set, four times after the second, and so on for that many doublings.
func (s *Store) Overdue(ctx context.Context, limit, doublings int, grace time.Duration, now time.Time) (found []Overdue, err error) {
	var batch pgx.Batch
	batch.Queue(postgres.PlanNow)
	batch.Queue(sqlOverdue, postgres.Args{"grace": grace, "now": now, "limit": limit, "reach": overdueReach, "doublings": doublings}).
		Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, s.toOverdue)
			return err
		})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("list overdue steps: %w", err)
	}
	return found, nil
}

func (s *Store) toOverdue(r pgx.CollectableRow) (o Overdue, err error) {
	view, err := s.scanView(r, &o.Generation, &o.Repeats, &o.Failed, &o.Unavailable)
	o.Session = view.Session
	return o, err
}

const sqlUnavailable = `
update conversation_sessions set unavailable_at = @at where id = @id and (unavailable_at is null or unavailable_at < @at)`

// Unavailable notes that a step could not be done because messaging cannot be reached.
func (s *Store) Unavailable(ctx context.Context, sessionID string, at time.Time) error {
	if _, err := s.pool.Exec(ctx, sqlUnavailable, postgres.Args{"id": sessionID, "at": at}); err != nil {
		return fmt.Errorf("note that messaging cannot be reached: %w", err)
	}
	return nil
}

const sqlRest = `update conversation_sessions set sweep_at = @until where id = @id`

// Rearm sets the alarm of a due step again, and has the sweeper count its grace from then, when that is to rest longer. It changes
// nothing when the session has moved on since it was read, or has a newer alarm already. postgres.ErrLocked when another transaction
// has the session.
func (s *Store) Rearm(ctx context.Context, r session.Record, a session.Alarm, then, at time.Time) error {
	return postgres.InTxUnlessLocked(ctx, s.pool, func(tx pgx.Tx) error {
		err := still(ctx, tx, r)
		if errors.Is(err, people.ErrConflict) {
			return nil
		}
		if err != nil {
			return err
		}
		found, err := alarmsOf(ctx, tx, r, a.Cause)
		if err != nil || found.generation+1 != a.Generation {
			return err
		}
		if err := inOutbox.Insert(ctx, tx, a, at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlRest, postgres.Args{"id": r.ID, "until": then}); err != nil {
			return fmt.Errorf("let a step rest: %w", err)
		}
		return nil
	})
}

// Park is Move for a loop: postgres.ErrLocked when another transaction has the session.
func (s *Store) Park(ctx context.Context, m session.Move) error {
	return postgres.InTxUnlessLocked(ctx, s.pool, func(tx pgx.Tx) error { return move(ctx, tx, m, nil) })
}

// PutBack sets the alarm of a due step again, for an execution that came while its organisation was paused: the relay publishes it after
// the pause. An alarm that no process publishes is that one already. people.ErrConflict when the session has moved on.
func (s *Store) PutBack(ctx context.Context, w session.Wait) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := still(ctx, tx, w.From); err != nil {
			return err
		}
		found, err := alarmsOf(ctx, tx, w.From, w.Cause)
		if err != nil || !found.mayRing {
			return err
		}
		if err := writeTimeline(ctx, tx, w.From.ID, []session.Entry{w.Entry}); err != nil {
			return err
		}
		a, err := alarmAgain(w.From, found.generation+1, w.Cause, laterOf(found.due, w.At))
		if err != nil {
			return err
		}
		return inOutbox.Insert(ctx, tx, a, w.At)
	})
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
