package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres/cluster"
)

// server is the Postgres of a run, and the folder of its files.
type server struct {
	dir     string
	url     string
	private *cluster.Cluster // nil until it has started
	version string
	durable bool
	counts  bool // statements, in pg_stat_statements
}

// tuned is the configuration of a private server besides its durability: memory as on a small machine that is Postgres's own, and no
// checkpoint in the middle of a measurement because the default log is small.
var tuned = []string{
	"alter system set shared_buffers = '512MB'", "alter system set max_wal_size = '4GB'", "alter system set wal_compression = on",
}

// openServer starts a server. What was opened is in the server also after an error, to be closed.
func openServer(ctx context.Context) (_ *server, err error) {
	s := &server{}
	// Under /var/tmp the server's user can enter, the path of a socket is short enough, and it is a disk.
	if s.dir, err = os.MkdirTemp("/var/tmp", "paceline-bench-"); err != nil {
		return s, err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { //nolint:gosec // the server runs as another user when we are root, and must pass
		return s, err
	}
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
		return err
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
func (s *server) fsyncMicros(now func() time.Time) float64 {
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
