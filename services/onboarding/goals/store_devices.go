package goals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/people"
)

const sqlDevices = `
select d.id::text, d.org_id::text, d.profile_id::text, d.name, d.kind, ` + online + ` as online,
       coalesce(d.connected_at` + never + ` as connected_at, d.created_at
from devices d where d.deleted_at is null and `

// Devices lists the devices of a person, or of all that ctx may see, newest first, without their configurations.
func (s *Store) Devices(ctx context.Context, profileID, before string, limit int, now time.Time) ([]Device, error) {
	return all[Device](ctx, s.pool, "devices", sqlDevices+`(@profile = '' or d.profile_id = nullif(@profile, '')::uuid)
  and (@before = '' or d.id < nullif(@before, '')::uuid) order by d.id desc limit @limit`,
		postgres.Args{"profile": profileID, "before": before, "limit": limit, "now": now})
}

const (
	sqlCountDevices = `select count(*) from devices where profile_id = @profile and kind = 'stream' and deleted_at is null`

	sqlRegisterDevice = `
insert into devices (id, org_id, profile_id, name, kind, token_hash, configuration, created_at, updated_at)
values (@device, @org, @profile, @name, 'stream', @hash, @configuration, @at, @at)`
)

// RegisterDevice stores a device. ErrNoOwner, erasure.ErrBegun, ErrExists, and ErrInvalid for one too many.
func (s *Store) RegisterDevice(ctx context.Context, d Device, tokenHash []byte) error {
	args := postgres.Args{
		"device": d.ID, "org": d.OrgID, "profile": d.ProfileID, "name": d.Name, "hash": tokenHash, "configuration": []byte(d.Configuration),
		"at": d.CreatedAt,
	}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := lockOwner(ctx, tx, d.ProfileID, args); err != nil { // so that none is one too many
			return err
		}
		var count int
		if err := tx.QueryRow(ctx, sqlCountDevices, args).Scan(&count); err != nil {
			return fmt.Errorf("count devices: %w", err)
		}
		if count >= MaxDevices {
			return invalidDevice("the person has %d devices, which is as many as there may be", MaxDevices)
		}
		_, err := tx.Exec(ctx, sqlRegisterDevice, args)
		return err
	})
	if postgres.IsUniqueViolation(err, "devices_one_name") {
		return ErrExists
	}
	return err
}

// ofCaller is a stream device that a caller may change.
const ofCaller = `id = @device and org_id = @org and kind = 'stream' and (@profile = '' or profile_id = nullif(@profile, '')::uuid)`

const (
	// The next epoch has no node yet: a node that has a stream of an older epoch closes it.
	sqlRotateDevice = `
update devices set token_hash = @hash, epoch = epoch + 1, node_id = null, updated_at = @at where deleted_at is null and ` + ofCaller

	sqlRemoveDevice = `
update devices set deleted_at = coalesce(deleted_at, @at), epoch = epoch + 1, node_id = null, updated_at = @at where ` + ofCaller
)

// RotateDevice replaces a device's token, and ends its stream on whatever node it is. ErrNoDevice.
func (s *Store) RotateDevice(
	ctx context.Context, c Caller, deviceID string, tokenHash []byte, at time.Time,
) (d Device, err error) {
	args := postgres.Args{"device": deviceID, "org": c.OrgID, "profile": c.ProfileID, "hash": tokenHash, "at": at, "now": at}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := changeOne(ctx, tx, "rotate a device", sqlRotateDevice, args, ErrNoDevice); err != nil {
			return err
		}
		found, err := all[Device](ctx, tx, "devices", sqlDevices+`d.id = @device`, args)
		if err != nil {
			return err
		}
		d = found[0]
		return nil
	})
	return d, err
}

// RemoveDevice deletes a device, ends its stream and fails its open goals, and says how many; again it changes nothing. ErrNoDevice.
func (s *Store) RemoveDevice(ctx context.Context, c Caller, deviceID string, at time.Time) (failed int, err error) {
	args := postgres.Args{"device": deviceID, "org": c.OrgID, "profile": c.ProfileID, "at": at}
	err = s.andNotify(ctx, func(tx pgx.Tx) error {
		if err := changeOne(ctx, tx, "remove a device", sqlRemoveDevice, args, ErrNoDevice); err != nil {
			return err
		}
		failed, err = failAll(ctx, tx, deviceID, ReasonRemoved, c.Actor, at)
		return err
	})
	return failed, err
}

const (
	ofHello = ` id = @device and token_hash = @hash and kind = 'stream' and deleted_at is null`

	hasEnded = people.SQLEnded + `devices.org_id)`

	// A stream may have ended while it waited for this, and must not take the device from the one that came after it. What connected more
	// than a minute later is a clock that was wrong: no stream waits for as long.
	sqlConnectDevice = `
update devices set node_id = @node, epoch = epoch + 1, connected_at = @at, client = @client, updated_at = @at
where` + ofHello + ` and not ` + hasEnded + ` and (connected_at > @at and connected_at < @at::timestamptz + interval '1 minute') is not true
returning org_id::text, profile_id::text, epoch`

	sqlKnowsHello = `select ` + hasEnded + ` from devices where` + ofHello

	sqlOpenRuns = `select run_id::text from goals where device_id = @device and status = 'running'`
)

// Connect gives a device to a node, by a new epoch, and returns the runs that are open on it. ErrToken; ErrOver when its organisation has
// ended; ErrOvertaken when a stream has it that was opened later.
func (s *Store) Connect(
	ctx context.Context, nodeID string, hello Hello, opened time.Time,
) (c Connection, err error) {
	args := postgres.Args{
		"node": nodeID, "device": hello.DeviceID, "hash": hashToken(hello.Token), "client": hello.Client, "at": opened,
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		c = Connection{DeviceID: hello.DeviceID}
		err := tx.QueryRow(ctx, sqlConnectDevice, args).Scan(&c.OrgID, &c.ProfileID, &c.Epoch)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return notConnected(ctx, tx, args)
		case err != nil:
			return fmt.Errorf("connect a device: %w", err)
		}
		rows, err := tx.Query(ctx, sqlOpenRuns, args) // a node that begins one holds the device's row
		if err != nil {
			return fmt.Errorf("read open runs: %w", err)
		}
		c.Runs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return c, err
}

// notConnected returns the reason that a device was not given to a stream.
func notConnected(ctx context.Context, tx pgx.Tx, args postgres.Args) error {
	var ended bool
	err := tx.QueryRow(ctx, sqlKnowsHello, args).Scan(&ended)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrToken
	case err != nil:
		return fmt.Errorf("check a device's token: %w", err)
	case ended:
		return ErrOver
	}
	return ErrOvertaken
}

const sqlDisconnectDevice = `update devices set node_id = null, updated_at = @at where id = @device and node_id = @node and epoch = @epoch`

// Disconnect takes a device from a node, unless a newer stream has it.
func (s *Store) Disconnect(ctx context.Context, nodeID, deviceID string, epoch int64, at time.Time) error {
	_, err := s.pool.Exec(ctx, sqlDisconnectDevice, postgres.Args{"node": nodeID, "device": deviceID, "epoch": epoch, "at": at})
	if err != nil {
		return fmt.Errorf("disconnect a device: %w", err)
	}
	return nil
}

const (
	sqlRenewNode = `
insert into device_nodes (id, lease_until, started_at) values (@node, @until, @now)
on conflict (id) do update set lease_until = excluded.lease_until`

	// Nodes that are long gone. A device that still names one is offline.
	sqlForgetNodes = `
delete from device_nodes where id in (
    select id from device_nodes where lease_until < @now::timestamptz - interval '1 hour' order by id limit 100 for update skip locked)`
)

// Renew extends the lease of a node, and deletes what nodes have left that are long gone.
func (s *Store) Renew(ctx context.Context, nodeID string, until, now time.Time) error {
	args := postgres.Args{"node": nodeID, "until": until, "now": now}
	if _, err := s.pool.Exec(ctx, sqlRenewNode, args); err != nil {
		return fmt.Errorf("renew a node: %w", err)
	}
	if _, err := s.pool.Exec(ctx, sqlForgetNodes, args); err != nil {
		return fmt.Errorf("delete nodes: %w", err)
	}
	return nil
}

// Retire takes all devices from a node that ends, and its lease.
func (s *Store) Retire(ctx context.Context, nodeID string, at time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := postgres.Args{"node": nodeID, "at": at}
		for _, sql := range []string{
			`delete from device_nodes where id = @node`, `update devices set node_id = null, updated_at = @at where node_id = @node`,
		} {
			if _, err := tx.Exec(ctx, sql, args); err != nil {
				return fmt.Errorf("retire a node: %w", err)
			}
		}
		return nil
	})
}

const sqlHeldDevices = `select id::text as device_id, epoch, ` + hasEnded + ` as over from devices where node_id = @node`

// HeldDevice is a device that a node has by its row.
type HeldDevice struct {
	DeviceID string
	Epoch    int64
	Over     bool // its organisation has ended
}

// Held are the devices that a node has by their rows.
func (s *Store) Held(ctx context.Context, nodeID string) (map[string]HeldDevice, error) {
	found, err := all[HeldDevice](ctx, s.pool, "held devices", sqlHeldDevices, postgres.Args{"node": nodeID})
	held := make(map[string]HeldDevice, len(found))
	for _, d := range found {
		held[d.DeviceID] = d
	}
	return held, err
}

// sqlCalls lists the goals that an alarm has called a node for, and the runs that a stop was asked for. Two indexes hold these, and
// nothing else: offset 0 has them read first, and not the devices of the node, of which there are a thousand.
const sqlCalls = `
(select distinct on (g.device_id) g.id::text as goal_id, g.device_id::text, d.epoch, '' as stop
from (select id, device_id, scheduled_for from goals where status = 'scheduled' and called_at >= @window offset 0) g
join devices d on d.id = g.device_id
where d.node_id = @node and not exists (select from goals r where r.device_id = g.device_id and r.status = 'running')
order by g.device_id, g.scheduled_for, g.id)
union all
select g.id::text, g.device_id::text, d.epoch, g.run_id::text
from (select id, device_id, run_id from goals where status = 'running' and stop_requested_at is not null offset 0) g
join devices d on d.id = g.device_id
where d.node_id = @node`

// Calls lists the orders to a node, for each device at most one goal to begin or one run to stop.
func (s *Store) Calls(ctx context.Context, nodeID string, now time.Time) ([]Call, error) {
	return all[Call](ctx, s.pool, "calls", sqlCalls, postgres.Args{"node": nodeID, "window": now.Add(-CallWindow)})
}

const (
	// The device's row is locked against a newer stream, which reads the open runs once it has it.
	sqlHoldDevice = `
select configuration from devices where id = @device and node_id = @node and epoch = @epoch and deleted_at is null for share`

	ofRun = `g.run_id = @run::uuid and g.device_id = @device and g.status = 'running'`
)

var (
	offerGoal = goalChange{
		set: `status = 'running', run_id = @run::uuid, started_at = @at, heard_at = @at, offered_at = @at`,
		where: `g.id = @goal and g.device_id = @device and g.status = 'scheduled' and g.called_at >= @window and n.lease_until > @now
        and not exists (select from goals r where r.device_id = g.device_id and r.status = 'running')`,
		from: Scheduled, event: "offered", tells: eventGoalStarted,
	}
	offerAgain = goalChange{
		set: `offered_at = @at, heard_at = @at`, where: ofRun + ` and g.acknowledged_at is null`, from: Running, event: "offered",
	}
	acknowledgeRun = goalChange{
		set: `acknowledged_at = @at, heard_at = @at`, where: ofRun + ` and g.acknowledged_at is null`, from: Running, event: "acknowledged",
	}
)

// Begin begins a goal that was called, on the device of a stream that still has it. ErrReplaced when it does not, ErrConflict
// when the goal has moved, or another one runs.
func (s *Store) Begin(ctx context.Context, nodeID string, c Call, runID string, at time.Time) (o Offer, err error) {
	args := postgres.Args{"goal": c.GoalID, "window": at.Add(-CallWindow)}
	err = s.andNotify(ctx, func(tx pgx.Tx) (err error) {
		o, err = offer(ctx, tx, offerGoal, nodeID, c, runID, at, args)
		return err
	})
	if postgres.IsUniqueViolation(err, "goals_one_running") {
		return Offer{}, ErrConflict
	}
	return o, err
}

// OfferAgain returns the offer of a run that the device has never seen. ErrReplaced as of Begin; ErrForgotten when the device
// has acknowledged it, ErrConflict when it has ended.
func (s *Store) OfferAgain(ctx context.Context, nodeID string, c Call, runID string, at time.Time) (o Offer, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		o, err = offer(ctx, tx, offerAgain, nodeID, c, runID, at, postgres.Args{})
		if !errors.Is(err, ErrConflict) {
			return err
		}
		_, open := oneGoal(ctx, tx, ofRun, postgres.Args{"run": runID, "device": c.DeviceID})
		switch {
		case open == nil:
			return ErrForgotten
		case errors.Is(open, ErrNoGoal):
			return err
		}
		return open
	})
	return o, err
}

func offer(
	ctx context.Context, tx pgx.Tx, change goalChange, nodeID string, c Call, runID string, at time.Time, args postgres.Args,
) (o Offer, err error) {
	args["device"], args["node"], args["epoch"], args["run"] = c.DeviceID, nodeID, c.Epoch, runID
	o.RunID = runID
	err = tx.QueryRow(ctx, sqlHoldDevice, args).Scan(&o.Configuration)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return o, ErrReplaced
	case err != nil:
		return o, fmt.Errorf("hold a device: %w", err)
	}
	if err := change.one(ctx, tx, at, "device:"+c.DeviceID, "", args); err != nil {
		return o, err
	}
	g, err := oneGoal(ctx, tx, ofRun, args)
	o.GoalID, o.Goal, o.ScheduledFor, o.CalledAt, o.Waited = g.ID, g.Goal, g.ScheduledFor, g.CalledAt, g.Waited()
	return o, err
}

const sqlHearRun = `
update goals g set acknowledged_at = coalesce(g.acknowledged_at, @at), heard_at = greatest(g.heard_at, @at),
    progress = case when @progress = '' then g.progress else @progress end,
    updated_at = @at
where ` + ofRun

// Acknowledge notes that the device has noted a run; it reports whether it was this call that did.
func (s *Store) Acknowledge(ctx context.Context, deviceID, runID string, at time.Time) (bool, error) {
	err := acknowledgeRun.one(ctx, s.pool, at, "device:"+deviceID, "", postgres.Args{"device": deviceID, "run": runID})
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// Hear notes that the device has spoken of a run that is open on it, which is as good as an acknowledgement, and reports whether it is.
func (s *Store) Hear(ctx context.Context, deviceID, runID, progress string, at time.Time) (bool, error) {
	tag, err := s.pool.Exec(ctx, sqlHearRun, postgres.Args{"device": deviceID, "run": runID, "progress": progress, "at": at})
	if err != nil {
		return false, fmt.Errorf("hear of a run: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
