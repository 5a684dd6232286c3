package goals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/people"
)

// inGoalOutbox writes alarms in transactions that exist already.
var inGoalOutbox = goalAlarms(nil)

const sqlNewestAlarm = `
select coalesce(max(generation), 0), coalesce((array_agg(coalesce(qstash_message_id, '') order by generation desc))[1], '')
from goal_alarms where goal_id = $1`

// addGoalAlarm writes the next alarm of a goal; the transaction has locked its row.
func addGoalAlarm(ctx context.Context, tx pgx.Tx, a *Alarm, at time.Time) error {
	var before string
	if err := tx.QueryRow(ctx, sqlNewestAlarm, a.GoalID).Scan(&a.Generation, &before); err != nil {
		return fmt.Errorf("read a goal's alarms: %w", err)
	}
	a.Generation++
	return inGoalOutbox.Insert(ctx, tx, *a, at)
}

// newestMessage is QStash's id of a goal's newest alarm; empty when QStash does not have it.
func newestMessage(ctx context.Context, db postgres.DB, goalID string) (messageID string, err error) {
	var generation int
	if err := db.QueryRow(ctx, sqlNewestAlarm, goalID).Scan(&generation, &messageID); err != nil {
		return "", fmt.Errorf("read a goal's alarms: %w", err)
	}
	return messageID, nil
}

const (
	// One person's goals are stored one after the other, so that none is one too many.
	sqlLockOwner = `select id from profiles where id = @profile and org_id = @org for no key update`

	sqlPhone = `
insert into devices (id, org_id, profile_id, name, kind, created_at, updated_at)
values (@device, @org, @profile, 'phone', 'phone', @at, @at)
on conflict (profile_id) where kind = 'phone' do nothing`

	sqlPhoneOf = `select id::text from devices where profile_id = @profile and kind = 'phone'`

	sqlCounts = `
select (select count(*) from goals where profile_id = @profile and status in ('scheduled', 'running')),
       (select count(*) from goals where profile_id = @profile and source = 'text' and created_at > @at::timestamptz - interval '24 hours')`

	// The device is locked against its removal, which fails what it has by then.
	sqlInsertGoal = `
insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, understood, note, status, scheduled_for,
    scheduled_delay, undo_of, created_by, created_at, updated_at)
select @id, @org, @profile, d.id, @source, @key, @said, @goal, @locale, @understood, @note, 'scheduled', @for, @delay,
    nullif(@undo, '')::uuid, @actor, @at, @at
from (select id from devices where id = @device and profile_id = @profile and deleted_at is null for share) d
on conflict on constraint goals_one_per_key do nothing`
)

var goalCreated = goalChange{
	set: `status = g.status`, where: `g.id = @goal`, from: "", event: "created", tells: eventGoalScheduled,
}

// lockOwner locks a person who is not being erased. ErrNoOwner, erasure.ErrBegun.
func lockOwner(ctx context.Context, tx pgx.Tx, profileID string, args postgres.Args) error {
	if err := changeOne(ctx, tx, "lock an owner", sqlLockOwner, args, ErrNoOwner); err != nil {
		return err
	}
	return erasure.NotBegun(ctx, tx, profileID)
}

// changeOne makes a statement that finds one row; none where it finds no row.
func changeOne(ctx context.Context, tx pgx.Tx, what, sql string, args postgres.Args, none error) error {
	tag, err := tx.Exec(ctx, sql, args)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case tag.RowsAffected() == 0:
		return none
	}
	return nil
}

// Insert stores a goal with its alarm, its line of the timeline and its event. A goal that the key has meanwhile is returned, and nothing
// stored. ErrNoOwner, erasure.ErrBegun, ErrNoDevice, ErrTooMany, ErrUndone.
func (s *Store) Insert(ctx context.Context, g Goal, a Alarm) (stored Goal, duplicate bool, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		stored, duplicate, err = insertGoal(ctx, tx, g, a)
		return err
	})
	if postgres.IsUniqueViolation(err, "goals_one_undo") {
		return Goal{}, false, ErrUndone
	}
	return stored, duplicate, err
}

func insertGoal(ctx context.Context, tx pgx.Tx, g Goal, a Alarm) (stored Goal, duplicate bool, err error) {
	args := postgres.Args{
		"id": g.ID, "org": g.OrgID, "profile": g.ProfileID, "device": g.DeviceID, "source": string(g.Source), "key": g.Key, "said": g.Said,
		"goal": g.Goal, "locale": g.Locale, "understood": g.Understood, "note": g.Note, "for": g.ScheduledFor,
		"delay": int64(g.Delay.Seconds()), "undo": g.UndoOf, "actor": g.CreatedBy, "at": g.CreatedAt,
	}
	if err := lockOwner(ctx, tx, g.ProfileID, args); err != nil {
		return g, false, err
	}
	stored, err = goalOfKey(ctx, tx, args)
	if !errors.Is(err, ErrNoGoal) {
		return stored, err == nil, err
	}
	var open, today int
	if err := tx.QueryRow(ctx, sqlCounts, args).Scan(&open, &today); err != nil {
		return g, false, fmt.Errorf("count goals: %w", err)
	}
	if open >= MaxOpen || g.Source == SourceText && today >= MaxTextDaily {
		return g, false, ErrTooMany
	}
	if g.DeviceID == "" {
		if err := ensurePhone(ctx, tx, args); err != nil {
			return g, false, err
		}
	}
	if err := changeOne(ctx, tx, "store a goal", sqlInsertGoal, args, ErrNoDevice); err != nil {
		return g, false, err
	}
	if err := goalCreated.one(ctx, tx, g.CreatedAt, g.CreatedBy, "", postgres.Args{"goal": g.ID}); err != nil {
		return g, false, err
	}
	if err := inGoalOutbox.Insert(ctx, tx, a, g.CreatedAt); err != nil {
		return g, false, err
	}
	stored, err = oneGoal(ctx, tx, `g.id = @id`, args)
	return stored, false, err
}

// ensurePhone sets the device to the person's phone, which is made with its first goal.
func ensurePhone(ctx context.Context, tx pgx.Tx, args postgres.Args) error {
	args["device"] = newID()
	if _, err := tx.Exec(ctx, sqlPhone, args); err != nil {
		return fmt.Errorf("make a phone: %w", err)
	}
	var id string
	if err := tx.QueryRow(ctx, sqlPhoneOf, args).Scan(&id); err != nil {
		return fmt.Errorf("read a phone: %w", err)
	}
	args["device"] = id
	return nil
}

// Reschedule moves a goal that stands as it was read, sets its next alarm, and returns the message of the one before. A *StatusError
// of one that has begun or ended, ErrConflict of one that was moved.
func (s *Store) Reschedule(
	ctx context.Context, g Goal, a Alarm, actor string, at time.Time,
) (stored Goal, set Alarm, messageID string, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		before, err := oneGoal(ctx, tx, `g.id = @goal for update of g`, postgres.Args{"goal": g.ID})
		if err != nil {
			return err
		}
		if before.Status != Scheduled {
			return &StatusError{Status: before.Status, StartedAt: before.StartedAt}
		}
		if err := toMoveGoal.one(ctx, tx, at, actor, "", postgres.Args{
			"goal": g.ID, "for": before.ScheduledFor, "to": g.ScheduledFor, "delay": int64(g.Delay.Seconds()),
			"understood": g.Understood, "note": g.Note,
		}); err != nil {
			return err
		}
		if messageID, err = newestMessage(ctx, tx, g.ID); err != nil {
			return err
		}
		set = a
		if err := addGoalAlarm(ctx, tx, &set, at); err != nil {
			return err
		}
		if !before.WaitingSince.IsZero() { // it gives its turn up
			if err := nextOnDevice(ctx, tx, g.DeviceID, at); err != nil {
				return err
			}
		}
		stored, err = oneGoal(ctx, tx, `g.id = @goal`, postgres.Args{"goal": g.ID})
		return err
	})
	return stored, set, messageID, err
}

const sqlAlarmAhead = `
select exists (select from goal_alarms where goal_id = $1 and (generation >= $2 and $2 > 0 or due_at > $3))`

// Rearm sets the next alarm of a goal that has not moved, unless it has one of that generation already, or one that is still to come.
// ErrConflict; postgres.ErrLocked when another transaction has the goal.
func (s *Store) Rearm(ctx context.Context, g Goal, a Alarm, at time.Time) error {
	return postgres.InTxUnlessLocked(ctx, s.pool, func(tx pgx.Tx) error {
		if err := lockAsRead(ctx, tx, g); err != nil {
			return err
		}
		var ahead bool
		if err := tx.QueryRow(ctx, sqlAlarmAhead, g.ID, a.Generation, at).Scan(&ahead); err != nil {
			return fmt.Errorf("read a goal's alarms: %w", err)
		}
		if ahead {
			return ErrConflict
		}
		return addGoalAlarm(ctx, tx, &a, at)
	})
}

// lockAsRead locks the row of a goal; ErrConflict when it has moved since it was read.
func lockAsRead(ctx context.Context, tx pgx.Tx, g Goal) error {
	_, err := oneGoal(ctx, tx, asRead+` for update of g`, read(g))
	if errors.Is(err, ErrNoGoal) {
		return ErrConflict
	}
	return err
}

// sqlMayRing reports whether the newest alarm of a goal may have rung: it is published, a process publishes it and has not written that
// down yet, or a publish failed, of which only the answer may have been lost.
const sqlMayRing = `
select published_at is not null or lease_token is not null or last_error <> ''
from goal_alarms where goal_id = $1 order by generation desc limit 1`

// PutBack sets the next alarm of a goal that has not moved, unless the newest one is still to be published. ErrConflict.
func (s *Store) PutBack(ctx context.Context, g Goal, a Alarm, at time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := lockAsRead(ctx, tx, g); err != nil {
			return err
		}
		var mayRing bool
		err := tx.QueryRow(ctx, sqlMayRing, g.ID).Scan(&mayRing)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !mayRing {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a goal's alarms: %w", err)
		}
		return addGoalAlarm(ctx, tx, &a, at)
	})
}

// goalReach bounds the goals that one listing of overdue ones reads.
const goalReach = 10_000

// sqlOverdueGoals compares with the newest alarm, as sqlOverdue does for steps. A goal with a busy device waits for the end of the one
// that runs, until it has waited for too long. Phones come last: while messaging cannot be reached their texts go on failing, and would
// leave the limit to no other goal. One list of ids, and no alternative of two, keeps it from reading the goals that have ended.
const sqlOverdueGoals = sqlGoalColumns + `, ` + online + ` as online, b.busy,
    coalesce(a.generation, 0) as generation, coalesce(a.repeats, 0) as repeats
from goals g join devices d on d.id = g.device_id
cross join lateral (select exists (select from goals r where r.device_id = g.device_id and r.status = 'running' and r.id <> g.id) as busy) b
left join lateral (
    select a.generation, a.published_at, greatest(a.due_at, a.published_at) as rung_at, a.generation - meant.generation as repeats
    from goal_alarms a cross join lateral (
        select coalesce(max(m.generation), 1) as generation from goal_alarms m where m.goal_id = g.id and m.cause <> 'overdue') meant
    where a.goal_id = g.id order by a.generation desc limit 1) a on true
where g.id = any(array(
        select w.id from goals w where w.status = 'scheduled' and w.scheduled_for <= @now::timestamptz - @grace::interval
        order by w.scheduled_for limit @reach)
    || array(
        select w.id from goals w where w.status = 'running'
          and (w.heard_at <= @now::timestamptz - @lease::interval or w.started_at <= @now::timestamptz - @limit_of_run::interval)
        order by w.heard_at limit @reach))
    and (g.status = 'running'
        or a.published_at is not null and (g.waiting_since <= @now::timestamptz - @busy::interval and a.rung_at + @grace::interval <= @now
            or not (b.busy and g.waiting_since is not null)
                and a.rung_at + @grace::interval * power(2, least(a.repeats, @doublings::int)) <= @now))
order by d.kind = 'phone', g.scheduled_for limit @limit`

// Overdue lists goals that wait in vain, at most limit.
func (s *Store) Overdue(ctx context.Context, p Patience, limit int, now time.Time) ([]Overdue, error) {
	return allNow[Overdue](ctx, s.pool, "overdue goals", sqlOverdueGoals, postgres.Args{
		"now": now, "grace": p.Grace, "doublings": p.Doublings, "busy": p.Busy, "lease": p.Lease, "limit_of_run": p.Limit, "limit": limit,
		"reach": goalReach,
	})
}

const sqlOpenByPhone = `
select g.id::text from goals g join devices d on d.id = g.device_id
where g.profile_id = $1 and g.status in ('scheduled', 'running') and d.kind = 'phone' order by g.id limit 1`

// OpenOf adds the goal that is to be texted to a person who is locked.
func OpenOf(ctx context.Context, tx pgx.Tx, p people.Profile, open *people.Open) error {
	err := tx.QueryRow(ctx, sqlOpenByPhone, p.ID).Scan(&open.GoalID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read the open goal of a person: %w", err)
	}
	return nil
}
