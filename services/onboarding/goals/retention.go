package goals

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/retention"
)

const (
	// sqlForgetGoals takes a goal with its alarms and its timeline. One that was cancelled can be brought back until its time, and one that
	// was brought back stays as long as the goal that says so.
	sqlForgetGoals = `
with old as materialized (
    select g.id from goals g
    where {part} and g.ended_at is not null and greatest(g.ended_at, g.scheduled_for) < @before
      and not exists (select from goals u where u.undo_of = g.id)
    order by greatest(g.ended_at, g.scheduled_for) limit @limit for update of g skip locked
), alarms as (
    delete from goal_alarms where goal_id = any(array(select id from old))
), timeline as (
    delete from goal_transitions where goal_id = any(array(select id from old))
)
delete from goals where id = any(array(select id from old))`

	// A device stays as long as a goal names it.
	sqlForgetDevices = `
delete from devices where id = any(array(
    select d.id from devices d where {part} and d.deleted_at < @before and not exists (select from goals g where g.device_id = d.id)
    order by d.deleted_at limit @limit for update skip locked))`

	sqlForgetReadings = `
delete from goal_readings where (profile_id, idempotency_key) in (
    select r.profile_id, r.idempotency_key from goal_readings r where {part} and r.created_at < @before
    order by r.created_at limit @limit for update skip locked)`
)

// Parts returns those of a pass over goals.
func (s *Store) Parts(ctx context.Context, own retention.Own, kept time.Duration, now time.Time) ([]retention.Part, error) {
	return own.PartsOf(ctx, s.pool, retention.Goals, kept, now, "goals", "devices", "goal_readings")
}

// Forgotten counts the rows that one batch has deleted.
type Forgotten struct{ Goals, Devices, Readings int64 }

// Forget deletes one batch, of at most limit rows of each kind, of goals that were over before an instant, devices that were deleted, and
// readings that no repeat asks for any more; of the organisations of a part.
func (s *Store) Forget(ctx context.Context, part retention.Part, limit int) (f Forgotten, err error) {
	for _, one := range []struct {
		sql, row string
		deleted  *int64
	}{{sqlForgetGoals, "g", &f.Goals}, {sqlForgetDevices, "d", &f.Devices}, {sqlForgetReadings, "r", &f.Readings}} {
		tag, err := s.pool.Exec(ctx, part.SQL(one.sql, one.row), part.Args(postgres.Args{"limit": limit}))
		if err != nil {
			return f, fmt.Errorf("forget goals: %w", err)
		}
		*one.deleted = tag.RowsAffected()
	}
	return f, nil
}

// Rules returns how long the rows of the room's tables are kept.
func Rules(kept time.Duration) []retention.Rule {
	return []retention.Rule{
		{
			Table: "devices", Holds: "deleted ones that no goal names", Variable: "GOALS_RETENTION", Setting: retention.Goals, For: kept,
			Kept: "{for} after its end",
		},
		{Table: "device_nodes", Holds: "processes", Kept: "an hour of silence"},
		{
			Table:    "goals",
			Holds:    "in the person's words; counted from the planned time if that is later; one that was brought back stays with its successor",
			Variable: "GOALS_RETENTION", Setting: retention.Goals, For: kept, Kept: "{for} after its end",
		},
		{Table: "goal_alarms", Kept: "its goal goes"},
		{Table: "goal_transitions", Kept: "its goal goes"},
		{
			Table: "goal_readings", Holds: "what a model read", Kept: "{for} after it was read",
			Variable: "GOALS_RETENTION", Setting: retention.Goals, For: kept,
		},
	}
}
