package goals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Types of events that goals tell of.
const (
	eventGoalScheduled   = "goal.scheduled"
	eventGoalRescheduled = "goal.rescheduled"
	eventGoalStarted     = "goal.started"
	eventGoalCompleted   = "goal.completed"
	eventGoalFailed      = "goal.failed"
	eventGoalCancelled   = "goal.cancelled"
)

// goalChange is one guarded statement on goals with its line of the timeline, and the event that tells of it.
type goalChange struct {
	set   string // what changes
	where string // which goals, and as they must stand; d is the device, n its node
	from  Status
	event string // of the timeline
	tells string // type of the event; empty tells nothing
}

// sql is the statement. It returns the ids of what it changed.
func (c goalChange) sql() string {
	return `
with moved as (
    update goals g set ` + c.set + `, updated_at = @at
    from devices d left join device_nodes n on n.id = d.node_id
    where d.id = g.device_id and ` + c.where + `
    returning g.id, g.org_id, g.profile_id, g.device_id, g.status, g.reason, g.run_id
), noted as (
    insert into goal_transitions (org_id, profile_id, goal_id, at, from_status, to_status, event, actor, detail)
    select org_id, profile_id, id, @at, '` + string(c.from) + `', status, '` + c.event + `', @actor, @detail from moved
), told as (
    insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    select gen_random_uuid(), org_id, '` + c.tells + `', profile_id::text, @at, 'goal:' || id, jsonb_strip_nulls(jsonb_build_object(
        'goal_id', id, 'device_id', device_id, 'run_id', run_id, 'reason', nullif(reason, '')))
    from moved where '` + c.tells + `' <> ''
)
select id::text from moved`
}

// change makes a change, and returns the ids of the goals that it was made to.
func (c goalChange) change(ctx context.Context, db postgres.DB, at time.Time, actor, detail string, args postgres.Args) ([]string, error) {
	args["at"], args["now"], args["actor"], args["detail"] = at, at, actor, detail
	rows, err := db.Query(ctx, c.sql(), args)
	if err == nil {
		var ids []string
		if ids, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			return ids, nil
		}
	}
	return nil, fmt.Errorf("goal, %s: %w", c.event, err)
}

// one is change to one goal; ErrConflict when it does not stand as it must.
func (c goalChange) one(ctx context.Context, db postgres.DB, at time.Time, actor, detail string, args postgres.Args) error {
	ids, err := c.change(ctx, db, at, actor, detail, args)
	if err == nil && len(ids) != 1 {
		return ErrConflict
	}
	return err
}

// asRead is a goal that is scheduled for when it was read to be.
const asRead = `g.id = @goal and g.status = 'scheduled' and g.scheduled_for = @for`

var (
	toNoteOffline = goalChange{
		set: `offline_tries = g.offline_tries + 1`, where: asRead + ` and not ` + online, from: Scheduled, event: "offline",
	}
	toNoteWaiting = goalChange{
		set: `waiting_since = @at`, where: asRead + ` and g.waiting_since is null`, from: Scheduled, event: "busy",
	}
	// The run is locked: its end, which sets the alarm of who waits, comes after this, or there is nothing to wait for.
	toNoteBusy = goalChange{
		set: toNoteWaiting.set, from: Scheduled, event: toNoteWaiting.event,
		where: toNoteWaiting.where + ` and exists (
        select from goals r where r.device_id = g.device_id and r.status = 'running' and r.id <> g.id for share)`,
	}
	toCallGoal  = goalChange{set: `called_at = @at`, where: asRead, from: Scheduled, event: "alarm"}
	toBeginGoal = goalChange{
		set:   `status = 'running', run_id = @run::uuid, started_at = @at, heard_at = @at, offered_at = @at`,
		where: asRead, from: Scheduled, event: "started", tells: eventGoalStarted,
	}
	toFailGoal = goalChange{
		set: `status = 'failed', reason = @reason, ended_at = @at`, where: asRead, from: Scheduled, event: "failed", tells: eventGoalFailed,
	}
	toCancelGoal = goalChange{
		set: `status = 'cancelled', ended_at = @at`, where: `g.id = @goal and g.status = 'scheduled'`, from: Scheduled,
		event: "cancelled", tells: eventGoalCancelled,
	}
	toMoveGoal = goalChange{
		set: `scheduled_for = @to, scheduled_delay = @delay, understood = @understood, note = @note, waiting_since = null, offline_tries = 0,
        called_at = null`,
		where: asRead, from: Scheduled, event: "rescheduled", tells: eventGoalRescheduled,
	}
	toAskStop = goalChange{
		set: `stop_requested_at = @at`, where: `g.id = @goal and g.status = 'running' and g.stop_requested_at is null`, from: Running,
		event: "stop_requested",
	}
	toCompleteRun = goalChange{
		set:   `status = 'completed', ended_at = @at, heard_at = @at`,
		where: `g.run_id = @run::uuid and g.device_id = @device and g.status = 'running'`, from: Running, event: "ended",
		tells: eventGoalCompleted,
	}
	toFailRun = goalChange{
		set:   `status = 'failed', reason = @reason, ended_at = @at, heard_at = @at`,
		where: toCompleteRun.where, from: Running, event: "failed", tells: eventGoalFailed,
	}
	toFailAlarm = goalChange{
		set: `status = 'failed', reason = '` + ReasonOffline + `', ended_at = @at`,
		where: `g.id = @goal and g.status = 'scheduled' and g.offline_tries > 0 and @message = (
        select a.qstash_message_id from goal_alarms a where a.goal_id = g.id order by a.generation desc limit 1)`,
		from: Scheduled, event: "failed", tells: eventGoalFailed,
	}
	toFailOfDevice = goalChange{
		set:   `status = 'failed', reason = @reason, ended_at = @at`,
		where: `g.device_id = @device and g.status = 'scheduled'`, from: Scheduled, event: "failed", tells: eventGoalFailed,
	}
	toFailRunOfDevice = goalChange{
		set: toFailOfDevice.set, where: `g.device_id = @device and g.status = 'running'`, from: Running, event: toFailOfDevice.event,
		tells: toFailOfDevice.tells,
	}
)

func read(g Goal) postgres.Args { return postgres.Args{"goal": g.ID, "for": g.ScheduledFor} }

// Offline notes that an alarm found the device offline, which uses a try. ErrConflict when the goal has moved, or the device is back.
func (s *Store) Offline(ctx context.Context, g Goal, at time.Time) error {
	return toNoteOffline.one(ctx, s.pool, at, "alarm", "", read(g))
}

// Busy notes since when the goal waits for the end of the one that runs; ErrConflict when none runs now, that is noted, or it has
// moved.
func (s *Store) Busy(ctx context.Context, g Goal, at time.Time) error {
	return toNoteBusy.one(ctx, s.pool, at, "alarm", "", read(g))
}

// Waits notes since when the goal waits for something else; ErrConflict when that is noted, or it has moved.
func (s *Store) Waits(ctx context.Context, g Goal, at time.Time) error {
	return toNoteWaiting.one(ctx, s.pool, at, "alarm", "", read(g))
}

// Call has the node that holds the device begin the goal; ErrConflict when it has moved.
func (s *Store) Call(ctx context.Context, g Goal, at time.Time) error {
	return s.andNotify(ctx, func(tx pgx.Tx) error { return toCallGoal.one(ctx, tx, at, "alarm", "", read(g)) })
}

// andNotify does something in a transaction, and notifies the nodes and the alarms that wait when it commits.
func (s *Store) andNotify(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return postgres.Notify(ctx, tx, Channel)
	})
}

// BeginPhone begins a goal of a phone; ErrConflict when another one of the phone runs, or the goal has moved.
func (s *Store) BeginPhone(ctx context.Context, g Goal, runID string, at time.Time) error {
	args := read(g)
	args["run"] = runID
	err := toBeginGoal.one(ctx, s.pool, at, "alarm", "", args)
	if postgres.IsUniqueViolation(err, "goals_one_running") {
		return ErrConflict
	}
	return err
}

// Fail fails a goal that has not begun; ErrConflict when it has moved.
func (s *Store) Fail(ctx context.Context, g Goal, reason, actor string, at time.Time) error {
	args := read(g)
	args["reason"] = reason
	return s.leave(ctx, toFailGoal, g.ID, at, actor, reason, args)
}

// FailedAlarm fails a goal that has not begun if the message is its newest alarm and found the device offline.
func (s *Store) FailedAlarm(ctx context.Context, goalID, messageID string, at time.Time) (bool, error) {
	err := s.leave(ctx, toFailAlarm, goalID, at, "alarm", ReasonOffline, postgres.Args{"goal": goalID, "message": messageID})
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// End ends a run, and sets the alarm of the goal that has waited for its device longest. It reports whether it was this call that did.
func (s *Store) End(ctx context.Context, e End) (ended bool, err error) {
	err = s.andNotify(ctx, func(tx pgx.Tx) error {
		change, args := toCompleteRun, postgres.Args{"run": e.RunID, "device": e.DeviceID}
		if !e.OK {
			change, args["reason"] = toFailRun, e.Reason
		}
		ids, err := change.change(ctx, tx, e.At, e.Actor, e.Detail, args)
		if ended = len(ids) == 1; err != nil || !ended {
			return err
		}
		return nextOnDevice(ctx, tx, e.DeviceID, e.At)
	})
	return ended && err == nil, err
}

const sqlNextOnDevice = `
select id::text, org_id::text from goals where device_id = $1 and status = 'scheduled' and waiting_since is not null
order by scheduled_for, id limit 1 for update skip locked`

// nextOnDevice sets the alarm of the goal that waits for a device that has become free.
func nextOnDevice(ctx context.Context, tx pgx.Tx, deviceID string, at time.Time) error {
	a := Alarm{ID: newID(), Cause: "free", DueAt: at}
	err := tx.QueryRow(ctx, sqlNextOnDevice, deviceID).Scan(&a.GoalID, &a.OrgID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read who waits for a device: %w", err)
	}
	return addGoalAlarm(ctx, tx, &a, at)
}

// leave ends a goal that has not begun, and lets the next one have its turn.
func (s *Store) leave(
	ctx context.Context, end goalChange, goalID string, at time.Time, actor, detail string, args postgres.Args,
) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := end.one(ctx, tx, at, actor, detail, args); err != nil {
			return err
		}
		return passOn(ctx, tx, goalID, at)
	})
}

const sqlWaited = `select device_id::text from goals where id = $1 and waiting_since is not null`

// passOn sets the alarm of the next one for a goal that waited for its device and does not any more: its own may be the one that says that
// the device is free.
func passOn(ctx context.Context, tx pgx.Tx, goalID string, at time.Time) error {
	var deviceID string
	err := tx.QueryRow(ctx, sqlWaited, goalID).Scan(&deviceID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read whether a goal waited: %w", err)
	}
	return nextOnDevice(ctx, tx, deviceID, at)
}

// failAll fails what is open of a device that is removed, and says how many that were: also what runs, for the device cannot say any more
// how that ends.
func failAll(ctx context.Context, tx pgx.Tx, deviceID, reason, actor string, at time.Time) (failed int, err error) {
	for _, change := range []goalChange{toFailOfDevice, toFailRunOfDevice} {
		ids, err := change.change(ctx, tx, at, actor, reason, postgres.Args{"device": deviceID, "reason": reason})
		if err != nil {
			return 0, err
		}
		failed += len(ids)
	}
	return failed, nil
}

// stands returns the reason that a goal could not be changed: its status, or it is gone.
func stands(ctx context.Context, db postgres.DB, goalID string) (Goal, error) {
	g, err := oneGoal(ctx, db, `g.id = @goal`, postgres.Args{"goal": goalID})
	if err != nil {
		return Goal{}, err
	}
	return g, &StatusError{Status: g.Status, StartedAt: g.StartedAt}
}

// Cancel cancels a goal that has not begun, and returns it with the message of its alarm; one that is cancelled is returned as it is.
// A *StatusError of one that has begun or ended.
func (s *Store) Cancel(ctx context.Context, goalID, actor string, at time.Time) (g Goal, messageID string, err error) {
	err = s.leave(ctx, toCancelGoal, goalID, at, actor, "", postgres.Args{"goal": goalID})
	if err != nil && !errors.Is(err, ErrConflict) {
		return Goal{}, "", err
	}
	cancelled := err == nil
	g, err = stands(ctx, s.pool, goalID)
	if g.Status != Cancelled {
		return Goal{}, "", err
	}
	if cancelled {
		messageID, err = newestMessage(ctx, s.pool, goalID)
		return g, messageID, err
	}
	return g, "", nil
}

// AskStop notes that a run is to end; a *StatusError of a goal that does not run.
func (s *Store) AskStop(ctx context.Context, goalID, actor string, at time.Time) (g Goal, err error) {
	err = s.andNotify(ctx, func(tx pgx.Tx) error { return toAskStop.one(ctx, tx, at, actor, "", postgres.Args{"goal": goalID}) })
	if err != nil && !errors.Is(err, ErrConflict) {
		return Goal{}, err
	}
	if g, err = stands(ctx, s.pool, goalID); g.Status == Running {
		return g, nil
	}
	return Goal{}, err
}
