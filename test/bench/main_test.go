package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/test/upgrade"
)

// Settings of a run; docs/performance.md names the values of its figures.
var (
	steps      = flag.Int("steps", 4000, "how many steps, replies, receipts or webhooks one round has")
	callers    = flag.String("callers", "1,16,64,256", "how many requests are in flight; each number is measured")
	answers    = flag.Duration("twilio", time.Millisecond, "how long the stub of Twilio takes to answer")
	bursts     = flag.String("bursts", "500,2000", "pacing: how many bursts; each number is measured")
	over       = flag.Duration("over", 8*time.Second, "pacing: the bursts begin spread over this; 0s is all in one instant")
	waiting    = flag.Int("waiting", 100_000, "memory: how many conversations wait in their burst")
	rate       = flag.Int("rate", 200, "memory: how many steps of other conversations are due in a second")
	people     = flag.Int("people", 100_000, "run: how many people it is for")
	withBefore = flag.Bool("before", false, "work and pacing: measure the release before in turn, too, and report ratios to it")
	lasts      = flag.Duration("lasts", 30*time.Second, "memory: how long steps are due")

	now = time.Now
)

// asService makes the test binary run one service.
const asService = "BENCH_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	name := os.Getenv(asService)
	if name == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, name, serve(name, config.Environ(os.Environ())))
	os.Exit(1) // it serves until it is killed
}

func serve(name string, environ map[string]string) error {
	if name == together {
		return stack.Together(context.Background(), environ, false)
	}
	service, err := stack.ServiceNamed(name)
	if err != nil {
		return err
	}
	return service.Do(context.Background(), "serve", environ, os.Stdout)
}

// TestMeasurements runs each measurement with few pieces. No figure is asserted, because other tests load the machine. Each
// measurement itself asserts that every step was done exactly once.
func TestMeasurements(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	s := newServer(t, true)
	for name, work := range works {
		work.backlog = min(work.backlog, 50)
		s.seed(t, work, 20)
		require.Positive(t, s.round(t, work, 12, 4, apart()).rate, name)
	}
	s.seed(t, works["Steps"], 6+warmBursts)
	for _, w := range []wiring{apart(), {processes: []string{together}, alarms: "postgres"}} {
		require.Len(t, s.pace(t, w, 6, time.Second, nil).late, 6*stepsOfBurst)
	}
	s.crowd(t, 200)
	require.Len(t, s.pace(t, apart(), 6, time.Second, &crowdRun{}).late, 6*stepsOfBurst)
	s.seed(t, works["Steps"], 20)
	require.Positive(t, s.memory(t, apart(), 30, 20, time.Second)["all-peak-MB"])
	require.Positive(t, s.newPlain(t).round(t, plainClients).rate)
}

// server is the Postgres of a run. It is durable, unless it is a throwaway for a test.
type server struct {
	dir     string
	private *embeddedpg.Server
	stubs   *stubs
	clones  int
	counts  bool   // what pieces of work cost the server, see BenchmarkCost
	before  string // the command of the release before, with -before
}

// tuned is the configuration of the server: the memory of a small machine, and a log that causes no checkpoint in the middle of
// a measurement.
var tuned = []string{
	"alter system set shared_buffers = '512MB'", "alter system set max_wal_size = '4GB'", "alter system set wal_compression = on",
}

func newServer(tb testing.TB, throwaway bool, settings ...string) *server {
	tb.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		tb.Skip("processor time and memory of a process are read from Linux's /proc")
	}
	// The server's user can enter a folder in /var/tmp, the path of a socket there is short enough, and it is a disk.
	dir, err := os.MkdirTemp("/var/tmp", "paceline-bench-") //nolint:usetesting // see above
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	require.NoError(tb, os.Chmod(dir, 0o711))
	s := &server{dir: dir, stubs: newStubs(tb)}
	start := func() {
		s.private, err = embeddedpg.Start(tb.Context(), embeddedpg.Config{Dir: filepath.Join(dir, "pg"), Throwaway: throwaway})
		require.NoError(tb, err)
	}
	start()
	s.exec(tb, "postgres", append(slices.Clone(tuned), settings...)...)
	require.NoError(tb, s.private.Stop(context.Background()))
	start()
	tb.Cleanup(func() { require.NoError(tb, s.private.Stop(context.Background())) })
	for _, service := range stored() {
		require.NoError(tb, s.private.EnsureService(tb.Context(), service))
		process, err := stack.ServiceNamed(service)
		require.NoError(tb, err)
		require.NoError(tb, process.Migrate(tb.Context(), s.environ(tb, map[string]string{stack.Onboarding: service, stack.Messaging: service})))
	}
	if *withBefore {
		s.addBefore(tb)
	}
	return s
}

// addBefore builds the release before and migrates databases with it.
func (s *server) addBefore(tb testing.TB) {
	tb.Helper()
	source := filepath.Join(s.dir, "before")
	upgrade.Before(tb, filepath.Join("..", ".."), source)
	s.before = filepath.Join(s.dir, "paceline-before")
	upgrade.Build(tb, source, s.before)
	for _, service := range stored() {
		database := wiring{before: true}.schema(service)
		s.exec(tb, "postgres", "create database "+database+" owner "+service)
		environ := s.environ(tb, map[string]string{stack.Onboarding: database, stack.Messaging: database})
		log := filepath.Join(s.dir, database+".log")
		migrate, err := stack.StartChild(stack.ChildConfig{
			Name: service, Command: []string{s.before, "serve", service, "migrate"}, Environ: environ, Log: log,
		})
		require.NoError(tb, err)
		<-migrate.Done()
		said, _ := os.ReadFile(log) // as far as it was written
		require.NoError(tb, migrate.Err(), "%s", said)
	}
}

// exec runs statements in a database, each outside of a transaction.
func (s *server) exec(tb testing.TB, database string, statements ...string) {
	tb.Helper()
	ctx := context.Background() // a Cleanup calls it, too
	conn, err := pgx.Connect(ctx, s.private.URL(database, "postgres"))
	require.NoError(tb, err)
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		require.NoError(tb, err, statement)
	}
	require.NoError(tb, conn.Close(ctx))
}

// row reads one row.
func (s *server) row(tb testing.TB, database, sql string, into ...any) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.private.URL(database, "postgres"))
	require.NoError(tb, err)
	require.NoError(tb, conn.QueryRow(tb.Context(), sql).Scan(into...), sql)
	require.NoError(tb, conn.Close(context.Background()))
}

// stored lists the services that have a database.
func stored() []string { return []string{stack.Onboarding, stack.Messaging} }

// seed makes the databases from which rounds are cloned, and stores n pieces of work in them.
func (s *server) seed(tb testing.TB, work workload, n int) {
	tb.Helper()
	schemas := stored()
	if s.before != "" {
		for _, service := range stored() {
			schemas = append(schemas, wiring{before: true}.schema(service))
		}
	}
	for i, schema := range schemas {
		database, service := schema+"_seeded", stored()[i%len(stored())]
		s.exec(tb, "postgres", "drop database if exists "+database, "create database "+database+" owner "+service+" template "+schema)
		s.exec(tb, database, fill(work.seed[service], n, work.backlog), "vacuum analyze")
	}
}

// fill puts numbers into the SQL of a seed.
func fill(sql string, n, backlog int) string {
	return strings.NewReplacer("$n", strconv.Itoa(n), "$backlog", strconv.Itoa(backlog)).Replace(sql)
}

// clone copies the seeded databases for one round, and returns their names by service.
func (s *server) clone(tb testing.TB, w wiring) (databases map[string]string, drop func()) {
	tb.Helper()
	s.clones++
	databases = map[string]string{}
	for _, service := range stored() {
		databases[service] = service + "_" + strconv.Itoa(s.clones)
		s.exec(tb, "postgres", "create database "+databases[service]+" owner "+service+" template "+w.schema(service)+"_seeded")
	}
	// The steps were due when they were seeded. The sweeper must not find them late.
	s.exec(tb, databases[stack.Onboarding], sqlDueNow, "vacuum conversation_sessions", "vacuum step_alarms", "checkpoint")
	return databases, func() {
		for _, database := range databases {
			s.exec(tb, "postgres", "drop database "+database+" with (force)")
		}
	}
}

// postmaster is the process id of the server.
func (s *server) postmaster(tb testing.TB) string {
	tb.Helper()
	var data string
	s.row(tb, "postgres", "show data_directory", &data)
	lock, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	require.NoError(tb, err)
	pid, _, _ := strings.Cut(string(lock), "\n")
	return pid
}

// busy returns how many seconds of a processor processes and their children have used so far, from /proc/PID/stat.
func busy(tb testing.TB, parents ...string) (seconds float64) {
	tb.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(tb, err)
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		pid, _, _ := strings.Cut(string(content), " ")
		_, rest, _ := strings.Cut(string(content), ") ") // the name may hold anything
		fields := strings.Fields(rest)
		counted := fields[11:13] // utime, stime
		switch {
		case slices.Contains(parents, pid):
			counted = fields[11:15] // and those of the children that have ended
		case !slices.Contains(parents, fields[1]):
			continue
		}
		for _, field := range counted {
			ticks, err := strconv.ParseFloat(field, 64)
			require.NoError(tb, err)
			seconds += ticks / 100 // USER_HZ is 100 on every architecture that we run on
		}
	}
	return seconds
}

// memoryOf returns a mark of a process's memory in MB: VmRSS is the resident memory, VmHWM the most that was resident.
func memoryOf(tb testing.TB, pid, mark string) float64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	require.NoError(tb, err)
	_, rest, _ := strings.Cut(string(status), mark+":")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	require.NoError(tb, err)
	return kb / 1024
}

// quantile returns the smallest value that this share of all values does not exceed.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
