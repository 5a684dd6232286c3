package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// finish makes the move irrevocable, and then opens the target. From the first statement on nothing is copied any more: the target may
// have written by the time of a repeat.
func (m *Mover) finish(ctx context.Context, there organisation) (err error) {
	if m.Senders, err = m.senders(ctx); err != nil {
		return err
	}
	if there.state() == leaving {
		there.Move.State, there.Move.Opens = left, there.Move.Was
		if m.Suspended {
			there.Move.Opens = "suspended"
		}
		if err := m.from.onboarding.keep(ctx, there, "it lives in another cell", m.Now()); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nit has left the source and is not open yet: repeat the same command", err)
		}
	}()
	opened, status := false, there.Move.Opens
	// Messaging opens first: onboarding acts by it.
	for _, d := range []*database{m.to.messaging, m.to.onboarding} {
		here, err := d.organisation(ctx)
		if err != nil {
			return err
		}
		if here.state() != arriving {
			continue
		}
		opened = true
		if err := m.admit(ctx, d, here, there, status); err != nil {
			return err
		}
	}
	if err := m.showEvents(ctx); err != nil {
		return err
	}
	if !opened {
		m.Say("it has moved already")
		return nil
	}
	m.Say("it is open at the target: " + status)
	return nil
}

// admit opens one database of the target.
func (m *Mover) admit(ctx context.Context, d *database, here, there organisation, status string) error {
	told, err := m.eventsTold(ctx, d)
	if err != nil {
		return err
	}
	known, err := m.to.messaging.organisation(ctx)
	if err != nil {
		return err
	}
	return d.behind(ctx, func(tx pgx.Tx) error {
		now := m.Now()
		for _, s := range rebuild(d.service) {
			if _, err := tx.Exec(ctx, s, pgx.NamedArgs{"org": m.Org, "now": now, "since": there.Move.At, "told": told}); err != nil {
				return err
			}
		}
		here.Name, here.Status, here.CreatedAt = there.Name, status, there.CreatedAt
		here.Version, here.Move = max(here.Version, there.Version, known.Version)+1, nil // messaging heeds a later change
		if err := d.write(ctx, tx, here, "", now); err != nil {
			return err
		}
		if err := d.drop(ctx, tx); err != nil || d.service == "onboarding" {
			return err
		}
		return d.hideEvents(ctx, tx)
	})
}

// showEvents lets messaging of the target hand its events over, also those of before a run was broken off.
func (m *Mover) showEvents(ctx context.Context) error {
	d := m.to.messaging
	here, err := d.organisation(ctx)
	if err != nil || here.state() != "" { // it moves on
		return err
	}
	return d.alone(ctx, []string{outbox}, fenceTries, func(tx pgx.Tx) error { return d.drop(ctx, tx) })
}

// eventsTold has the events that messaging's outbox still has, and onboarding's log already.
func (m *Mover) eventsTold(ctx context.Context, d *database) (told []uuid.UUID, err error) {
	if d.service != "messaging" {
		return nil, nil
	}
	rows, err := d.Query(ctx, `select event_id from event_outbox where org_id = $1`, m.Org)
	if err != nil {
		return nil, d.wrap("list events", err)
	}
	waiting, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, d.wrap("list events", err)
	}
	rows, err = m.to.onboarding.Query(ctx, `select event_id from events where org_id = $1 and event_id = any ($2)`, m.Org, waiting)
	if err != nil {
		return nil, m.to.onboarding.wrap("list events", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// rebuild has the statements by which a database of the target takes over.
func rebuild(service string) []string {
	if service == "messaging" {
		return []string{
			`delete from event_outbox where org_id = @org and event_id = any (@told::uuid[])`,
			// What people wrote while neither cell heard them is read from Twilio's list before anything is sent: a STOP may be in it.
			// It waits for sends that are under way, if there are any. A suspicion of the source is none any more: people may have written.
			`insert into readbacks (org_id, since, noticed_at)
			select @org, @since, case when exists (select from sms_messages where org_id = @org and status = 'sending') then @now::timestamptz
				else @now::timestamptz - interval '1 day' end
			on conflict (org_id) where ended_at is null
				do update set since = least(readbacks.since, excluded.since), noticed_at = greatest(readbacks.noticed_at, excluded.noticed_at),
					suspected = false, senders = null, read_at = null, lease_token = null, lease_until = null`,
		}
	}
	// The newest alarm of what still waits is published anew: the target's engine has none. A repeat of an alarm changes nothing.
	return []string{
		`update step_alarms a set published_at = null, qstash_message_id = null, lease_token = null, lease_until = @now, attempts = 0,
			last_error = ''
		from conversation_sessions s
		where a.org_id = @org and s.id = a.session_id and s.status = 'active' and s.state_token = a.expected_state_token
			and not exists (select from step_alarms n where n.session_id = a.session_id and n.step_id = a.step_id and n.generation > a.generation)`,
		`update goal_alarms a set published_at = null, qstash_message_id = null, lease_token = null, lease_until = @now, attempts = 0,
			last_error = ''
		from goals g
		where a.org_id = @org and g.id = a.goal_id and g.status in (` + openGoals + `)
			and not exists (select from goal_alarms n where n.goal_id = a.goal_id and n.generation > a.generation)`,
	}
}

// Cancel gives a move up, as long as the target has not opened: the source goes on. With a target it erases the copy there, too; a repeat
// goes on with that.
func (m *Mover) Cancel(ctx context.Context) error {
	done, err := m.open(ctx, m.Target != nil)
	if err != nil {
		return err
	}
	defer done()
	there, err := m.from.onboarding.organisation(ctx)
	if err != nil {
		return err
	}
	if m.Target == nil {
		return m.goOn(ctx, there)
	}
	if there.Name == "" || there.state() != "" && there.state() != leaving {
		return errors.New(notUnderWay)
	}
	if err := m.checkSchemas(ctx); err != nil {
		return err // before the source goes on: the copy of another release might not be erased whole
	}
	if err := errors.Join(m.sameTarget(ctx, there), m.to.onboarding.lockMove(ctx)); err != nil {
		return err
	}
	if there.state() == leaving {
		if err := m.goOn(ctx, there); err != nil {
			return err
		}
	}
	return m.eraseCopy(ctx)
}

const notUnderWay = "there is no move to give up: the organisation is not on its way, or has arrived"

// goOn has the source act again.
func (m *Mover) goOn(ctx context.Context, there organisation) error {
	return m.atSource(ctx, there, leaving, notUnderWay, func(d *database, tx pgx.Tx, o organisation) error {
		o.Status, o.Version, o.Move = o.Move.Was, o.Version+1, nil
		if err := d.write(ctx, tx, o, "", m.Now()); err != nil {
			return err
		}
		return d.drop(ctx, tx)
	})
}

// eraseCopy deletes what the target has of an organisation that was on its way to it. The fence falls last: what a run that is broken off
// leaves stays unseen.
func (m *Mover) eraseCopy(ctx context.Context) error {
	copies := 0
	err := m.to.each(func(d *database) error {
		here, err := d.organisation(ctx)
		switch {
		case err != nil || here.Status == "":
			return err
		case here.state() != arriving:
			return errors.New(d.name + " has this organisation, and it is not on its way there")
		}
		copies++
		return d.asReplica(ctx)
	})
	if err != nil || copies == 0 {
		return err
	}
	return m.to.each(func(d *database) error { return m.deleteAll(ctx, d) })
}

// deleteAll deletes all rows of the organisation, children first, and then its fence.
func (m *Mover) deleteAll(ctx context.Context, d *database) error {
	var rows int64
	for _, t := range slices.Backward(d.tables) {
		tag, err := d.Exec(ctx, "delete"+d.shape(t, nil).of)
		if err != nil {
			return d.wrap("delete from "+t.Name, err)
		}
		rows += tag.RowsAffected()
	}
	m.Say(fmt.Sprintf("%s: %d rows of the copy are erased", d.name, rows))
	return d.behind(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `delete from organisations where org_id = $1 and move ->> 'state' = $2`, d.org, arriving); err != nil {
			return err
		}
		return d.drop(ctx, tx)
	})
}

// sqlIdle takes away what would still act for the organisation at the source.
const sqlIdle = `
with deliveries as (delete from event_deliveries where org_id = @org),
    subscriptions as (delete from event_subscriptions where org_id = @org),
    outbox as (delete from event_outbox where org_id = @org), steps as (delete from step_alarms where org_id = @org),
    goals as (delete from goal_alarms where org_id = @org)
delete from alarm_jobs where org_id = @org`

// sqlMute leaves messaging of the source nothing to send with or to look up at Twilio: its fence falls, and what people write goes on
// to arrive at the same numbers, at the target.
const sqlMute = `
with jobs as (delete from sms_outbound_jobs where org_id = @org), readbacks as (delete from readbacks where org_id = @org),
    outbox as (delete from event_outbox where org_id = @org)
update senders set status = 'disabled', api_key_secret = null, auth_token = null, next_auth_token = null, version = version + 1,
    updated_at = @now, deleted_at = @now
where org_id = @org and deleted_at is null`

// Release lets the source erase what it still has of an organisation that has left: paceline org end does that.
func (m *Mover) Release(ctx context.Context) error {
	const otherwise = "the organisation has not left this cell, or was released"
	done, err := m.open(ctx, false)
	if err != nil {
		return err
	}
	defer done()
	there, err := m.from.onboarding.organisation(ctx)
	if err != nil {
		return err
	}
	return m.atSource(ctx, there, left, otherwise, func(d *database, tx pgx.Tx, o organisation) error {
		o.Move.State = released
		still := sqlIdle
		if d.service == "messaging" {
			still = sqlMute
		}
		if _, err := tx.Exec(ctx, still, pgx.NamedArgs{"org": m.Org, "now": m.Now()}); err != nil {
			return err
		}
		if err := d.write(ctx, tx, o, "it lives in another cell; its rows may be erased here", m.Now()); err != nil {
			return err
		}
		return d.drop(ctx, tx)
	})
}

// atSource changes an organisation at the source that is in a state. Onboarding's row decides, so it comes last.
func (m *Mover) atSource(
	ctx context.Context, there organisation, state, otherwise string, change func(*database, pgx.Tx, organisation) error,
) error {
	if there.state() != state {
		return errors.New(otherwise)
	}
	for _, d := range []*database{m.from.messaging, m.from.onboarding} {
		o, err := d.organisation(ctx)
		if err != nil {
			return err
		}
		if o.Move == nil { // this was done before
			continue
		}
		o.Move.Was = there.Move.Was
		if err := d.behind(ctx, func(tx pgx.Tx) error { return change(d, tx, o) }); err != nil {
			return err
		}
	}
	return nil
}

// openGoals are the statuses of a goal that waits for an alarm.
const openGoals = `'scheduled', 'running'`
