package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/burst"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/session"
)

const sqlInsertAlarm = `
insert into step_alarms
    (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, cause, due_at, lease_token, lease_until, created_at)
values (@id, @org_id, @session, @profile, @step, @token, @generation, @cause, @due_at, nullif(@lease, '')::uuid, @lease_until, @at)`

// publishLease is how long the request that wrote an alarm has for publishing it before the relay may.
const publishLease = 10 * time.Second

// insertAlarm writes an alarm, leased to its publisher; without a lease token it is the relay's at once.
func insertAlarm(ctx context.Context, tx pgx.Tx, a session.Alarm, at time.Time) error {
	leaseUntil := at
	if a.LeaseToken != "" {
		leaseUntil = at.Add(publishLease)
	}
	_, err := tx.Exec(ctx, sqlInsertAlarm, pgx.NamedArgs{
		"id": a.ID, "org_id": a.OrgID, "session": a.SessionID, "profile": a.ProfileID, "step": string(a.StepID),
		"token": string(a.ExpectedToken), "generation": a.Generation, "cause": string(a.Cause), "due_at": a.DueAt, "lease": a.LeaseToken,
		"lease_until": leaseUntil, "at": at,
	})
	if err != nil {
		return fmt.Errorf("write alarm: %w", err)
	}
	return nil
}

const sqlClaimAlarms = `
with open as (
    select id from step_alarms
    where published_at is null and lease_until <= @now
    order by due_at limit @limit
    for update skip locked
)
update step_alarms a
set lease_token = @token, lease_until = @lease_until, attempts = attempts + 1
from open where a.id = open.id
returning a.id, a.org_id, a.session_id, a.profile_id, a.step_id, a.expected_state_token as expected_token, a.generation,
          a.cause, a.due_at, a.lease_token`

// ClaimAlarms claims at most limit unpublished alarms whose publisher has had its time, those that are due first.
func (s *Store) ClaimAlarms(ctx context.Context, limit int, now, leaseUntil time.Time) ([]session.Alarm, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("lease token: %w", err)
	}
	rows, err := s.pool.Query(ctx, sqlClaimAlarms, pgx.NamedArgs{
		"limit": limit, "now": now, "lease_until": leaseUntil, "token": token.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("claim alarms: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[session.Alarm])
}

// An alarm that is published is published, whoever did it: only its lease is not required to match.
const sqlPublished = `
update step_alarms set published_at = @at, qstash_message_id = @message, last_error = '', lease_token = null
where id = @id and published_at is null`

// AlarmPublished records that QStash has the alarm.
func (s *Store) AlarmPublished(ctx context.Context, id, qstashMessageID string, at time.Time) error {
	_, err := s.pool.Exec(ctx, sqlPublished, pgx.NamedArgs{"id": id, "message": qstashMessageID, "at": at})
	if err != nil {
		return fmt.Errorf("record published alarm: %w", err)
	}
	return nil
}

const sqlReleaseAlarm = `
update step_alarms set lease_token = null, lease_until = @retry_at, last_error = @cause
where id = @id and lease_token = @token and published_at is null`

// AlarmFailed gives an alarm back to the relay of any instance, due for another try at retryAt.
func (s *Store) AlarmFailed(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error {
	_, err := s.pool.Exec(ctx, sqlReleaseAlarm, pgx.NamedArgs{"id": a.ID, "token": a.LeaseToken, "retry_at": retryAt, "cause": cause})
	if err != nil {
		return fmt.Errorf("release alarm: %w", err)
	}
	return nil
}

// overdueReach is how many sessions one look for overdue steps goes through: what keeps them from being overdue, such as alarms that
// QStash does not take, must not make it read everybody who waits.
const overdueReach = 10_000

// sqlOverdue compares with the newest alarm of the step that is due. It rests twice as long after each that the sweeper set itself,
// @doublings times at most; what else sets an alarm begins the count again. Which sessions to look at is asked of the index on
// step_due_at alone, and what is read of them by their ids, whatever the statistics say.
const sqlOverdue = sqlSessionColumns + `, newest.generation, newest.repeats, newest.failed,
       coalesce(s.unavailable_at >= newest.due_at, false) as unavailable` + sqlSessionTables + `
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
where s.id = any(array(
    select w.id from conversation_sessions w
    where w.status = 'active' and w.next_step_id is not null and w.step_due_at <= @now::timestamptz - @grace::interval
    order by w.step_due_at limit @reach))
  and s.paused_at is null and not p.hold
  and newest.rung_at + @grace::interval * power(2, least(newest.repeats, @doublings::int)) <= @now
order by s.step_due_at limit @limit`

// sqlPlannedNow, sent ahead in the same transaction, has a statement planned for the tables as they are, and not read in a row.
const sqlPlannedNow = `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true)`

// Overdue lists at most limit sessions that wait for a step although its newest alarm should have rung the grace ago,
// twice that after the first alarm in a row that the sweeper set, four times after the second, and so on for that many doublings.
func (s *Store) Overdue(ctx context.Context, limit, doublings int, grace time.Duration, now time.Time) (found []burst.Overdue, err error) {
	var batch pgx.Batch
	batch.Queue(sqlPlannedNow)
	batch.Queue(sqlOverdue, pgx.NamedArgs{"grace": grace, "now": now, "limit": limit, "reach": overdueReach, "doublings": doublings}).
		Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, toOverdue)
			return err
		})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("look for overdue steps: %w", err)
	}
	return found, nil
}

func toOverdue(r pgx.CollectableRow) (burst.Overdue, error) {
	found, err := pgx.RowToStructByName[struct {
		row
		Generation  int
		Repeats     int
		Failed      int
		Unavailable bool
	}](r)
	return burst.Overdue{
		Session: found.view().Session, Generation: found.Generation, Repeats: found.Repeats, Failed: found.Failed, Unavailable: found.Unavailable,
	}, err
}

const sqlUnavailable = `
update conversation_sessions set unavailable_at = @at where id = @id and (unavailable_at is null or unavailable_at < @at)`

// Unavailable notes that a step could not be done because messaging cannot be reached.
func (s *Store) Unavailable(ctx context.Context, sessionID string, at time.Time) error {
	if _, err := s.pool.Exec(ctx, sqlUnavailable, pgx.NamedArgs{"id": sessionID, "at": at}); err != nil {
		return fmt.Errorf("note that messaging cannot be reached: %w", err)
	}
	return nil
}

const sqlLastAlarm = `
select generation, due_at from step_alarms where session_id = $1 and step_id = $2 order by generation desc limit 1`

func lastAlarm(ctx context.Context, tx pgx.Tx, r session.Record) (generation int, due time.Time, err error) {
	if err := tx.QueryRow(ctx, sqlLastAlarm, r.ID, string(r.NextStep)).Scan(&generation, &due); err != nil {
		return 0, time.Time{}, fmt.Errorf("read last alarm: %w", err)
	}
	return generation, due, nil
}

// still locks a session that stands where a decision saw it, and reports whether it does.
func still(ctx context.Context, tx pgx.Tx, r session.Record) (bool, error) {
	tag, err := tx.Exec(ctx, sqlStill, r.ID, string(r.Status), r.Turn)
	if err != nil {
		return false, fmt.Errorf("lock session: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

const sqlRest = `update conversation_sessions set step_due_at = @until where id = @id`

// Rearm sets the alarm of a due step again, and has the sweeper count its grace from then, when that is to rest longer. It changes
// nothing when the session has moved on since it was read, or has a newer alarm already. dispatch.ErrLocked when another transaction
// has the session.
func (s *Store) Rearm(ctx context.Context, r session.Record, a session.Alarm, then, at time.Time) error {
	return unlessLocked(ctx, s, func(tx pgx.Tx) error {
		if ok, err := still(ctx, tx, r); err != nil || !ok {
			return err
		}
		generation, _, err := lastAlarm(ctx, tx, r)
		if err != nil || generation+1 != a.Generation {
			return err
		}
		if err := rearm(ctx, tx, a, at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlRest, pgx.NamedArgs{"id": r.ID, "until": then}); err != nil {
			return fmt.Errorf("let a step rest: %w", err)
		}
		return nil
	})
}

// Park is Move for a loop: dispatch.ErrLocked when another transaction has the session.
func (s *Store) Park(ctx context.Context, m session.Move) error {
	return unlessLocked(ctx, s, func(tx pgx.Tx) error { return move(ctx, tx, m, nil) })
}

func unlessLocked(ctx context.Context, s *Store, fn func(pgx.Tx) error) error {
	err := postgres.InTxUnlessLocked(ctx, s.pool, fn)
	if errors.Is(err, postgres.ErrLocked) {
		return fmt.Errorf("%w: %w", dispatch.ErrLocked, err)
	}
	return err
}

// sqlRingUnpublished leaves out what a publisher has at this moment.
const sqlRingUnpublished = `
with late as (
    select count(*)::integer as n, min(created_at) as written_at from step_alarms
    where created_at <= @before and lease_until <= @now and published_at is null
)
select n, written_at, case when n > 0 then pg_notify('` + ChannelAlarms + `', '') end is not null from late`

// RingUnpublished wakes every relay when alarms that were written before an instant are still unpublished, and reports how many there
// are and since when.
func (s *Store) RingUnpublished(ctx context.Context, before, now time.Time) (n int, since time.Time, err error) {
	var writtenAt *time.Time
	var rung bool
	err = s.pool.QueryRow(ctx, sqlRingUnpublished, pgx.NamedArgs{"before": before, "now": now}).Scan(&n, &writtenAt, &rung)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look for unpublished alarms: %w", err)
	}
	if writtenAt != nil {
		since = *writtenAt
	}
	return n, since, nil
}

const sqlWaits = `
select count(*) filter (where cause = 'delivery'),
       count(*) filter (where cause = 'delivery' and generation > coalesce(
           (select max(generation) from step_alarms where session_id = $1 and step_id = $2 and cause <> 'delivery'), 0))
from step_alarms where session_id = $1 and step_id = $2`

// AwaitReceipt sets the alarm of a due step again, for another look at the receipt of the one before it, and tells the
// timeline the first time; next is given the alarm's generation and how many such looks came right before. It returns the
// alarm, leased to the caller, or nil when there is nothing to publish: an alarm that is still to ring looks again
// anyway, and so of any number of executions at once one sets it. dispatch.ErrConflict when the session has moved on.
func (s *Store) AwaitReceipt(
	ctx context.Context, r session.Record, next func(generation, looks int) *session.Alarm, told session.Entry,
) (*session.Alarm, error) {
	var set *session.Alarm
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		set = nil
		if ok, err := still(ctx, tx, r); err != nil || !ok {
			return cmp.Or(err, dispatch.ErrConflict)
		}
		generation, due, err := lastAlarm(ctx, tx, r)
		if err != nil || due.After(told.At) {
			return err
		}
		var ever, looks int
		if err := tx.QueryRow(ctx, sqlWaits, r.ID, string(r.NextStep)).Scan(&ever, &looks); err != nil {
			return fmt.Errorf("count looks: %w", err)
		}
		if ever == 0 {
			if err := writeTimeline(ctx, tx, r.ID, []session.Entry{told}); err != nil {
				return err
			}
		}
		set = next(generation+1, looks)
		return insertAlarm(ctx, tx, *set, told.At)
	})
	return set, err
}

// rearm writes an alarm that nobody publishes inline, so it is the relay's at once.
func rearm(ctx context.Context, tx pgx.Tx, a session.Alarm, at time.Time) error {
	a.LeaseToken = ""
	if err := insertAlarm(ctx, tx, a, at); err != nil {
		return err
	}
	return notify(ctx, tx, ChannelAlarms)
}
