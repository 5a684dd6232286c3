package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// countStatements has the private server count statements, if it can, once setTracking has turned that on.
func (s *server) countStatements(ctx context.Context) error {
	if err := queryRow(ctx, s.url, `select exists (select from pg_available_extensions where name = 'pg_stat_statements')`,
		&s.counts); err != nil || !s.counts {
		return err
	}
	if err := s.exec(ctx, "alter system set shared_preload_libraries = 'pg_stat_statements'"); err != nil {
		return err
	}
	if err := s.private.Stop(ctx); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	return errors.Join(s.exec(ctx, "create extension if not exists pg_stat_statements"), s.setTracking(ctx, "none"))
}

// setTracking turns the counting of statements on ("top") or off ("none").
func (s *server) setTracking(ctx context.Context, level string) error {
	if !s.counts {
		return nil
	}
	return s.exec(ctx, "alter system set pg_stat_statements.track = '"+level+"'", "select pg_reload_conf()")
}

func (s *server) forgetStatements(ctx context.Context) error {
	if !s.counts {
		return nil
	}
	return s.exec(ctx, "select pg_stat_statements_reset()")
}

const sqlStatements = `
select s.calls, s.query from pg_stat_statements s join pg_database d on d.oid = s.dbid
where d.datname = $1 and s.toplevel and s.calls * 10 >= $2 order by s.calls desc, s.query`

// statements are those of the services that at least every tenth of n steps made; none when the server cannot count them.
func (s *server) statements(ctx context.Context, urls map[string]string, n int) (_ []StepStatement, err error) {
	if !s.counts {
		return nil, nil
	}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var all []StepStatement
	for _, service := range databasesOf() {
		cfg, err := pgx.ParseConfig(urls[service])
		if err != nil {
			return nil, errors.New("the database URL cannot be parsed") // the cause quotes it
		}
		rows, _ := conn.Query(ctx, sqlStatements, cfg.Database, n) // Collect returns the error that rows carry
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (StepStatement, error) {
			var calls int64
			one := StepStatement{Service: service}
			err := row.Scan(&calls, &one.SQL)
			one.PerStep, one.SQL = float64(calls)/float64(n), strings.Join(strings.Fields(one.SQL), " ")
			return one, err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// pgbenchSeconds is how long pgbench runs in a round.
const pgbenchSeconds = 3

// The least that a step can ask of a database: read the session, claim the message, record what Twilio answered, and in one transaction
// move the session and set the next alarm.
const (
	sqlPgbenchTables = `
create table if not exists session (id integer primary key, token text not null, step integer not null, updated_at timestamptz not null);
create table if not exists message (id uuid primary key default gen_random_uuid(), key text not null unique, body text not null,
    status text not null, sid text unique, updated_at timestamptz not null);
create table if not exists alarm (id uuid primary key default gen_random_uuid(), session integer not null references session (id),
    step integer not null, due_at timestamptz not null, unique (session, step));
truncate session, message, alarm;
insert into session select n, 'awaiting_burst', 0, now() from generate_series(1, 100000) n`
	pgbenchStep = `\set id random(1, 100000)
select token, step from session where id = :id \gset
insert into message (key, body, status, updated_at) values (:id || ':' || :step, repeat('x', 120), 'sending', now())
    on conflict (key) do nothing;
update message set status = 'queued', sid = 'SM' || md5(:id || ':' || :step), updated_at = now() where key = :id || ':' || :step;
begin;
update session set step = :step + 1, updated_at = now() where id = :id and step = :step;
insert into alarm (session, step, due_at) values (:id, :step + 1, now()) on conflict (session, step) do nothing;
commit;
`
)

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// pgbench is how many such steps a second the server's own pgbench does with as many connections as one service has; zero where
// there is no pgbench.
func (s *server) pgbench(ctx context.Context, seconds int) (float64, error) {
	var bin string
	if err := queryRow(ctx, s.url, `select setting from pg_config where name = 'BINDIR'`, &bin); err != nil {
		return 0, err
	}
	program, err := exec.LookPath(filepath.Join(bin, "pgbench"))
	if err != nil {
		return 0, nil //nolint:nilerr // it is a package of its own on some systems
	}
	if err := s.exec(ctx, append(strings.Split(sqlPgbenchTables, ";"), "vacuum analyze session", "checkpoint")...); err != nil {
		return 0, err
	}
	script := filepath.Join(s.dir, "step.sql")
	if err := os.WriteFile(script, []byte(pgbenchStep), 0o600); err != nil {
		return 0, err
	}
	socket, err := socketOf(s.url)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, program,
		"-n", "-M", "prepared", "-c", "8", "-j", "2", "-T", strconv.Itoa(seconds), "-f", script,
		"-h", filepath.Dir(socket), "-U", "postgres", "postgres")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench said nothing of its rate: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
