package bench

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
)

// BenchmarkCost measures what a piece of work costs, in figures that another load on the machine does not change: WAL by table and by index
// (pg_walinspect), commits, statements (pg_stat_statements; both are in PostgreSQL's contrib), and allocations of the services. Bursts runs
// one process with the database as the alarm clock, the others three processes with QStash's place taken by the bench.
//
// "fpi-B" is the part of "wal-B" that is images of pages: a page has one when it is first written after a checkpoint, and each round begins
// with a checkpoint, so in production there are fewer. "lean-B" is the rest. "commits" are those that write, "syncs"
// counts how often the WAL was written through to the disk for them.
func BenchmarkCost(b *testing.B) {
	s := newServer(b, false, "alter system set shared_preload_libraries = 'pg_stat_statements'")
	s.exec(b, "postgres", "create extension pg_walinspect", "create extension pg_stat_statements")
	s.counts = true
	bursts := numbers(b, *bursts)[0]
	s.seed(b, works["Steps"], bursts+warmBursts)
	b.Run("Bursts", func(b *testing.B) {
		for b.Loop() {
			s.pace(b, wiring{processes: []string{together}, alarms: "postgres"}, bursts, *over, nil).cost.report(b)
		}
	})
	for name, work := range works {
		b.Run(name, func(b *testing.B) {
			all := numbers(b, *callers)
			s.seed(b, work, *steps+warm(max(all[0], all[len(all)-1])))
			for _, callers := range all {
				b.Run(strconv.Itoa(callers), func(b *testing.B) {
					for b.Loop() {
						s.round(b, work, *steps, callers, apart()).cost.report(b)
					}
				})
			}
		})
	}
}

// cost has the database's cost of n pieces of work.
type cost struct {
	n          int
	allocs     float64
	syncs      int64
	wal        []walLine
	statements []statementLine
}

// walLine is the WAL of one relation, or of records that belong to none.
type walLine struct {
	Database, Relation, Record string
	Records, Bytes, Images     int64
}

// upkeep reports whether the server wrote it for itself, such as statistics: how much falls into a round depends on how long that takes.
func (l walLine) upkeep() bool {
	return strings.Contains(l.Relation, "pg_") || l.Database == "" && l.Record != "Transaction COMMIT"
}

// statementLine is one statement of a service.
type statementLine struct {
	Database, SQL string
	Calls, Bytes  int64
}

// sqlWAL names a relation by its database and file, which sqlFiles translates.
const (
	sqlWAL = `
select coalesce(substring(block_ref from 'rel \d+/(\d+)/'), ''), coalesce(substring(block_ref from 'rel \d+/\d+/(\d+)'), ''),
    resource_manager || ' ' || record_type, count(*), sum(record_length), sum(fpi_length)
from pg_get_wal_records_info($1::pg_lsn, $2::pg_lsn) group by 1, 2, 3`
	sqlFiles = `select (select oid::text from pg_database where datname = current_database()), pg_relation_filenode(c.oid)::text,
    coalesce((select t.relname || '.' from pg_index i join pg_class t on t.oid = i.indrelid where i.indexrelid = c.oid), '') || c.relname
from pg_class c where c.relkind in ('r', 'i', 't', 'S', 'm') and pg_relation_filenode(c.oid) is not null`
	sqlStatements = `
select d.datname, s.query, sum(s.calls)::bigint, sum(s.wal_bytes)::bigint from pg_stat_statements s join pg_database d on d.oid = s.dbid
where s.toplevel and d.datname = any ($1) group by 1, 2`
)

// mark is a place in the WAL and in the counters of the services.
type mark struct {
	lsn    string
	allocs float64
	syncs  int64
}

// mark begins to count.
func (s *server) mark(tb testing.TB, p *place) (m mark) {
	tb.Helper()
	m.allocs = p.allocations(tb)
	s.row(tb, "postgres", "select pg_current_wal_insert_lsn()::text, wal_sync from pg_stat_wal, pg_stat_statements_reset()", &m.lsn, &m.syncs)
	return m
}

var allocated = regexp.MustCompile(`(?m)^go_memstats_mallocs_total ([0-9.e+]+)`)

// allocations counts the objects that the services have allocated so far.
func (p *place) allocations(tb testing.TB) (sum float64) {
	tb.Helper()
	for service := range p.pids {
		if service == together {
			service = stack.Gateway // its metrics are those of the process
		}
		_, said, err := p.do(tb.Context(), http.MethodGet, "http://"+p.environ[strings.ToUpper(service)+"_OPS_ADDR"]+"/metrics", "", nil)
		require.NoError(tb, err)
		found := allocated.FindStringSubmatch(said)
		require.NotNil(tb, found, service)
		n, err := strconv.ParseFloat(found[1], 64)
		require.NoError(tb, err)
		sum += n
	}
	return sum
}

// costSince returns what n pieces have cost since a mark.
func (s *server) costSince(tb testing.TB, p *place, databases map[string]string, since mark, n int) *cost {
	tb.Helper()
	c := &cost{n: n, allocs: p.allocations(tb) - since.allocs}
	var until string
	s.row(tb, "postgres", "select pg_current_wal_flush_lsn()::text, wal_sync from pg_stat_wal", &until, &c.syncs)
	c.syncs -= since.syncs
	names, files := map[string]string{}, map[string]string{}
	var all []string
	for service, database := range databases {
		names[database], all = service, append(all, database)
		collect(tb, s, database, sqlFiles, func(row pgx.CollectableRow) error {
			var oid, file, name string
			err := row.Scan(&oid, &file, &name)
			names[oid], files[oid+"/"+file] = service, name
			return err
		})
	}
	collect(tb, s, "postgres", sqlWAL, func(row pgx.CollectableRow) error {
		var line walLine
		err := row.Scan(&line.Database, &line.Relation, &line.Record, &line.Records, &line.Bytes, &line.Images)
		line.Relation = files[line.Database+"/"+line.Relation]
		line.Database = names[line.Database]
		c.wal = append(c.wal, line)
		return err
	}, since.lsn, until)
	collect(tb, s, "postgres", sqlStatements, func(row pgx.CollectableRow) error {
		var line statementLine
		err := row.Scan(&line.Database, &line.SQL, &line.Calls, &line.Bytes)
		line.Database = names[line.Database]
		c.statements = append(c.statements, line)
		return err
	}, all)
	return c
}

// report reports the sums and prints the tables.
func (c *cost) report(b *testing.B) {
	b.Helper()
	each := func(n int64) float64 { return float64(n) / float64(c.n) }
	var bytes, images, commits, statements int64
	relations := map[string]*walLine{}
	for _, line := range c.wal {
		if line.upkeep() {
			continue
		}
		bytes, images = bytes+line.Bytes, images+line.Images
		if line.Record == "Transaction COMMIT" {
			commits += line.Records
		}
		name := strings.TrimSpace(line.Database + " " + line.Relation)
		if !strings.Contains(line.Relation, ".") { // no index: how a table is written is of interest
			name += " (" + line.Record + ")"
		}
		sum := relations[name]
		if sum == nil {
			sum = &walLine{Relation: name}
			relations[name] = sum
		}
		sum.Records, sum.Bytes, sum.Images = sum.Records+line.Records, sum.Bytes+line.Bytes, sum.Images+line.Images
	}
	lines := []string{fmt.Sprintf("%10s %8s %8s  %s", "WAL, B", "lean, B", "records", "relation")}
	for _, name := range ordered(relations, func(l *walLine) int64 { return l.Bytes }) {
		l := relations[name]
		if each(l.Bytes) < 1 {
			continue
		}
		lines = append(lines, fmt.Sprintf("%10.0f %8.0f %8.2f  %s", each(l.Bytes), each(l.Bytes-l.Images), each(l.Records), name))
	}
	lines = append(lines, fmt.Sprintf("%10s %8s  %s", "calls", "WAL, B", "statement"))
	texts := map[string]*statementLine{}
	for _, line := range c.statements {
		if each(line.Calls) < 0.1 { // of a loop, or of few pieces
			continue
		}
		statements += line.Calls
		texts[line.Database+": "+abridged(line.SQL)+strconv.Itoa(len(texts))] = &line
	}
	for _, name := range ordered(texts, func(l *statementLine) int64 { return l.Calls<<32 + l.Bytes }) {
		l := texts[name]
		lines = append(lines, fmt.Sprintf("%10.2f %8.0f  %s", each(l.Calls), each(l.Bytes), l.Database+": "+abridged(l.SQL)))
	}
	fmt.Fprintf(os.Stdout, "%s\n%s\n", b.Name(), strings.Join(lines, "\n")) // a benchmark's Log is cut
	b.ReportMetric(each(bytes), "wal-B")
	b.ReportMetric(each(images), "fpi-B")
	b.ReportMetric(each(bytes-images), "lean-B")
	b.ReportMetric(each(commits), "commits")
	b.ReportMetric(each(statements), "statements")
	b.ReportMetric(c.allocs/float64(c.n), "allocs")
	b.ReportMetric(each(c.syncs), "syncs")
	b.ReportMetric(0, "ns/op") // a round is no operation
}

// collect reads rows.
func collect(tb testing.TB, s *server, database, sql string, read func(pgx.CollectableRow) error, args ...any) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.private.URL(database, "postgres"))
	require.NoError(tb, err)
	rows, _ := conn.Query(tb.Context(), sql, args...) // Collect returns the error that rows carry
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, read(row) })
	require.NoError(tb, err)
	require.NoError(tb, conn.Close(tb.Context()))
}

// ordered returns the keys by their values, the largest first.
func ordered[T any](all map[string]T, value func(T) int64) []string {
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(value(all[b]), value(all[a])) })
}

// abridged is the begin of a statement, on one line.
func abridged(sql string) string {
	const most = 110
	line := strings.Join(strings.Fields(sql), " ")
	return line[:min(len(line), most)]
}
