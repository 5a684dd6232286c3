// Package cells moves an organisation from one deployment of Paceline, a cell, to another one, while both serve.
//
// The rows are copied while the source goes on, and compared and corrected by their primary keys; then the organisation is suspended, a
// fence closes the source, one more pass copies what changed, and both sides are counted. Logical replication with row filters would do
// the same with less reading, but it needs wal_level=logical and a restart of the source, a superuser's subscription, a replica identity
// on every table for filters on other columns than the key, cannot filter tables that have no org_id, and cannot give rows other
// numbers: the identity columns of two cells collide. What is compared here is the content, so a pass may be broken off and repeated at
// any point.
//
// At no instant do both cells act: the source is fenced before its row says that the organisation has left, and the target's fence falls
// only after that. A send that was under way is copied as it stands, and settled at the target by evidence, as after a crash.
package cells

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Mover moves one organisation.
type Mover struct {
	Org uuid.UUID
	// Source and Target are the environments of the two cells.
	Source, Target map[string]string
	// Settle is the time after which all gateways turn the organisation's callers away. Default 5 s.
	Settle time.Duration
	// Suspended leaves the organisation suspended at the target.
	Suspended bool
	Now       func() time.Time
	// Machine is the clock of the waits.
	Machine func() time.Time
	// Say is told each step in words.
	Say func(string)
	// Senders are the organisation's, after Move: what people write to them has to reach the target.
	Senders []Sender

	from, to pair
	place    string // the target's database of onboarding
}

// pair has the databases of a cell.
type pair struct{ onboarding, messaging *database }

func (p pair) each(do func(*database) error) error {
	for _, d := range []*database{p.onboarding, p.messaging} {
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}

const (
	settle    = 5 * time.Second
	underWay  = 30 * time.Second // bounds the wait for sends
	poll      = 200 * time.Millisecond
	passes    = 5   // at most, before the pause
	fewChange = 500 // rows that the last pass may leave to the pause
)

// Move moves the organisation, or goes on where a move was broken off.
func (m *Mover) Move(ctx context.Context) (counted []Counted, err error) {
	done, err := m.open(ctx, true)
	if err != nil {
		return nil, err
	}
	defer done()
	there, err := m.from.onboarding.organisation(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.sameTarget(ctx, there); err != nil {
		return nil, err
	}
	if err := m.check(ctx, there); err != nil {
		return nil, err
	}
	if there.state() == left || there.state() == released {
		return nil, m.finish(ctx, there)
	}
	moved, err := m.arrive(ctx, there)
	if err != nil {
		return nil, err
	}
	if err := m.follow(ctx, moved); err != nil {
		return nil, err
	}
	if err := m.from.each(func(d *database) error { return d.rehearse(ctx) }); err != nil {
		return nil, err
	}
	if there, err = m.leave(ctx); err != nil {
		return nil, err
	}
	if there, counted, err = m.close(ctx, moved, there); err != nil {
		return nil, err
	}
	return counted, m.finish(ctx, there)
}

// open connects to the cells, and keeps a second run away.
func (m *Mover) open(ctx context.Context, both bool) (done func(), err error) {
	if m.Settle == 0 {
		m.Settle = settle
	}
	var all []*database
	done = func() {
		for _, d := range all {
			_ = d.Close(context.WithoutCancel(ctx))
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	cell := func(name string, environ map[string]string, p *pair) error {
		for service, d := range map[string]**database{"onboarding": &p.onboarding, "messaging": &p.messaging} {
			if *d, err = connect(ctx, name, service, environ, m.Org); err != nil {
				return err
			}
			all = append(all, *d)
			if err := (*d).check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := cell("source", m.Source, &m.from); err != nil {
		return nil, err
	}
	if both {
		if err := cell("target", m.Target, &m.to); err != nil {
			return nil, err
		}
	}
	return done, m.from.onboarding.lockMove(ctx)
}

// lockMove keeps a second run away from a cell, whether it is the source of it or the target.
func (d *database) lockMove(ctx context.Context) error {
	var locked bool
	err := d.one(ctx, "lock the move", `select pg_try_advisory_lock(hashtext('paceline org move'))`, nil, &locked)
	if err == nil && !locked {
		err = fmt.Errorf("%s: another move from or to this deployment runs", d.name)
	}
	return err
}

const (
	sqlPlace   = `(select system_identifier || '/' || current_database() from pg_control_system())`
	sqlVersion = `select max(version_id), ` + sqlPlace + ` from goose_db_version where is_applied`
)

// sameTarget refuses to go on with a move to another target.
func (m *Mover) sameTarget(ctx context.Context, there organisation) error {
	if err := m.to.onboarding.one(ctx, "identify the database", `select `+sqlPlace, nil, &m.place); err != nil {
		return err
	}
	if there.Move != nil && there.Move.To != "" && there.Move.To != m.place {
		return errors.New("the organisation moves to another target, or has moved there: name that one with --to")
	}
	return nil
}

// movable refuses an organisation that cannot leave the source.
func (m *Mover) movable(there organisation) error {
	switch {
	case there.Name == "":
		return errors.New("the source has no such organisation: paceline org list")
	case there.Status == "ended":
		return errors.New("the organisation has ended at the source; resume it first")
	case there.state() == arriving:
		return errors.New("the organisation is on its way to this source: finish that move first")
	}
	return nil
}

func (m *Mover) check(ctx context.Context, there organisation) error {
	hasLeft := there.state() == left || there.state() == released
	if !hasLeft {
		if err := m.movable(there); err != nil {
			return err
		}
	}
	if err := errors.Join(m.checkEnviron("source", m.Source), m.checkEnviron("target", m.Target)); err != nil {
		return err
	}
	if m.Source["PSEUDONYM_KEY"] != m.Target["PSEUDONYM_KEY"] {
		return errors.New("the cells have different values of PSEUDONYM_KEY: the opt-outs of people who were erased would not be recognised")
	}
	if err := m.checkSchemas(ctx); err != nil {
		return err
	}
	if err := m.to.onboarding.lockMove(ctx); err != nil {
		return err
	}
	here, err := m.to.onboarding.organisation(ctx)
	if err == nil && !hasLeft && here.Name != "" && here.Move == nil {
		err = errors.New("the target has this organisation already")
	}
	if err != nil {
		return err
	}
	return m.to.each(func(d *database) error { return d.asReplica(ctx) })
}

// checkEnviron refuses an environment that does not tell enough of its cell.
func (m *Mover) checkEnviron(cell string, environ map[string]string) error {
	defaultOrg, err := uuid.Parse(environ["DEFAULT_ORG_ID"])
	switch {
	case err != nil:
		return fmt.Errorf("the environment of the %s has no UUID in DEFAULT_ORG_ID: without one a deployment uses "+
			"00000000-0000-7000-8000-000000000001", cell)
	case defaultOrg == m.Org:
		return errors.New("this is the organisation of DEFAULT_ORG_ID, which has the sender of the environment: it does not move. Store its " +
			"sender by POST /v1/senders and give DEFAULT_ORG_ID to another organisation first")
	case environ["PSEUDONYM_KEY"] == "":
		return fmt.Errorf("the environment of the %s has no PSEUDONYM_KEY", cell)
	}
	return nil
}

// checkSchemas refuses cells of different releases.
func (m *Mover) checkSchemas(ctx context.Context) error {
	for _, pair := range [][2]*database{{m.from.onboarding, m.to.onboarding}, {m.from.messaging, m.to.messaging}} {
		var versions [2]int64
		var places [2]string
		for i, d := range pair {
			if err := d.one(ctx, "read the version of the schema", sqlVersion, nil, &versions[i], &places[i]); err != nil {
				return err
			}
		}
		switch {
		case places[0] == places[1]:
			return errors.New("the source and the target are one database")
		case versions[0] != versions[1]:
			return fmt.Errorf("the schema of %s is at %d at the source and at %d at the target: run the same release in both cells",
				pair[0].service, versions[0], versions[1])
		}
	}
	return nil
}

// moving is a move under way: the numbers that are reserved at the target, and the tables that the last pass found to be the same.
type moving struct {
	onboarding, messaging map[string]shift
	same                  [2]map[string]Total // of messaging, of onboarding
}

// arrive raises the fence at the target before anything is written behind it.
func (m *Mover) arrive(ctx context.Context, there organisation) (moved moving, err error) {
	of, err := m.senders(ctx)
	if err != nil {
		return moved, err
	}
	for _, side := range []struct {
		from, to *database
		shifts   *map[string]shift
	}{{m.from.onboarding, m.to.onboarding, &moved.onboarding}, {m.from.messaging, m.to.messaging, &moved.messaging}} {
		here, err := side.to.organisation(ctx)
		if err != nil {
			return moved, err
		}
		source, err := side.from.spans(ctx)
		if err != nil {
			return moved, err
		}
		if here.state() == arriving && enough(here.Move.Shifts, source) {
			*side.shifts = here.Move.Shifts
			continue
		}
		err = side.to.behind(ctx, func(tx pgx.Tx) error {
			if err := side.to.raise(ctx, tx, false); err != nil {
				return err
			}
			taken, err := reserve(ctx, tx, side.to, source)
			if err != nil {
				return err
			}
			*side.shifts = taken
			o := organisation{
				Name: there.Name, Status: "suspended", Version: max(there.Version, here.Version), CreatedAt: there.CreatedAt,
				Move: &move{State: arriving, At: m.Now(), Shifts: taken},
			}
			if side.to.service == "messaging" {
				o.Move.Senders = of
			}
			return side.to.write(ctx, tx, o, "it arrives from another cell", m.Now())
		})
		if err != nil {
			return moved, err
		}
		if err := side.to.checkFenced(ctx); err != nil {
			return moved, err
		}
	}
	m.Say("the target keeps it behind a fence: no service there sees its rows")
	return moved, nil
}

// senders lists how messaging recognises callbacks of the organisation.
func (m *Mover) senders(ctx context.Context) ([]Sender, error) {
	rows, err := m.from.messaging.Query(ctx,
		`select account_sid, coalesce(number, ''), coalesce(service_sid, '') from senders where org_id = $1 and deleted_at is null`, m.Org)
	if err != nil {
		return nil, m.from.messaging.wrap("list senders", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Sender])
}

// follow copies while the source goes on, until few rows change during a pass.
func (m *Mover) follow(ctx context.Context, moved moving) error {
	for n := 1; n <= passes; n++ {
		changed, err := m.pass(ctx, &moved)
		if err != nil {
			return err
		}
		m.Say(fmt.Sprintf("pass %d while the source goes on: %d rows", n, changed))
		if changed < fewChange {
			return nil
		}
	}
	return nil
}

func (m *Mover) pass(ctx context.Context, moved *moving) (int64, error) {
	moved.same = [2]map[string]Total{{}, {}}
	told, err := pass(ctx, m.from.messaging, m.to.messaging, moved.messaging, moved.same[0])
	if err != nil {
		return 0, err
	}
	changed, err := pass(ctx, m.from.onboarding, m.to.onboarding, moved.onboarding, moved.same[1])
	return told + changed, err
}
