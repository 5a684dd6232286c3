package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"paceline.internal/deploy/stack"
)

// pgbenchClients is as many connections as both services have.
const pgbenchClients = 16

// errNoPgbench is a server without pgbench or pg_dump, which some systems have in packages of their own.
var errNoPgbench = errors.New("there is no pgbench")

// yardstick is pgbench, which does the product's own statements, as the services sent them, one step after the other on each connection.
type yardstick struct {
	server   *server
	bin      string
	script   string
	database string
}

// newYardstick makes a database with the tables of both services, and a script of what one step asks: the transactions of the
// most common kind of step among those that were recorded.
func (s *server) newYardstick(ctx context.Context, t *tape, templates map[string]string) (*yardstick, error) {
	y := &yardstick{server: s, script: filepath.Join(s.dir, "step.sql"), database: "pgbench_template"}
	if err := queryRow(ctx, s.url, `select setting from pg_config where name = 'BINDIR'`, &y.bin); err != nil {
		return nil, err
	}
	for _, program := range []string{"pgbench", "pg_dump", "psql"} {
		if _, err := exec.LookPath(filepath.Join(y.bin, program)); err != nil {
			return nil, errNoPgbench
		}
	}
	step := t.typical()
	if len(step) == 0 {
		return nil, errors.New("no step was recorded")
	}
	if err := s.exec(ctx, "create database "+y.database+" template "+pgx.Identifier{templates["onboarding"]}.Sanitize()); err != nil {
		return nil, err
	}
	if err := y.graft(ctx, templates["messaging"]); err != nil {
		return nil, err
	}
	if err := s.exec(ctx, "alter database "+y.database+" set search_path = public, "+grafted); err != nil { // of it, and not of its copies
		return nil, err
	}
	return y, y.write(ctx, step)
}

// grafted is the schema of the tables of messaging: both services have some of the same name, such as event_outbox.
const grafted = "messaging"

// graft puts the tables of a database beside those that are there, in a schema of their own.
func (y *yardstick) graft(ctx context.Context, from string) error {
	dump := filepath.Join(y.server.dir, "graft.sql")
	socket, err := socketOf(y.server.url)
	if err != nil {
		return err
	}
	at := []string{"-h", filepath.Dir(socket), "-U", "postgres"}
	fill := exec.CommandContext(ctx, filepath.Join(y.bin, "pg_dump"), append(at, "-f", dump, from)...) //nolint:gosec // of the server's folder
	if out, err := fill.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_dump: %w: %s", err, out)
	}
	text, err := os.ReadFile(dump)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`\bpublic\b`).ReplaceAll(text, []byte(grafted))
	if err := os.WriteFile(dump, text, 0o600); err != nil { //nolint:gosec // G703: of the server's folder
		return err
	}
	pour := exec.CommandContext(ctx, filepath.Join(y.bin, "psql"), //nolint:gosec // as above
		append(at, "-q", "-o", os.DevNull, "-c", "create schema "+grafted, "-f", dump, y.database)...)
	if out, err := pour.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, out)
	}
	return nil
}

// typical are the units of the step whose kind is the most common: those that name the same session or message, with the same statements.
func (t *tape) typical() []unit {
	kinds := map[string][][]unit{}
	for _, chain := range t.chains() {
		var kind strings.Builder
		for _, u := range chain {
			for _, b := range u.statements {
				kind.WriteString(b.sql)
			}
		}
		if !strings.Contains(kind.String(), "update conversation_sessions") {
			continue // a loop that looks for work, not a step
		}
		kinds[kind.String()] = append(kinds[kind.String()], chain)
	}
	var best [][]unit
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if len(kinds[kind]) > len(best) {
			best = kinds[kind]
		}
	}
	if len(best) == 0 {
		return nil
	}
	return best[0]
}

// chains are the units of each step, which name a session, a message or an alarm that another one of them names too. The organisation does
// not count: all of them name it.
func (t *tape) chains() [][]unit {
	of := map[string]int{stack.OrgID: -1}
	var all [][]unit
	for _, u := range t.units {
		named := map[string]bool{}
		for _, b := range u.statements {
			for _, p := range b.parameters {
				for _, id := range p.ids() {
					named[id] = true
				}
			}
		}
		at := -1
		for id := range named {
			if known, ok := of[id]; ok && known >= 0 {
				at = known
			}
		}
		if at < 0 {
			at, all = len(all), append(all, nil)
		}
		all[at] = append(all[at], u)
		for id := range named {
			if _, ok := of[id]; !ok {
				of[id] = at
			}
		}
	}
	return all
}

var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// ids are the UUIDs in a parameter, in either of their forms, or in a binary array of one dimension.
func (p parameter) ids() (ids []string) {
	const head = 20 // dimensions, flags, type, length, lower bound
	if p.binary && len(p.bytes) > head && binary.BigEndian.Uint32(p.bytes) == 1 && binary.BigEndian.Uint32(p.bytes[8:]) == pgtype.UUIDOID {
		for at := head; at+4+16 <= len(p.bytes); at += 4 + 16 {
			if binary.BigEndian.Uint32(p.bytes[at:]) != 16 {
				break // null
			}
			if id, err := uuid.FromBytes(p.bytes[at+4 : at+4+16]); err == nil {
				ids = append(ids, id.String())
			}
		}
		return ids
	}
	if p.binary && len(p.bytes) == 16 {
		if id, err := uuid.FromBytes(p.bytes); err == nil && id.Variant() == uuid.RFC4122 { // which no string of sixteen letters has
			return []string{id.String()}
		}
	}
	return anID.FindAllString(string(p.bytes), -1)
}

// What makes the step that was recorded one of many: a view that gives the parameters of the next step. Session, person and phone are those
// of a session that is at the same step; every other id is new.
const (
	sqlRecorded = `select s.profile_id::text, p.phone, s.next_step_id from conversation_sessions s join profiles p on p.id = s.profile_id
where s.id = $1`
	sqlPgbenchSteps = `
create sequence pgbench_next;
create table pgbench_steps as
select row_number() over (order by s.id) as n, s.id::text as session, s.profile_id::text as person, p.phone
from conversation_sessions s join profiles p on p.id = s.profile_id where s.status = 'active';
create unique index on pgbench_steps (n);
update conversation_sessions set next_step_id = '%[1]s' where next_step_id is not null;
update step_alarms set step_id = '%[1]s';
create view pgbench_step as
with next as materialized (select nextval('pgbench_next') as n, %[2]s)
select %[3]s from next join pgbench_steps d using (n);
vacuum analyze`
)

// write writes the script, and what gives it the parameters of each step.
func (y *yardstick) write(ctx context.Context, step []unit) (err error) {
	conn, err := pgx.Connect(ctx, y.server.urlOf(y.database, "postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	w := scribe{conn: conn, fresh: map[string]string{}}
	if err := w.recorded(ctx, step); err != nil {
		return err
	}
	for _, u := range step {
		if err := w.unit(ctx, u); err != nil {
			return err
		}
	}
	fresh := make([]string, len(w.fresh))
	for i := range fresh {
		fresh[i] = fmt.Sprintf("gen_random_uuid()::text as id_%d", i)
	}
	sql := fmt.Sprintf(sqlPgbenchSteps, w.step, strings.Join(fresh, ", "), strings.Join(w.columns, ", "))
	for statement := range strings.SplitSeq(sql, ";\n") {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return os.WriteFile(y.script, []byte("table pgbench_step \\gset\n"+w.script.String()), 0o600)
}

// scribe writes a recorded step down with variables for its parameters.
type scribe struct {
	conn                         *pgx.Conn
	session, person, phone, step string            // of the recorded step
	fresh                        map[string]string // every other id, and the column that has a new one in its place
	columns                      []string
	script                       strings.Builder
}

// recorded finds out which session the step was of.
func (w *scribe) recorded(ctx context.Context, step []unit) error {
	for _, u := range step {
		for _, b := range u.statements {
			for _, p := range b.parameters {
				for _, id := range p.ids() {
					err := w.conn.QueryRow(ctx, sqlRecorded, id).Scan(&w.person, &w.phone, &w.step)
					if err == nil {
						w.session = id
						return nil
					}
					if !errors.Is(err, pgx.ErrNoRows) {
						return err
					}
				}
			}
		}
	}
	return errors.New("the recorded step names no session")
}

// unit writes a transaction. One of several statements goes in one round trip, as the services send it.
func (w *scribe) unit(ctx context.Context, u unit) error {
	statements := slices.DeleteFunc(slices.Clone(u.statements), func(b bound) bool {
		return strings.Contains(b.sql, "lock_timeout") // for those who share a transaction
	})
	if len(statements) > 1 {
		w.script.WriteString("\\startpipeline\n")
		defer w.script.WriteString("\\endpipeline\n")
	}
	for _, b := range statements {
		known, err := w.conn.Prepare(ctx, "", b.sql)
		if err != nil {
			return fmt.Errorf("%s: %w", b.sql, err)
		}
		sql := strings.Join(strings.Fields(b.sql), " ")
		for i := len(b.parameters); i > 0; i-- { // from behind: $1 is the beginning of $12
			variable := "null"
			if p := b.parameters[i-1]; p.bytes != nil {
				text, err := w.text(ctx, p, known.ParamOIDs[i-1])
				if err != nil {
					return err
				}
				name := "v" + strconv.Itoa(len(w.columns))
				w.columns = append(w.columns, w.general(text)+" as "+name)
				variable = ":" + name
			}
			sql = strings.ReplaceAll(sql, "$"+strconv.Itoa(i), variable)
		}
		w.script.WriteString(sql + ";\n")
	}
	return nil
}

// text is a parameter as text, which the server makes of the binary form.
func (w *scribe) text(ctx context.Context, p parameter, oid uint32) (string, error) {
	if !p.binary {
		return string(p.bytes), nil
	}
	result := w.conn.PgConn().ExecParams(ctx, "select $1", [][]byte{p.bytes}, []uint32{oid}, []int16{pgx.BinaryFormatCode}, nil).Read()
	if result.Err != nil {
		return "", result.Err
	}
	return string(result.Rows[0][0]), nil
}

var sid = regexp.MustCompile(`SM[0-9a-f]{32}`)

// general is a text of the recorded step as an expression that gives that of another.
func (w *scribe) general(text string) string {
	expression := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	put := func(what, column string) { expression = strings.ReplaceAll(expression, what, "' || "+column+" || '") }
	put(w.session, "d.session")
	put(w.person, "d.person")
	put(w.phone, "d.phone")
	for _, id := range sid.FindAllString(text, -1) {
		put(id, "'SM' || md5(d.session)")
	}
	for _, id := range anID.FindAllString(text, -1) {
		if id == stack.OrgID || id == w.session || id == w.person {
			continue
		}
		if w.fresh[id] == "" {
			w.fresh[id] = "id_" + strconv.Itoa(len(w.fresh))
		}
		put(id, "next."+w.fresh[id])
	}
	return "(" + expression + ")::text"
}

// PgbenchRun is what pgbench did in a round.
type PgbenchRun struct {
	Rate float64 `json:"rate"` // steps a second
	// CPUMicros is what pgbench and Postgres used of a processor for a step.
	CPUMicros float64 `json:"cpu_us"`
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// run has steps done, on a fresh copy of the database. Each of them must have moved its session.
func (y *yardstick) run(ctx context.Context, steps int) (_ PgbenchRun, err error) {
	const name = "pgbench_run"
	if err := y.server.exec(ctx, "create database "+name+" template "+y.database, "checkpoint"); err != nil {
		return PgbenchRun{}, err
	}
	defer func() { err = errors.Join(err, y.server.exec(ctx, "drop database "+name+" with (force)")) }()
	socket, err := socketOf(y.server.url)
	if err != nil {
		return PgbenchRun{}, err
	}
	before, err := y.server.cpu(ctx)
	if err != nil {
		return PgbenchRun{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(y.bin, "pgbench"), "-n", //nolint:gosec // of the server's folder
		"-M", "prepared", "-c", strconv.Itoa(pgbenchClients), "-j", "2",
		"-t", strconv.Itoa(steps/pgbenchClients), "-f", y.script, "-h", filepath.Dir(socket), "-U", "postgres", name)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c enable_seqscan=off -c jit=off -c plan_cache_mode=force_generic_plan"+
		" -c enable_hashjoin=off -c enable_mergejoin=off -c search_path=public,"+grafted) // as the services have it
	out, err := cmd.CombinedOutput()
	if err != nil {
		return PgbenchRun{}, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	after, err := y.server.cpu(ctx)
	if err != nil {
		return PgbenchRun{}, err
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		return PgbenchRun{}, fmt.Errorf("pgbench said nothing of its rate: %s", out)
	}
	rate, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return PgbenchRun{}, err
	}
	var moved int
	if err := queryRow(ctx, y.server.urlOf(name, "postgres"), sqlMoved, &moved); err != nil {
		return PgbenchRun{}, err
	}
	if asked := steps / pgbenchClients * pgbenchClients; moved != asked {
		return PgbenchRun{}, fmt.Errorf("pgbench did %d steps, and %d sessions moved", asked, moved)
	}
	used := after - before + cmd.ProcessState.UserTime().Seconds() + cmd.ProcessState.SystemTime().Seconds()
	return PgbenchRun{Rate: rate, CPUMicros: used * 1e6 / float64(moved)}, nil
}
