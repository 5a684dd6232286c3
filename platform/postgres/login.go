package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrLogin is a login that may not do what the service needs. Its text has the statements that an administrator runs, once.
var ErrLogin = errors.New("postgres: the login lacks what the service needs")

// grantOptions is the first version in which a membership says itself whether it gives its rights, and whether its role can be taken on.
const grantOptions = 160000

// sqlLogin looks at what the login is and may do. Before version 16 every member may take the role on.
const sqlLogin = `
select current_user::text as name, me.rolsuper or me.rolcreaterole as creates, me.rolinherit as inherits,
    me.rolsuper or me.rolcreaterole and version < 160000 as grants, version,
    current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
    current_setting('idle_in_transaction_session_timeout') as idle
from pg_roles me, (select current_setting('server_version_num')::int as version) v
where me.rolname = current_user`

const sqlMembership = `
select wanted.name, r.oid is not null as there, coalesce(pg_has_role(r.oid, 'USAGE'), false) as rights,
    coalesce(pg_has_role(r.oid, case when current_setting('server_version_num')::int < 160000 then 'MEMBER' else 'SET' end), false)
        as takes,
    coalesce(pg_has_role(r.oid, 'MEMBER WITH ADMIN OPTION'), false) as grants
from unnest($1::text[]) wanted (name) left join pg_roles r on r.rolname = wanted.name`

type login struct {
	Name                      string
	Creates, Inherits, Grants bool
	Version                   int
	Statement, Lock, Idle     string
}

type membership struct {
	Name                         string
	There, Rights, Takes, Grants bool
}

func lookAtLogin(ctx context.Context, db DB, roles *Roles) (login, []membership, error) {
	rows, _ := db.Query(ctx, sqlLogin) // Collect returns the error that rows carry
	me, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[login])
	if err != nil {
		return me, nil, fmt.Errorf("postgres: look at the login: %w", err)
	}
	rows, _ = db.Query(ctx, sqlMembership, []string{roles.Tenant, roles.Worker})
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[membership])
	if err != nil {
		return me, nil, fmt.Errorf("postgres: look at the roles of %s: %w", me.Name, err)
	}
	return me, all, nil
}

// mend returns the statements that make the roles and the login's membership of them.
func (me login) mend(missing []membership) string {
	var statements []string
	for _, m := range missing {
		if !m.There {
			statements = append(statements, "create role "+quote(m.Name)+" nologin;")
		}
	}
	if !me.Inherits && me.Version < grantOptions {
		statements = append(statements, "alter role "+quote(me.Name)+" inherit;")
	}
	for _, m := range missing {
		grant := "grant " + quote(m.Name) + " to " + quote(me.Name)
		if me.Version >= grantOptions {
			grant += " with inherit true, set true"
		}
		statements = append(statements, grant+";")
	}
	return strings.Join(statements, " ")
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// mayMigrate is nil when the login has the roles of the service, or can give them to itself.
func mayMigrate(ctx context.Context, db DB, roles *Roles) error {
	me, all, err := lookAtLogin(ctx, db, roles)
	if err != nil {
		return err
	}
	var missing []membership
	for _, m := range all {
		if m.There && !m.Rights && !me.Grants && !m.Grants || m.There && m.Rights && !m.Takes || !m.There && !me.Creates {
			missing = append(missing, m)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s is to be a member of %s, and may not see to that itself; run once as an administrator of the server: %s",
		ErrLogin, me.Name, names(missing), me.mend(missing))
}

func names(of []membership) string {
	var all []string
	for _, m := range of {
		all = append(all, m.Name)
	}
	return strings.Join(all, " and ")
}

// Ready is nil when a service can use its database: it takes writes, the schema is there, and the pool is Sound.
func (p *Pool) Ready(ctx context.Context, schema Migrations) error {
	if err := Writable(ctx, p); err != nil {
		return err
	}
	if err := schema.Ready(ctx, p); err != nil {
		return err
	}
	return p.Sound(ctx)
}

// Sound is nil when the login sees what the worker sees, can take on the tenant's role, has timeouts, and gets notifications.
// Otherwise it says what to do about each.
func (p *Pool) Sound(ctx context.Context) error {
	roles := RolesOf(p.service)
	me, all, err := lookAtLogin(AcrossOrganisations(ctx), p, roles)
	if err != nil {
		return err
	}
	var problems []error
	var missing []membership
	for _, m := range all {
		if !m.There || m.Name == roles.Worker && !m.Rights || m.Name == roles.Tenant && !m.Takes {
			missing = append(missing, m)
		}
	}
	if len(missing) > 0 {
		problems = append(problems, fmt.Errorf("%w: %s has not all of the rights of %s; run once as an administrator of the server: %s",
			ErrLogin, me.Name, names(missing), me.mend(missing)))
	}
	if unset := p.unset(me); unset != "" {
		problems = append(problems, fmt.Errorf("postgres: the pooler gives connections away by the transaction, so timeouts are the login's; "+
			"run once, and have the pooler open its connections anew (RECONNECT): %s", unset))
	}
	if p.pooled {
		problems = append(problems, fmt.Errorf("postgres: the pooler gives connections away by the transaction, so neither wake-ups nor "+
			"the lock of migrate come through it: give the URL of the server itself as %s_DATABASE_DIRECT_URL", strings.ToUpper(p.service)))
	}
	return errors.Join(problems...)
}

// ErrOwner is a login that serves although it owns the tables: who has its password can take off what makes a table append-only.
var ErrOwner = errors.New("postgres: the login that serves owns the tables")

// sqlOwns is true of a superuser, too.
const sqlOwns = `select current_user::text, current_database()::text, coalesce(bool_or(pg_has_role(relowner, 'USAGE')), false),
    current_setting('server_version_num')::int
from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`

// Apart is nil when the login cannot change the schema; an ErrOwner has the statements that make one that cannot. Serving as the owner
// works, as it did before there were two.
func (p *Pool) Apart(ctx context.Context) error {
	var me, database string
	var owns bool
	var version int
	if err := p.QueryRow(AcrossOrganisations(ctx), sqlOwns).Scan(&me, &database, &owns, &version); err != nil {
		return fmt.Errorf("postgres: look at the owner of the tables: %w", err)
	}
	if !owns {
		return nil
	}
	roles, serves := RolesOf(p.service), quote(p.service+"_serve")
	option := ""
	if version >= grantOptions {
		option = " with inherit true, set true"
	}
	return fmt.Errorf("%w: run once as an administrator of the server: create role %s login nosuperuser nocreatedb nocreaterole "+
		"password '...'; grant %s, %s to %s%s; grant connect on database %s to %s; then give its URL as "+
		"%[8]s_DATABASE_URL, and that of %[9]s as %[8]s_DATABASE_MIGRATE_URL",
		ErrOwner, serves, quote(roles.Tenant), quote(roles.Worker), serves, option, quote(database), serves,
		strings.ToUpper(p.service), me)
}

// unset returns the statements that give the login the timeouts that it does not have.
func (p *Pool) unset(me login) string {
	wanted := p.timeouts.settings()
	var statements []string
	for _, setting := range []struct{ name, value string }{
		{"statement_timeout", me.Statement}, {"lock_timeout", me.Lock}, {"idle_in_transaction_session_timeout", me.Idle},
	} {
		if value, ours := wanted[setting.name]; ours && setting.value == "0" {
			statements = append(statements, fmt.Sprintf("alter role %s set %s = %d;", quote(me.Name), setting.name, value))
		}
	}
	return strings.Join(statements, " ")
}
