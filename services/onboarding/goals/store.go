package goals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/goals/timeparse"
	"paceline.internal/services/onboarding/people"
)

// ChannelAlarms and Channel are the channels of notifications: an alarm is to be published; a goal may have to begin, or has moved.
const (
	ChannelAlarms = "goal_alarms"
	Channel       = "goals"
)

// Store keeps goals and the devices that they run on.
type Store struct {
	pool   postgres.DB
	alarms *outbox.Store[Alarm]
}

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool, alarms: goalAlarms(pool)} }

// goalAlarms is goal_alarms as platform/outbox has it.
func goalAlarms(pool postgres.DB) *outbox.Store[Alarm] {
	return outbox.NewStore(pool, outbox.Table[Alarm]{
		Name:    ChannelAlarms,
		Columns: []string{"id", "org_id", "goal_id", "generation", "cause", "due_at"},
		Values: func(a Alarm) (values []any, leaseToken string) {
			return []any{a.ID, a.OrgID, a.GoalID, a.Generation, a.Cause, a.DueAt}, a.LeaseToken
		},
		Kept: people.SQLPaused + `a.org_id)`,
	})
}

// Alarms is the outbox of the goals' alarms.
func (s *Store) Alarms() *outbox.Store[Alarm] { return s.alarms }

// online asks whether the device d can be reached.
const online = `(d.deleted_at is null and (d.kind = 'phone' or d.node_id is not null and node_alive(d.node_id, @now)))`

// never ends the column of a time that may be null: the zero time of Go stands for null.
const never = `, '0001-01-01 00:00:00Z'::timestamptz)`

const sqlGoalColumns = `
select g.id::text, g.org_id::text, g.profile_id::text, g.device_id::text, d.kind, g.source, g.idempotency_key as key, g.said, g.goal,
       g.locale, g.understood, g.note, g.status, g.reason, g.scheduled_for, g.scheduled_delay::bigint * 1000000000 as delay,
       coalesce(g.called_at` + never + ` as called_at, coalesce(g.waiting_since` + never + ` as waiting_since, g.offline_tries,
       coalesce(g.run_id::text, '') as run_id, coalesce(g.heard_at` + never + ` as heard_at, g.progress,
       coalesce(g.stop_requested_at` + never + ` as stop_asked_at, coalesce(g.started_at` + never + ` as started_at,
       coalesce(g.ended_at` + never + ` as ended_at, coalesce(g.undo_of::text, '') as undo_of, g.created_by, g.created_at,
       ` + people.SQLPaused + `g.org_id) as scheduling_paused`

// all reads the rows of a query, each into the fields of its columns' names.
func all[T any](ctx context.Context, db postgres.DB, what, sql string, args postgres.Args) ([]T, error) {
	rows, err := db.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return found, nil
}

// allNow is all with PlanNow sent ahead.
func allNow[T any](ctx context.Context, db postgres.DB, what, sql string, args postgres.Args) (found []T, err error) {
	var batch pgx.Batch
	batch.Queue(postgres.PlanNow)
	batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
		return err
	})
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return found, nil
}

// goalWhere reads goals by a condition on g and d.
func goalWhere(ctx context.Context, db postgres.DB, where string, args postgres.Args) ([]Goal, error) {
	return all[Goal](ctx, db, "goals", sqlGoalColumns+` from goals g join devices d on d.id = g.device_id where `+where, args)
}

// oneGoal is the only goal that a condition finds; ErrNoGoal.
func oneGoal(ctx context.Context, db postgres.DB, where string, args postgres.Args) (Goal, error) {
	found, err := goalWhere(ctx, db, where, args)
	if err != nil {
		return Goal{}, err
	}
	if len(found) == 0 {
		return Goal{}, ErrNoGoal
	}
	return found[0], nil
}

const sqlGoalOfKey = sqlGoalColumns + `,
       exists (select from goal_transitions t where t.goal_id = g.id and t.event = 'rescheduled') as moved
from goals g join devices d on d.id = g.device_id
where g.profile_id = @profile and g.idempotency_key = @key`

// goalOfKey is the goal that a person's key has; ErrNoGoal.
func goalOfKey(ctx context.Context, db postgres.DB, args postgres.Args) (Goal, error) {
	found, err := all[Goal](ctx, db, "the goal of a key", sqlGoalOfKey, args)
	if err == nil && len(found) == 0 {
		err = ErrNoGoal
	}
	if err != nil {
		return Goal{}, err
	}
	return found[0], nil
}

const sqlSituation = sqlGoalColumns + `, ` + online + ` as online,
       exists (select from goals r where r.device_id = g.device_id and r.status = 'running' and r.id <> g.id) as busy
from goals g join devices d on d.id = g.device_id
where g.id = @goal and (@org = '' or g.org_id = nullif(@org, '')::uuid)`

// Goal reads a goal of an organisation, or of any, with what an alarm of it finds. ErrNoGoal.
func (s *Store) Goal(ctx context.Context, orgID, goalID string, now time.Time) (Situation, error) {
	found, err := all[Situation](ctx, s.pool, "a goal", sqlSituation, postgres.Args{"goal": goalID, "org": orgID, "now": now})
	if err == nil && len(found) == 0 {
		err = ErrNoGoal
	}
	if err != nil {
		return Situation{}, err
	}
	return found[0], nil
}

// GoalFilter narrows a list of goals. Empty fields do not.
type GoalFilter struct {
	ProfileID, DeviceID, Status string
	Before                      string // only goals older than this id
	Limit                       int
}

// sqlListGoals finds the page before it looks at devices: the planner takes nearly all of those for hidden by their policies, and would
// begin with them. Each filter has an index.
const sqlListGoals = sqlGoalColumns + `
from (
    select w.id from goals w
    where (@profile = '' or w.profile_id = nullif(@profile, '')::uuid) and (@device = '' or w.device_id = nullif(@device, '')::uuid)
      and (@status = '' or w.status = @status) and (@before = '' or w.id < nullif(@before, '')::uuid)
    order by w.id desc limit @limit
) page join goals g on g.id = page.id join devices d on d.id = g.device_id
order by g.id desc`

// List lists the goals that ctx may see, newest first.
func (s *Store) List(ctx context.Context, f GoalFilter) ([]Goal, error) {
	return allNow[Goal](ctx, s.pool, "a page of goals", sqlListGoals, postgres.Args{
		"profile": f.ProfileID, "device": f.DeviceID, "status": f.Status, "before": f.Before, "limit": f.Limit,
	})
}

// maxTimeline bounds a goal's timeline: the tries of its alarms are bounded, so there are never as many.
const maxTimeline = 500

const sqlGoalTimeline = `
select at, from_status as "from", to_status as "to", event, actor, detail from goal_transitions
where goal_id = @goal order by id limit @limit`

// Timeline reads what happened to a goal, oldest first.
func (s *Store) Timeline(ctx context.Context, goalID string) ([]Transition, error) {
	return all[Transition](ctx, s.pool, "a goal's timeline", sqlGoalTimeline, postgres.Args{"goal": goalID, "limit": maxTimeline})
}

const sqlOwner = `
select p.locale, p.time_zone, p.phone, ` + people.SQLUsualZone + `, coalesce(d.id::text, '') as device_id, coalesce(d.kind, '') as kind
from profiles p left join devices d on d.profile_id = p.id and d.deleted_at is null
    and case when @device = '' then d.kind = 'phone' else d.id = nullif(@device, '')::uuid end
where p.org_id = @org and p.id = @profile`

// Prepare reads whom and what a new goal is for, and the goal that its key has already. ErrNoOwner, ErrNoDevice,
// ErrNoGoal of the goal that it is to bring back.
func (s *Store) Prepare(ctx context.Context, n New) (p Prepared, err error) {
	args := postgres.Args{"org": n.OrgID, "profile": n.ProfileID, "device": n.DeviceID, "key": n.Key, "undo": n.UndoOf}
	if n.UndoOf != "" {
		undone, err := oneGoal(ctx, s.pool, `g.org_id = @org and g.profile_id = @profile and g.id = @undo`, args)
		if err != nil {
			return p, err
		}
		p.UndoOf, args["device"] = &undone, undone.DeviceID
	}
	var zone, number, usual, kind string
	p.Owner.OrgID, p.Owner.ProfileID, p.Device.Kind = n.OrgID, n.ProfileID, Phone
	err = s.pool.QueryRow(ctx, sqlOwner, args).Scan(&p.Owner.Locale, &zone, &number, &usual, &p.Device.ID, &kind)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return p, ErrNoOwner
	case err != nil:
		return p, fmt.Errorf("read a goal's owner: %w", err)
	case p.Device.ID != "":
		p.Device.Kind = Kind(kind)
	case args["device"] != "":
		return p, ErrNoDevice
	}
	if p.Owner.Zone, err = wordsZone(zone, number, usual); err != nil {
		return p, err
	}
	existing, err := goalOfKey(ctx, s.pool, args)
	if errors.Is(err, ErrNoGoal) {
		return p, nil
	}
	p.Existing = &existing
	return p, err
}

// wordsZone returns the zone by which a person's words are read: the stored one, or else the usual one of the organisation. For a stored
// one that is not known any more stands the only one of the number; of a number that has several it is ErrInvalid, for the goal would
// be set for another hour than was said.
func wordsZone(own, number, usual string) (*time.Location, error) {
	if own == "" {
		zone, _ := hours.Stored(usual)
		return zone, nil
	}
	if zone, known := hours.Stored(own); known {
		return zone, nil
	}
	if zones := phone.Zones(number); len(zones) == 1 {
		return zones[0], nil
	}
	return nil, fmt.Errorf("%w: the person's time_zone is not known any more; set another one (PATCH /v1/profiles/{id})", ErrInvalid)
}

const sqlReading = `select reading from goal_readings where profile_id = @profile and idempotency_key = @key`

// Reading reads what a model read of a text before; nil when it was not asked.
func (s *Store) Reading(ctx context.Context, n New) (*timeparse.Reading, error) {
	var kept timeparse.Reading
	err := s.pool.QueryRow(ctx, sqlReading, postgres.Args{"profile": n.ProfileID, "key": n.Key}).Scan(&kept)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // it was not asked
	}
	if err != nil {
		return nil, fmt.Errorf("read a reading: %w", err)
	}
	return &kept, nil
}

const sqlKeepReading = `
with kept as (
    insert into goal_readings (org_id, profile_id, idempotency_key, reading, created_at) values (@org, @profile, @key, @reading, @at)
    on conflict (profile_id, idempotency_key) do nothing returning reading
)
select reading from kept union all select reading from goal_readings where profile_id = @profile and idempotency_key = @key limit 1`

// KeepReading keeps what a model read; the first that is kept stays, and is returned.
func (s *Store) KeepReading(ctx context.Context, n New, read timeparse.Reading, at time.Time) (*timeparse.Reading, error) {
	var kept timeparse.Reading
	err := s.pool.QueryRow(ctx, sqlKeepReading, postgres.Args{
		"org": n.OrgID, "profile": n.ProfileID, "key": n.Key, "reading": read, "at": at,
	}).Scan(&kept)
	if err != nil {
		return nil, fmt.Errorf("keep a reading: %w", err)
	}
	return &kept, nil
}

const (
	sqlDoneBy = sqlGoalColumns + `
from goals g join devices d on d.id = g.device_id
where g.profile_id = @profile and g.source = 'text'
  and (g.idempotency_key = @key or exists (
    select from goal_transitions t where t.goal_id = g.id and t.event in ('cancelled', 'rescheduled') and t.actor = @actor))
limit 1`
	sqlTextsOf = `
select (select o.engagement_texts from profiles p join organisation_settings o on o.org_id = p.org_id where p.id = @profile)`
)

// DoneBy is the goal that a message has scheduled, by its key, or moved or cancelled, by the actor of its timeline; nil for none. It reads
// the texts that the person's organisation has decided, too; nil for none.
func (s *Store) DoneBy(ctx context.Context, profileID, messageID string) (done *Goal, texts []byte, err error) {
	args := postgres.Args{"profile": profileID, "key": MessageKey(messageID), "actor": MessageActor(messageID)}
	var batch pgx.Batch
	batch.Queue(sqlDoneBy, args).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByNameLax[Goal])
		if len(found) > 0 {
			done = found[0]
		}
		return err
	})
	batch.Queue(sqlTextsOf, args).QueryRow(func(row pgx.Row) error { return row.Scan(&texts) })
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, nil, fmt.Errorf("read what a message has done: %w", err)
	}
	return done, texts, nil
}

// ByText are a person's goals by text that are scheduled, or were said since an instant and have begun or are done. Newest first.
func (s *Store) ByText(ctx context.Context, profileID string, since time.Time) ([]Goal, error) {
	return goalWhere(ctx, s.pool, `g.profile_id = @profile and g.source = 'text'
  and (g.status = 'scheduled' or g.status in ('running', 'completed') and g.created_at > @since) order by g.id desc limit @limit`,
		postgres.Args{"profile": profileID, "since": since, "limit": MaxOpen + MaxTextDaily})
}

// sqlGoalGauges looks for what waits for us among the goals that are due for longest, as many as one listing of overdue ones reads: a
// crowd of goals with offline devices costs a scrape no more than that. What a pause keeps is late on purpose, and does not count.
const sqlGoalGauges = `
select
    (select min(g.scheduled_for)
     from (select org_id, scheduled_for, waiting_since, offline_tries from goals
           where status = 'scheduled' and scheduled_for <= @now order by scheduled_for limit @reach) g
     where g.waiting_since is null and g.offline_tries = 0
       and g.org_id not in (select org_id from paused_organisations)) as due_at,
    (select min(a.created_at) from goal_alarms a
     where a.published_at is null and a.lease_until <= @now and a.org_id not in (select org_id from paused_organisations)) as written_at`

// Gauges returns the figures of the goals of all organisations that ctx may see.
func (s *Store) Gauges(ctx context.Context, now time.Time) (Gauges, error) {
	var dueAt, writtenAt *time.Time
	err := s.pool.QueryRow(ctx, sqlGoalGauges, postgres.Args{"now": now, "reach": goalReach}).Scan(&dueAt, &writtenAt)
	if err != nil {
		return Gauges{}, fmt.Errorf("see how the goals stand: %w", err)
	}
	return Gauges{Lag: postgres.Age(dueAt, now), OldestAlarm: postgres.Age(writtenAt, now)}, nil
}
