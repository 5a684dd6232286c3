package process

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// OnDatabase makes the Look of a check out of what is to be looked at in the database.
type OnDatabase func(look func(context.Context, *postgres.Pool) (string, error)) func(context.Context) (string, error)

// OpenForChecks opens the database of a service once for all checks of it. Where that fails, the first of them says why and the others are
// not made: each would wait as long for the same. A server that falls silent meanwhile is given up.
func OpenForChecks(ctx context.Context, service string, database postgres.Config) (on OnDatabase, closeDatabase func()) {
	database.Watch = slog.New(slog.DiscardHandler)
	pool, failed := postgres.OpenFor(ctx, service, database)
	closeDatabase = func() {}
	if failed == nil {
		closeDatabase = pool.Close
	}
	said := false
	return func(look func(context.Context, *postgres.Pool) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			switch {
			case failed == nil:
				return look(ctx, pool)
			case said:
				return "", AfterDatabase(errors.New("the database cannot be opened"))
			}
			said = true
			return "", failed
		}
	}, closeDatabase
}

// sqlRights lists, for each role that the service works by, what it lacks and on which tables: those of the owner of the schema. Tables
// that are only appended to are not updated, and those that are kept lose no row. Rights on single columns count.
const sqlRights = `
select role || ' has no ' || lacks || ' on ' || string_agg(relname, ', ' order by relname)
from (
    select r.role, c.relname, concat_ws(', ',
        case when not has_table_privilege(r.role, c.oid, 'select') then 'select' end,
        case when not view and not has_any_column_privilege(r.role, c.oid, 'insert') then 'insert' end,
        case when not view and c.relname <> all (@appended) and not has_any_column_privilege(r.role, c.oid, 'update') then 'update' end,
        case when not view and c.relname <> all (@kept) and not has_table_privilege(r.role, c.oid, 'delete') then 'delete' end) as lacks
    from pg_class c, unnest(array[@tenant, current_user]::name[]) r (role), lateral (select c.relkind = 'v' as view) v
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
        and c.relname <> 'goose_db_version' and c.relowner = (select relowner from pg_class where oid = 'goose_db_version'::regclass)
) found
where lacks <> '' group by role, lacks order by role, lacks`

// LookAtRights is a Look at whether a service may use its tables, as it may not after a restore without rights: every call that needs one
// fails. appended are the tables of which it may change no row, kept those of which it may delete none.
func LookAtRights(ctx context.Context, pool *postgres.Pool, service string, appended, kept []string) (string, error) {
	rows, _ := pool.Query(ctx, sqlRights, postgres.Args{ // CollectRows returns the error that rows carry
		"tenant": postgres.RolesOf(service).Tenant, "appended": appended, "kept": kept,
	})
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", AfterDatabase(err)
	}
	if len(missing) > 0 {
		return "", errors.New(strings.Join(missing, "; "))
	}
	return "the roles may use every table", nil
}
