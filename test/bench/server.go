package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/platform/postgres/cluster"
)

// server is the Postgres of a run, and the folder of its files.
type server struct {
	dir     string
	url     string
	private *cluster.Cluster // nil when the URL names a server
	version string
	durable bool
	counts  bool // statements, in pg_stat_statements
}

// tuned is the configuration of a private server besides its durability: memory as on a small machine that is Postgres's own, and no
// checkpoint in the middle of a measurement because the default log is small.
var tuned = []string{
	"alter system set shared_buffers = '512MB'", "alter system set max_wal_size = '4GB'", "alter system set wal_compression = on",
}

// openServer uses the server of the URL or starts one. What was opened is in the server also after an error, to be closed.
func openServer(ctx context.Context, given string) (_ *server, err error) {
	s := &server{url: given}
	// Under /var/tmp the server's user can enter, the path of a socket is short enough, and it is a disk.
	if s.dir, err = os.MkdirTemp("/var/tmp", "paceline-bench-"); err != nil {
		return s, err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { //nolint:gosec // the server runs as another user when we are root, and must pass
		return s, err
	}
	if given == "" {
		if err := s.start(ctx); err != nil {
			return s, err
		}
		if err := s.exec(ctx, tuned...); err != nil {
			return s, err
		}
		if err := s.private.Stop(ctx); err != nil {
			return s, err
		}
		if err := s.start(ctx); err != nil {
			return s, err
		}
	}
	return s, s.examine(ctx)
}

func (s *server) start(ctx context.Context) (err error) {
	if s.private, err = cluster.Start(ctx, cluster.Config{Dir: filepath.Join(s.dir, "pg")}); err != nil {
		return err
	}
	s.url = s.private.URL("postgres", "postgres")
	return nil
}

const sqlDurable = `
select current_setting('server_version'),
       current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on' and current_setting('synchronous_commit') = 'on'`

func (s *server) examine(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return errors.New("the server cannot be reached with the URL that was given") // the cause quotes the URL
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return conn.QueryRow(ctx, sqlDurable).Scan(&s.version, &s.durable)
}

// exec runs statements outside of any transaction.
func (s *server) exec(ctx context.Context, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return errors.New("the server cannot be reached")
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// closeBound is how long a private server gets for its end.
const closeBound = 30 * time.Second

func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	var problems []error
	if s.private != nil {
		problems = append(problems, s.private.Stop(ctx))
	}
	if s.dir != "" {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}

// fsyncMicros is what it takes to make 8 kB durable in the folder of a private server: the least that a commit costs.
// Zero for a server that the URL names.
func (s *server) fsyncMicros(now func() time.Time) float64 {
	if s.private == nil {
		return 0
	}
	file, err := os.Create(filepath.Join(s.dir, "fsync"))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // it goes with the folder
	took := make([]float64, 0, 100)
	page := make([]byte, 8<<10)
	for range cap(took) {
		began := now()
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0
		}
		if err := file.Sync(); err != nil {
			return 0
		}
		took = append(took, float64(now().Sub(began).Microseconds()))
	}
	return median(took)
}

// schema is what a contender wants of its database.
type schema struct {
	migrate func(ctx context.Context, pool *pgxpool.Pool) error
	table   string
	// sqlFill stores $1 finished jobs with the payload $2.
	sqlFill string
	open    string // the condition of a job that is not finished
}

// field is a contender's database.
type field struct {
	entry  entry
	url    string
	server *server
	name   string
	pool   *pgxpool.Pool
}

func openField(ctx context.Context, s *server, e entry) (*field, error) {
	f := &field{entry: e, server: s, name: "paceline_bench_" + e.name + "_" + strings.ToLower(rand.Text()[:8])}
	if err := s.exec(ctx, "create database "+pgx.Identifier{f.name}.Sanitize()); err != nil {
		return nil, err
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, errors.New("the database URL cannot be parsed") // the cause quotes it
	}
	u.Path = "/" + f.name
	f.url = u.String()
	if f.pool, err = openPool(ctx, f.url); err == nil {
		err = e.schema.migrate(ctx, f.pool)
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return f, nil
}

func (f *field) fill(ctx context.Context, n int) error {
	_, err := f.pool.Exec(ctx, f.entry.schema.sqlFill, n, string(payload(0)))
	return err
}

// reset leaves an empty table, or one with nothing but finished jobs, and nothing dead in it.
func (f *field) reset(ctx context.Context, keepFinished bool) error {
	table := f.entry.schema.table
	free := "truncate " + table
	if keepFinished {
		free = "delete from " + table + " where " + f.entry.schema.open
	}
	for _, statement := range []string{free, "vacuum analyze " + table, "checkpoint"} {
		if _, err := f.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// holdSnapshot keeps an old snapshot of this database until it is released.
func (f *field) holdSnapshot(ctx context.Context) (release func() error, err error) {
	tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	release = func() error { return tx.Rollback(context.WithoutCancel(ctx)) }
	if _, err := tx.Exec(ctx, "select 1"); err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

// close drops the database. A private server is removed in the end anyway, but until then the database would slow the next one down.
func (f *field) close() {
	if f.pool != nil {
		f.pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	// Its name says where a database that is left came from.
	_ = f.server.exec(ctx, "drop database if exists "+pgx.Identifier{f.name}.Sanitize()+" with (force)")
}

// conns is how many connections each contender may have: four to a core of a two-core machine, and as many again for callers.
const conns = 16

func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database URL cannot be parsed") // the cause quotes it
	}
	cfg.MaxConns = conns
	return pgxpool.NewWithConfig(ctx, cfg)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
