package pgtest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
)

// Tenants describes the database that CheckTenants checks, and the rows that it is to find.
type Tenants struct {
	URL     string // of a database that holds at least one row of either organisation in every table, see New
	Service string // the service of the roles
	// Rows counts the rows of a table that belong to an organisation, read as the owner: a condition on the table, with the
	// organisation as $1. Tables that are not named have a column org_id.
	Rows map[string]string
	// Shared are tables that belong to no organisation: the tenant sees nothing of them.
	Shared []string
	Orgs   [2]string
	// People are two persons of the first organisation, for a schema that bounds a user's call to its person. Such a call sees no row of
	// any table but of those in Person and Open.
	People []string
	// Person counts the rows of a table that belong to a person, as Rows does, with the profile as $1.
	Person map[string]string
	// ReadOnly lists the tables of Person in which a person makes and changes nothing.
	ReadOnly []string
	// The service cannot change the rows of tables in AppendOnly, nor delete the rows of those in Kept.
	AppendOnly, Kept []string
	// Open are tables without a person, which a user's call sees as far as its organisation goes.
	Open []string
}

const sqlTables = `
select c.relname, c.relrowsecurity, c.relforcerowsecurity from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'goose_db_version'
order by c.relname`

// sqlOwnersViews are views that have the rights of their owner, who sees all. Those of an extension are not ours.
const sqlOwnersViews = `relnamespace = 'public'::regnamespace and relkind = 'v'
    and 'security_invoker=true' <> all(coalesce(reloptions, array[]::text[]))
    and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e')`

// CheckTenants fails unless row-level security holds for every table of the database: it is forced, the tenant sees, locks and makes
// the rows of its organisation alone, who names no organisation sees none, a person theirs, and the worker sees all. Its cases carry the
// given name.
func CheckTenants(t *testing.T, name string, about Tenants) {
	t.Helper()
	scoped, err := postgres.OpenFor(t.Context(), about.Service, postgres.Config{URL: about.URL})
	require.NoError(t, err)
	t.Cleanup(scoped.Close)
	owner, err := postgres.Open(t.Context(), postgres.Config{URL: OwnerURL(t, about.URL), MaxConns: 1})
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	rows, err := owner.Query(t.Context(), sqlTables)
	require.NoError(t, err)
	type table struct {
		Name           string
		Secure, Forced bool
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, found := range tables {
		t.Run(name+"_"+found.Name, func(t *testing.T) {
			t.Parallel()
			require.True(t, found.Secure && found.Forced, "row-level security is not forced: give the table its policies in a migration")
			about.checkGrants(t, owner, found.Name)
			if slices.Contains(about.Shared, found.Name) {
				requireDenied(t, scoped, found.Name, about.Orgs[0])
				return
			}
			about.check(t, owner, scoped, found.Name)
			if len(about.People) > 0 && !slices.Contains(about.Open, found.Name) {
				about.checkPerson(t, owner, scoped, found.Name)
			}
		})
	}
	t.Run(name+"_Views", func(t *testing.T) {
		t.Parallel()
		require.Zero(t, count(t.Context(), t, owner, "pg_class", sqlOwnersViews), "create the view with (security_invoker = true)")
	})
}

// sqlGrants reads the rights of the two roles of a service on a table.
const sqlGrants = `
select bool_and(has_table_privilege(r, @table, 'select')), bool_and(has_any_column_privilege(r, @table, 'insert')),
    bool_or(has_any_column_privilege(r, @table, 'update')), bool_or(has_table_privilege(r, @table, 'delete')),
    bool_or(has_table_privilege(r, @table, 'truncate') or has_table_privilege(r, @table, 'trigger')),
    bool_or(exists (select from pg_attribute a where a.attrelid = @table::regclass and a.attidentity <> ''
        and has_column_privilege(r, a.attrelid, a.attnum, 'insert')))
from unnest(array[@tenant, @worker]) r`

// sqlMade are the columns that a tenant may write of a new row.
const sqlMade = `
select string_agg(quote_ident(a.attname), ', ') from pg_attribute a
where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped and has_column_privilege($2, a.attrelid, a.attnum, 'insert')`

// checkGrants is about the login that serves, which has no more than the two roles have.
func (about Tenants) checkGrants(t *testing.T, owner postgres.DB, table string) {
	t.Helper()
	var reads, adds, changes, deletes, more, numbers bool
	roles := postgres.RolesOf(about.Service)
	require.NoError(t, owner.QueryRow(t.Context(), sqlGrants, postgres.Args{
		"table": quoted(table), "tenant": roles.Tenant, "worker": roles.Worker,
	}).Scan(&reads, &adds, &changes, &deletes, &more, &numbers))
	require.True(t, reads && adds, "grant the two roles what they need of the table in a migration")
	require.Equal(t, !slices.Contains(about.AppendOnly, table), changes, "what is appended only is not changed")
	require.Equal(t, !slices.Contains(about.Kept, table), deletes, "what is kept is not deleted")
	require.False(t, more)
	if slices.Contains(about.AppendOnly, table) {
		require.False(t, numbers, "the number of what is appended is the database's: grant INSERT of the other columns")
	}
}

// requireDenied is for a table that tenants have no policy on.
func requireDenied(t *testing.T, scoped postgres.DB, table, org string) {
	t.Helper()
	require.Zero(t, count(postgres.ForOrganisation(t.Context(), org), t, scoped, table, ""))
}

func (about Tenants) check(t *testing.T, owner, scoped postgres.DB, table string) {
	t.Helper()
	where := about.Rows[table]
	if where == "" {
		where = "org_id = $1"
	}
	all := 0
	for i, org := range about.Orgs {
		own := count(t.Context(), t, owner, table, where, org)
		require.Positive(t, own, "the test holds no row of organisation %d", i)
		all += own
		ctx := postgres.ForOrganisation(t.Context(), org)
		require.Equal(t, own, count(ctx, t, scoped, table, ""), "the tenant sees its own rows alone")
		require.Zero(t, count(ctx, t, scoped, table, where, about.Orgs[1-i]), "and none of the other's")
		if !slices.Contains(about.AppendOnly, table) { // where it can lock none at all
			tag, err := scoped.Exec(ctx, "select from "+quoted(table)+" where "+where+" for update", about.Orgs[1-i])
			require.NoError(t, err)
			require.Zero(t, tag.RowsAffected(), "nor can it lock one")
		}
		about.cannotForge(ctx, t, owner, scoped, table, where, about.Orgs[1-i])
	}
	require.GreaterOrEqual(t, count(postgres.AcrossOrganisations(t.Context()), t, scoped, table, ""), all, "the worker sees all")
	require.Zero(t, count(t.Context(), t, scoped, table, ""), "who names no organisation sees nothing")
	require.Zero(t, count(postgres.ForOrganisation(t.Context(), ""), t, scoped, table, ""), "nor does an empty one")
}

// checkPerson is about a user's call: it sees, locks and makes the rows of its person alone, and none where there are none of a person.
func (about Tenants) checkPerson(t *testing.T, owner, scoped postgres.DB, table string) {
	t.Helper()
	where, persons := about.Person[table]
	for i, person := range about.People {
		own := 0
		if persons {
			own = count(t.Context(), t, owner, table, where, person)
			require.Positive(t, own, "the test holds no row of person %d", i)
		}
		id := uuid.MustParse(person)
		ctx, elsewhere := postgres.ForProfile(t.Context(), about.Orgs[0], id), postgres.ForProfile(t.Context(), about.Orgs[1], id)
		require.Equal(t, own, count(ctx, t, scoped, table, ""), "a person sees their own rows alone")
		require.Zero(t, count(elsewhere, t, scoped, table, ""), "and only in their organisation")
		if slices.Contains(about.ReadOnly, table) {
			own = 0
		}
		if !slices.Contains(about.AppendOnly, table) {
			tag, err := scoped.Exec(ctx, "select from "+quoted(table)+" for update")
			require.NoError(t, err)
			require.EqualValues(t, own, tag.RowsAffected(), "and changes no other")
		}
		if persons {
			about.cannotForge(ctx, t, owner, scoped, table, where, about.People[1-i])
		}
		if own == 0 { // not even their own row, or one of their organisation
			mine, of := where, person
			if !persons {
				mine, of = cmp.Or(about.Rows[table], "org_id = $1"), about.Orgs[0]
			}
			about.cannotForge(ctx, t, owner, scoped, table, mine, of)
		}
	}
	require.Zero(t, count(postgres.ForProfile(t.Context(), about.Orgs[0], uuid.Nil), t, scoped, table, ""), "who is no profile sees nothing")
}

// cannotForge checks that the scope cannot insert a copy of a row of other, which is an organisation or a person.
func (about Tenants) cannotForge(ctx context.Context, t *testing.T, owner, scoped postgres.DB, table, where, other string) {
	t.Helper()
	var row json.RawMessage
	var made string
	name := quoted(table)
	require.NoError(t, owner.QueryRow(t.Context(), sqlMade, name, postgres.RolesOf(about.Service).Tenant).Scan(&made))
	read := "select to_json(" + name + ") from " + name + " where " + where + " limit 1"
	require.NoError(t, owner.QueryRow(t.Context(), read, other).Scan(&row))
	forge := "insert into " + name + " (" + made + ") overriding system value select " + made +
		" from json_populate_record(null::" + name + ", $1)"
	_, err := scoped.Exec(ctx, forge, row)
	require.ErrorContains(t, err, "row-level security", "it cannot make a row that is not its own")
}

func quoted(table string) string { return pgx.Identifier{table}.Sanitize() }

func count(ctx context.Context, t *testing.T, db postgres.DB, table, where string, args ...any) int {
	t.Helper()
	sql := "select count(*) from " + quoted(table)
	if where != "" {
		sql += " where " + where
	}
	var n int
	require.NoError(t, db.QueryRow(ctx, sql, args...).Scan(&n))
	return n
}
