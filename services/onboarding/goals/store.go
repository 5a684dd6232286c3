package goals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
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

const sqlGoalColumns = `
select g.id::text, g.org_id::text, g.profile_id::text, g.device_id::text, d.kind, g.source, g.idempotency_key as key, g.said, g.goal,
       g.locale, g.understood, g.note, g.status, g.reason, g.scheduled_for, g.scheduled_delay, g.called_at, g.waiting_since,
       g.offline_tries,
       coalesce(g.run_id::text, '') as run_id, g.offered_at, g.acknowledged_at, g.heard_at, g.progress, g.stop_requested_at, g.started_at,
       g.ended_at, coalesce(g.undo_of::text, '') as undo_of, g.created_by, g.created_at,
       ` + people.SQLPaused + `g.org_id) as scheduling_paused`

type goalRow struct {
	ID, OrgID, ProfileID, DeviceID, Kind, Source, Key, Said, Goal, Locale, Understood, Note, Status, Reason string

	ScheduledFor    time.Time
	ScheduledDelay  int64
	CalledAt        *time.Time
	WaitingSince    *time.Time
	OfflineTries    int
	RunID           string
	OfferedAt       *time.Time
	AcknowledgedAt  *time.Time
	HeardAt         *time.Time
	Progress        string
	StopRequestedAt *time.Time
	StartedAt       *time.Time
	EndedAt         *time.Time
	UndoOf          string
	CreatedBy       string
	CreatedAt       time.Time

	SchedulingPaused bool
}

func (r goalRow) goal() Goal {
	return Goal{
		ID: r.ID, OrgID: r.OrgID, ProfileID: r.ProfileID, DeviceID: r.DeviceID, Kind: Kind(r.Kind), Source: Source(r.Source),
		Key: r.Key, Said: r.Said, Goal: r.Goal, Locale: r.Locale, Understood: r.Understood, Note: r.Note, Status: Status(r.Status),
		Reason: r.Reason, ScheduledFor: r.ScheduledFor, Delay: time.Duration(r.ScheduledDelay) * time.Second,
		CalledAt:     postgres.TimeOf(r.CalledAt),
		WaitingSince: postgres.TimeOf(r.WaitingSince), OfflineTries: r.OfflineTries, RunID: r.RunID, OfferedAt: postgres.TimeOf(r.OfferedAt),
		AcknowledgedAt: postgres.TimeOf(r.AcknowledgedAt), HeardAt: postgres.TimeOf(r.HeardAt),
		Progress: r.Progress, StopAskedAt: postgres.TimeOf(r.StopRequestedAt),
		StartedAt: postgres.TimeOf(r.StartedAt), EndedAt: postgres.TimeOf(r.EndedAt),
		UndoOf: r.UndoOf, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt,
		SchedulingPaused: r.SchedulingPaused,
	}
}

func toGoal(row pgx.CollectableRow) (Goal, error) {
	r, err := pgx.RowToStructByName[goalRow](row)
	return r.goal(), err
}

// goalWhere reads goals by a condition on g and d.
func goalWhere(ctx context.Context, db postgres.DB, where string, args postgres.Args) ([]Goal, error) {
	rows, err := db.Query(ctx, sqlGoalColumns+` from goals g join devices d on d.id = g.device_id where `+where, args)
	if err != nil {
		return nil, fmt.Errorf("read goals: %w", err)
	}
	found, err := pgx.CollectRows(rows, toGoal)
	if err != nil {
		return nil, fmt.Errorf("read goals: %w", err)
	}
	return found, nil
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

const sqlSituation = sqlGoalColumns + `, ` + online + ` as online, d.deleted_at is not null as removed,
       exists (select from goals r where r.device_id = g.device_id and r.status = 'running' and r.id <> g.id) as busy
from goals g join devices d on d.id = g.device_id
where g.id = @goal and (@org = '' or g.org_id = nullif(@org, '')::uuid)`

type situationRow struct {
	goalRow

	Online, Removed, Busy bool
}

// Goal reads a goal of an organisation, or of any, with what an alarm of it finds. ErrNoGoal.
func (s *Store) Goal(ctx context.Context, orgID, goalID string, now time.Time) (Situation, error) {
	rows, err := s.pool.Query(ctx, sqlSituation, postgres.Args{"goal": goalID, "org": orgID, "now": now})
	if err != nil {
		return Situation{}, fmt.Errorf("read a goal: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[situationRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return Situation{}, ErrNoGoal
	}
	if err != nil {
		return Situation{}, fmt.Errorf("read a goal: %w", err)
	}
	return Situation{Goal: r.goal(), Online: r.Online, Removed: r.Removed, Busy: r.Busy}, nil
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
func (s *Store) List(ctx context.Context, f GoalFilter) (found []Goal, err error) {
	var batch pgx.Batch
	batch.Queue(postgres.PlanNow)
	batch.Queue(sqlListGoals, postgres.Args{
		"profile": f.ProfileID, "device": f.DeviceID, "status": f.Status, "before": f.Before, "limit": f.Limit,
	}).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, toGoal)
		return err
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("list goals: %w", err)
	}
	return found, nil
}

// maxTimeline bounds a goal's timeline: the tries of its alarms are bounded, so there are never as many.
const maxTimeline = 500

const sqlGoalTimeline = `
select at, from_status, to_status, event, actor, detail from goal_transitions where goal_id = @goal order by id limit @limit`

// Timeline reads what happened to a goal, oldest first.
func (s *Store) Timeline(ctx context.Context, goalID string) ([]Transition, error) {
	rows, err := s.pool.Query(ctx, sqlGoalTimeline, postgres.Args{"goal": goalID, "limit": maxTimeline})
	if err != nil {
		return nil, fmt.Errorf("read a goal's timeline: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Transition])
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
	existing, err := oneGoal(ctx, s.pool, `g.profile_id = @profile and g.idempotency_key = @key`, args)
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
func (s *Store) Reading(ctx context.Context, n New) (reading json.RawMessage, err error) {
	err = s.pool.QueryRow(ctx, sqlReading, postgres.Args{"profile": n.ProfileID, "key": n.Key}).Scan(&reading)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a reading: %w", err)
	}
	return reading, nil
}

const sqlKeepReading = `
with kept as (
    insert into goal_readings (org_id, profile_id, idempotency_key, reading, created_at) values (@org, @profile, @key, @reading, @at)
    on conflict (profile_id, idempotency_key) do nothing returning reading
)
select reading from kept union all select reading from goal_readings where profile_id = @profile and idempotency_key = @key limit 1`

// KeepReading keeps what a model read; the first that is kept stays, and is returned.
func (s *Store) KeepReading(ctx context.Context, n New, reading json.RawMessage, at time.Time) (kept json.RawMessage, err error) {
	err = s.pool.QueryRow(ctx, sqlKeepReading, postgres.Args{
		"org": n.OrgID, "profile": n.ProfileID, "key": n.Key, "reading": []byte(reading), "at": at,
	}).Scan(&kept)
	if err != nil {
		return nil, fmt.Errorf("keep a reading: %w", err)
	}
	return kept, nil
}
