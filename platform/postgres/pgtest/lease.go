package pgtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/platform/postgres"
)

// lease is a migrated database that tests use one after the other, with its backends.
type lease struct {
	server   *server
	template string
	name     string
	cleaner  *pgx.Conn // as superuser, without triggers and foreign keys
	look     string    // the statement that reads what there is
	pristine map[string]string

	mu    sync.Mutex
	idle  map[string][]*backend      // by login
	pools map[string]*pgxpool.Config // by login
}

// The keys of what a lease looks at.
const (
	keySchema   = "schema"
	keyTable    = "table "
	keyRows     = " has" // after a table that the migrations fill
	keySequence = "sequence "
)

// sqlSchema changes with every object of a database that its owner can make, change or analyze.
const sqlSchema = `
select string_agg(c || ' ' || x, ',') || (select count(*) from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
    where datname = current_database()) from (
    select count(*) c, coalesce(max(xmin::text::bigint), 0) x from pg_class where oid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_attribute where attrelid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_index where indexrelid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_type where oid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_proc where oid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_constraint where oid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_rewrite where oid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_statistic where starelid >= 16384 union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_attrdef union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_trigger union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_policy union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_sequence union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_enum union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_namespace union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_extension union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_publication union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_default_acl union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_largeobject_metadata union all
    select count(*), coalesce(max(xmin::text::bigint), 0) from pg_depend) p`

// sqlState reads the schema, the sizes that the planner knows, the tables that have pages, and how far the sequences are.
const sqlState = `
select '` + keySchema + `', (` + sqlSchema + `) union all
select 'sizes', sum(reltuples) || ' ' || sum(relpages) from pg_class where oid >= 16384 and relkind in ('r', 't', 'm') union all
select '` + keyTable + `' || oid::regclass, case when pg_relation_size(oid) > 0 then 'filled' else '' end from pg_class
where oid >= 16384 and relkind = 'r' and relnamespace::regnamespace::text !~ '^pg_' union all
select '` + keySequence + `' || seqrelid::regclass, coalesce(pg_sequence_last_value(seqrelid)::text, '') from pg_sequence`

// sqlOthers counts the connections that the test has left open, or that are about to end.
const sqlOthers = `
select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid() and pid <> all($1::int[])`

const sqlRestart = `select setval(seqrelid::regclass, coalesce(nullif($2, '')::bigint, seqstart), $2 <> '')
from pg_sequence where seqrelid = $1::regclass`

// lease returns an idle database of the template, or makes one.
func (s *server) lease(ctx context.Context, m postgres.Migrations) (*lease, error) {
	template, err := s.template(ctx, m)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if n := len(s.idle[template]); n > 0 {
		l := s.idle[template][n-1]
		s.idle[template] = s.idle[template][:n-1]
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	l := &lease{server: s, template: template, name: newName(), idle: map[string][]*backend{}, pools: map[string]*pgxpool.Config{}}
	if err := s.clone(ctx, template, l.name); err != nil {
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		return nil, fmt.Errorf("pgtest: open %s: %w", l.name, err)
	}
	return l, nil
}

func (l *lease) open(ctx context.Context) (err error) {
	admin := *l.server.base
	admin.Path = "/" + l.name
	if l.cleaner, err = pgx.Connect(ctx, admin.String()); err != nil {
		return err
	}
	if _, err = l.cleaner.Exec(ctx, "set session_replication_role = replica; set jit = off"); err != nil {
		return err
	}
	l.look = sqlState
	if l.pristine, err = l.state(ctx); err != nil {
		return err
	}
	for key, value := range l.pristine {
		if table, is := strings.CutPrefix(key, keyTable); is && value != "" {
			l.look += " union all select '" + key + keyRows + "', json_agg(t)::text from " + table + " t"
		}
	}
	l.pristine, err = l.state(ctx)
	return err
}

// state reads what there is in the database.
func (l *lease) state(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	rows, _ := l.cleaner.Query(ctx, l.look) // ForEachRow returns the error that rows carry
	var key string
	var value *string
	_, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		if value != nil {
			found[key] = *value
		}
		return nil
	})
	return found, err
}

// pool opens a pool on the backends of the lease, for as long as the test runs.
func (l *lease) pool(tb testing.TB, login string) *pgxpool.Pool {
	tb.Helper()
	l.mu.Lock()
	cfg := l.pools[login]
	l.mu.Unlock()
	if cfg == nil {
		pool, err := postgres.Open(tb.Context(), postgres.Config{URL: l.server.url(l.name, login)})
		check(tb, err)
		cfg = pool.Config()
		pool.Close()
		cfg.ConnConfig.DialFunc = l.dialer(login)
		l.mu.Lock()
		l.pools[login] = cfg
		l.mu.Unlock()
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg.Copy())
	check(tb, err)
	tb.Cleanup(pool.Close)
	check(tb, pool.Ping(tb.Context()))
	return pool
}

// release makes the database as new for the next test, or drops it when a test has failed in it, changed its schema or left something
// running.
func (l *lease) release(ctx context.Context, failed bool) error {
	if !failed && l.clean(ctx) == nil {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		l.server.idle[l.template] = append(l.server.idle[l.template], l)
		return nil
	}
	l.close(ctx)
	return l.server.drop(ctx, l.name)
}

// close ends the connections of the lease.
func (l *lease) close(ctx context.Context) {
	for _, backends := range l.idle {
		for _, b := range backends {
			_ = b.Close() // the server notices
		}
	}
	_ = l.cleaner.Close(ctx) // it is closed either way
}

// clean makes the database as the migrations left it, and looks whether it is.
func (l *lease) clean(ctx context.Context) error {
	if err := l.quiet(ctx); err != nil {
		return err
	}
	found, err := l.state(ctx)
	if err != nil {
		return err
	}
	if found[keySchema] != l.pristine[keySchema] {
		return fmt.Errorf("pgtest: the schema of %s is another", l.name)
	}
	var batch pgx.Batch
	if tables := l.changed(found); len(tables) > 0 {
		batch.Queue("truncate " + strings.Join(tables, ", ") + " cascade")
		for _, table := range tables {
			if rows, seeded := l.pristine[keyTable+table+keyRows]; seeded {
				//nolint:unqueryvet // all columns, of a table that only the migrations know
				batch.Queue("insert into "+table+" overriding system value select * from json_populate_recordset(null::"+table+", $1)", rows)
			}
		}
	}
	for key, value := range l.pristine {
		if sequence, is := strings.CutPrefix(key, keySequence); is && found[key] != value {
			batch.Queue(sqlRestart, sequence, value)
		}
	}
	if err := l.cleaner.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if found, err = l.state(ctx); err != nil {
		return err
	}
	l.pristine[keySchema] = found[keySchema] // a truncated table has a new row there
	if !maps.Equal(found, l.pristine) {
		return fmt.Errorf("pgtest: %s is not as new", l.name)
	}
	return nil
}

// changed returns the tables that have other rows than the migrations made, or pages.
func (l *lease) changed(found map[string]string) (tables []string) {
	for key, value := range found {
		if table, is := strings.CutPrefix(key, keyTable); is && value != l.pristine[key] {
			tables = append(tables, strings.TrimSuffix(table, keyRows))
		}
	}
	slices.Sort(tables)
	return slices.Compact(tables)
}

// quiet waits until no connection is open but those that the lease keeps.
func (l *lease) quiet(ctx context.Context) error {
	var pids []int32
	l.mu.Lock()
	for _, backends := range l.idle {
		for _, b := range backends {
			pids = append(pids, b.pid())
		}
	}
	l.mu.Unlock()
	for range quietPolls {
		var others int
		if err := l.cleaner.QueryRow(ctx, sqlOthers, pids).Scan(&others); err != nil {
			return err
		}
		if others == 0 {
			return nil
		}
	}
	return fmt.Errorf("pgtest: %s has connections that its test has not closed", l.name)
}
