package cells

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
)

// database is a session of the owner of one service's database in one cell. It sees the rows of the organisation through every fence.
type database struct {
	*pgx.Conn

	name    string // such as "onboarding of the target", for errors
	service string
	serving string // URL of the login that serves
	org     uuid.UUID
	tables  []Table
	columns map[string][]column
}

// column is one of a table that can be written.
type column struct {
	Table, Name, Type string
	Key               bool // of the primary key
}

// sqlSession makes texts of values the same on both sides, and lifts what bounds statements of the services.
const sqlSession = `
select set_config('app.moving', $1, false), set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false),
    set_config('IntervalStyle', 'postgres', false), set_config('bytea_output', 'hex', false), set_config('extra_float_digits', '1', false),
    set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
    set_config('idle_in_transaction_session_timeout', '0', false), set_config('search_path', 'public', false)`

const sqlColumns = `
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), coalesce(a.attnum = any (k.conkey), false)
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'goose_db_version'
order by c.relname, a.attnum`

// connect opens a session; environ is that of the cell.
func connect(ctx context.Context, cell, service string, environ map[string]string, org uuid.UUID) (*database, error) {
	prefix := strings.ToUpper(service)
	d := &database{
		name: service + " of the " + cell, service: service, serving: environ[prefix+"_DATABASE_URL"], org: org, tables: tablesOf(service),
		columns: map[string][]column{},
	}
	owner := cmp.Or(environ[prefix+"_DATABASE_MIGRATE_URL"], environ[prefix+"_DATABASE_DIRECT_URL"], d.serving)
	if owner == "" {
		return nil, fmt.Errorf("the environment of the %s has no %s_DATABASE_MIGRATE_URL", cell, prefix)
	}
	var err error
	if d.Conn, err = postgres.Connect(ctx, owner); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.name, err)
	}
	if _, err := d.Exec(ctx, sqlSession, org.String()); err != nil {
		return nil, errors.Join(d.wrap("begin a session", err), d.Close(ctx))
	}
	rows, err := d.Query(ctx, sqlColumns)
	if err != nil {
		return nil, errors.Join(d.wrap("read the columns", err), d.Close(ctx))
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		return nil, errors.Join(d.wrap("read the columns", err), d.Close(ctx))
	}
	for _, c := range all {
		d.columns[c.Table] = append(d.columns[c.Table], c)
	}
	return d, nil
}

func tablesOf(service string) []Table {
	if service == "onboarding" {
		return Onboarding()
	}
	return Messaging()
}

func (d *database) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", d.name, what, err)
}

// one reads one row.
func (d *database) one(ctx context.Context, what, sql string, args []any, into ...any) error {
	return d.wrap(what, d.QueryRow(ctx, sql, args...).Scan(into...))
}

// errReplicaRole names the statement that an administrator has to run once.
var errReplicaRole = errors.New("rows are written as a replica writes them, without triggers that would act on them a second time, and " +
	"this login may not: as an administrator of the server run\n  grant set on parameter session_replication_role to ")

// asReplica has no trigger fire, and no foreign key be checked: all rows come from a database that has checked them.
func (d *database) asReplica(ctx context.Context) error {
	_, err := d.Exec(ctx, `set session_replication_role = replica`)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
		return fmt.Errorf("%s: %w%s", d.name, errReplicaRole, pgx.Identifier{d.Config().User}.Sanitize())
	}
	return d.wrap("write as a replica", err)
}

// check refuses a database that this program does not know well enough.
func (d *database) check(ctx context.Context) error {
	var version int
	if err := d.one(ctx, "read its version", `select current_setting('server_version_num')::int`, nil, &version); err != nil {
		return err
	}
	if version < 150000 {
		return fmt.Errorf("%s: PostgreSQL 15 or newer is needed", d.name)
	}
	stays := OnboardingStays()
	if d.service == "messaging" {
		stays = MessagingStays()
	}
	known := map[string]bool{}
	for _, t := range d.tables {
		known[t.Name] = true
		if len(d.columns[t.Name]) == 0 {
			return fmt.Errorf("%s: there is no table %s: is its schema of this release?", d.name, t.Name)
		}
	}
	for name := range d.columns {
		if _, stays := stays[name]; !stays && !known[name] {
			return fmt.Errorf("%s: this program does not know the table %s: is it older than the schema?", d.name, name)
		}
	}
	return nil
}

// checkFenced fails unless the login that serves is bound by the policies, and sees nothing of the organisation.
func (d *database) checkFenced(ctx context.Context) (err error) {
	conn, err := postgres.Connect(ctx, d.serving)
	if err != nil {
		return d.wrap("connect as the login that serves", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	table := "sms_messages"
	if d.service == "onboarding" {
		table = "profiles"
	}
	sql := `select (select rolsuper or rolbypassrls from pg_roles where rolname = current_user),
		(select count(*) from ` + table + ` where org_id = $1)`
	var bypasses bool
	var seen int
	if err := conn.QueryRow(ctx, sql, d.org).Scan(&bypasses, &seen); err != nil {
		return d.wrap("look as the login that serves", err)
	}
	if bypasses || seen > 0 {
		return fmt.Errorf("%s: row security does not bind the login that serves: it must not be a superuser (docs/deploy.md, "+
			"A database of your own)", d.name)
	}
	return nil
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
