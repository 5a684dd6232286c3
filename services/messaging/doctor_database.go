package messaging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/consent"
)

// onDatabase makes the Look of a check out of what is to be looked at in the database.
type onDatabase func(look func(context.Context, *postgres.Pool) (string, error)) func(context.Context) (string, error)

// openForChecks opens the database once for all checks of it. Where that fails, the first of them says why and the others are not made:
// each would wait as long for the same. A server that falls silent meanwhile is given up.
func openForChecks(ctx context.Context, cfg Config) (on onDatabase, closeDatabase func()) {
	database := cfg.database()
	database.Watch = slog.New(slog.DiscardHandler)
	pool, failed := postgres.OpenFor(ctx, name, database)
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
				return "", process.AfterDatabase(errors.New("the database cannot be opened"))
			}
			said = true
			return "", failed
		}
	}, closeDatabase
}

// sqlOtherKey counts the organisations that have erased people under another key: no claim texts new people.
const sqlOtherKey = `select count(distinct org_id) from suppressions where key_id <> $1`

// lookAtErasure looks at whether people can be erased, and whether those that were are found: a claim refuses what this refuses.
func lookAtErasure(ctx context.Context, cfg Config, pool *postgres.Pool) (string, error) {
	var organisations int
	key := consent.NewPseudonyms(cfg.PseudonymKey.Reveal())
	if err := pool.QueryRow(ctx, sqlOtherKey, key.KeyID()).Scan(&organisations); err != nil {
		return "", process.AfterDatabase(err)
	}
	switch {
	case organisations > 0:
		return "", process.Mend("give messaging the PSEUDONYM_KEY that it had, from where the backups are kept; docs/security-and-privacy.md",
			fmt.Errorf("PSEUDONYM_KEY is not the key under which people of %d organisations were erased: their STOP is not found, so "+
				"nothing is sent to new people of these organisations", organisations))
	case !key.Known():
		return "", process.Warn("PSEUDONYM_KEY is not set: no person can be erased, for their STOP would be forgotten with them")
	}
	return "people can be erased, and their STOP outlasts it", nil
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

// The tables of which the roles may not change rows, and those of which they may not delete any, as the migrations have it.
var (
	appended = []string{
		"audit", // of which the worker alone changes some columns
		"consent_events", "erased_ledgers", "forgotten_ledgers", "ledger_anchors", "sms_looks", "sms_receipts",
	}
	keptRows = []string{
		"consent_events", "consents", "erased_ledgers", "forgotten_ledgers", "ledger_anchors", "organisations", "sms_looks", "sms_messages",
	}
)

// lookAtRights finds tables that the service may not use, as after a restore without rights: every call that needs them fails.
func lookAtRights(ctx context.Context, pool *postgres.Pool) (string, error) {
	if err := Migrations().Ready(ctx, pool); err != nil {
		return "", process.AfterDatabase(err)
	}
	rows, _ := pool.Query(ctx, sqlRights, postgres.Args{ // CollectRows returns the error that rows carry
		"tenant": postgres.RolesOf(name).Tenant, "appended": appended, "kept": keptRows,
	})
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", process.AfterDatabase(err)
	}
	if len(missing) > 0 {
		return "", errors.New(strings.Join(missing, "; "))
	}
	return "the roles may use every table", nil
}
