package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A fence hides the rows of the organisation from all services of a cell, and refuses new ones: a restrictive policy of row security on
// every table with an org_id. It binds every replica, of every release, from one commit on. A status would not: replicas
// keep it in a cache, and an older release does not read it. So the fence keeps two cells from acting for one organisation. The session
// that moves the rows sets app.moving and passes.

const (
	fenceLock  = "500ms" // under deadlock_timeout, so that a fence that has to wait gives way to the services
	fenceTries = 240
	fenceFirst = 12 // tries before the source turns callers away: 9 s
	fencePause = 250 * time.Millisecond
)

// behind runs do in a transaction that has all fenced tables to itself, for milliseconds. It gives way and tries again while they are
// busy.
func (d *database) behind(ctx context.Context, do func(pgx.Tx) error) error {
	return d.alone(ctx, d.fencedNames(), fenceTries, do)
}

// rehearse fails if a fence would have to wait, behind a long query or an open transaction, while callers are turned away.
func (d *database) rehearse(ctx context.Context) error {
	return d.alone(ctx, d.fencedNames(), fenceFirst, func(pgx.Tx) error { return nil })
}

// alone is behind for some tables.
func (d *database) alone(ctx context.Context, names []string, tries int, do func(pgx.Tx) error) error {
	lock := "lock table " + strings.Join(names, ", ") + " in access exclusive mode"
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, d.Conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "set local lock_timeout = '"+fenceLock+"'"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, lock); err != nil {
				return err
			}
			return do(tx)
		})
		refused, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case !ok || refused.Code != "55P03" && refused.Code != "40P01":
			return d.wrap("change the fence", err)
		case try == tries:
			return errors.Join(d.wrap("change the fence", err), d.blockers(ctx, names))
		}
		if err := pause(ctx, fencePause); err != nil {
			return err
		}
	}
}

const sqlBlockers = `
select coalesce(string_agg(format('process %s since %s', pid,
    coalesce(xact_start::text, 'a time that only pg_read_all_stats shows')), ', '), '')
from (
    select distinct l.pid, a.xact_start from pg_locks l left join pg_stat_activity a using (pid)
    where l.granted and l.pid <> pg_backend_pid() and l.database = (select oid from pg_database where datname = current_database())
        and l.relation in (select oid from pg_class where relnamespace = 'public'::regnamespace and relname = any ($1))
    order by a.xact_start nulls last limit 5
) holders`

// blockers names who has the tables, the oldest first.
func (d *database) blockers(ctx context.Context, names []string) error {
	var found string
	if err := d.one(ctx, "look who has the tables", sqlBlockers, []any{names}, &found); err != nil {
		return err
	}
	if found == "" {
		return errors.New("nobody has the tables by now: repeat the command")
	}
	return errors.New("the tables are in use by " + found + ": let it end, or end it by pg_terminate_backend, and repeat the command")
}

func (d *database) fencedNames() (names []string) {
	for _, t := range d.fenced() {
		names = append(names, t.Name)
	}
	return names
}

// fenced are the tables that have a fence: those with an org_id, but for the row of the organisation, which tells gateways that it moves,
// and for the audit: what the platform tries to do with the organisation meanwhile is kept where it was tried.
func (d *database) fenced() []Table {
	var all []Table
	known := map[string]Table{}
	for _, t := range d.tables {
		known[t.Name] = t
	}
	for name, columns := range d.columns {
		if name != "organisations" && name != "audit" && slices.ContainsFunc(columns, func(c column) bool { return c.Name == "org_id" }) {
			t := known[name]
			t.Name = name
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// raise makes the fence. At the target nothing is shown but the keys: their callers are told to come again.
func (d *database) raise(ctx context.Context, tx pgx.Tx, source bool) error {
	if err := d.drop(ctx, tx); err != nil {
		return err
	}
	if err := d.checkBound(ctx, tx); err != nil {
		return err
	}
	condition := d.condition()
	for _, t := range d.fenced() {
		commands := []string{"all"}
		switch {
		case t.Shown == nothing, !source && t.Name != "api_keys":
		case t.Shown == correcting:
			commands = []string{"insert", "delete"}
		default:
			commands = []string{"insert", "update", "delete"}
		}
		for _, command := range commands {
			sql := fmt.Sprintf("create policy %s on %s as restrictive for %s", d.policy(command), t.Name, command)
			if command != "insert" {
				sql += " using " + condition
			}
			if command != "delete" {
				sql += " with check " + condition
			}
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
	}
	return nil
}

const sqlUnbound = `
select coalesce(string_agg(relname, ', ' order by relname), '') from pg_class
where relnamespace = 'public'::regnamespace and relname = any ($1) and not (relrowsecurity and relforcerowsecurity)`

// checkBound refuses tables that have row security off, or not forced: a policy there would not bind the owner of the table.
func (d *database) checkBound(ctx context.Context, tx pgx.Tx) error {
	var unbound string
	if err := tx.QueryRow(ctx, sqlUnbound, d.fencedNames()).Scan(&unbound); err != nil {
		return err
	}
	if unbound != "" {
		return fmt.Errorf("row security is not enabled and forced on %s: a fence would not hold", unbound)
	}
	return nil
}

// outbox has the events that messaging hands to onboarding.
const outbox = "event_outbox"

// hideEvents keeps the events of the organisation in messaging, which goes on writing them. Onboarding takes events of all
// organisations at once: it could take none while it refuses those of this one.
func (d *database) hideEvents(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, fmt.Sprintf("create policy %s on %s as restrictive for select using %s", d.policy("select"), outbox, d.condition()))
	return err
}

func (d *database) condition() string {
	return fmt.Sprintf("(org_id is distinct from '%s' or current_setting('app.moving', true) = '%s')", d.org, d.org)
}

// drop takes the fence away.
func (d *database) drop(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `select tablename::text, policyname::text from pg_policies where schemaname = 'public' and policyname like $1`,
		strings.ReplaceAll(d.policy(""), "_", `\_`)+"%")
	if err != nil {
		return err
	}
	type policy struct{ Table, Name string }
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[policy])
	if err != nil {
		return err
	}
	for _, p := range found {
		if _, err := tx.Exec(ctx, "drop policy "+p.Name+" on "+p.Table); err != nil {
			return err
		}
	}
	return nil
}

// policy is the name of a policy of the organisation.
func (d *database) policy(command string) string {
	return "moving_" + strings.ReplaceAll(d.org.String(), "-", "") + "_" + command
}
