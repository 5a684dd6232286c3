package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// StepUse is what a step used.
type StepUse struct {
	// CPUMicros is what each of the services, and Postgres, used of a processor.
	CPUMicros   map[string]float64 `json:"cpu_us"`
	Allocations float64            `json:"allocations"` // of the three services
	Commits     float64            `json:"commits"`
	WALSyncs    float64            `json:"wal_syncs"`
	WALBytes    float64            `json:"wal_bytes"`
	// Updates are the rows that were updated, and HotUpdates those of them that no index had to learn of, by table.
	Updates    map[string]float64 `json:"updates"`
	HotUpdates map[string]float64 `json:"hot_updates"`
}

// total is the processor time of all.
func (u StepUse) total() (sum float64) {
	for _, micros := range u.CPUMicros {
		sum += micros
	}
	return sum
}

// less is what was used since before, for each of n steps.
func (u StepUse) less(before StepUse, n float64) StepUse {
	each := func(after, before map[string]float64) map[string]float64 {
		counts := map[string]float64{}
		for of, count := range after {
			counts[of] = (count - before[of]) / n
		}
		return counts
	}
	return StepUse{
		CPUMicros: each(u.CPUMicros, before.CPUMicros), Allocations: (u.Allocations - before.Allocations) / n,
		Commits: (u.Commits - before.Commits) / n, WALSyncs: (u.WALSyncs - before.WALSyncs) / n, WALBytes: (u.WALBytes - before.WALBytes) / n,
		Updates: each(u.Updates, before.Updates), HotUpdates: each(u.HotUpdates, before.HotUpdates),
	}
}

// hot is the share of a table's updates that were HOT, for people; tables that a tenth of the steps do not update are left out.
func (u StepUse) hot() string {
	var all []string
	for _, table := range slices.Sorted(maps.Keys(u.Updates)) {
		if updates := u.Updates[table]; updates >= 0.1 {
			all = append(all, fmt.Sprintf("%s %.0f %%", table, 100*u.HotUpdates[table]/updates))
		}
	}
	return strings.Join(all, ", ")
}

var (
	cpuSeconds = regexp.MustCompile(`(?m)^process_cpu_seconds_total ([0-9.e+]+)$`)
	mallocs    = regexp.MustCompile(`(?m)^go_memstats_mallocs_total ([0-9.e+]+)$`)
)

const sqlUsed = `
select w.wal_sync, w.wal_bytes::float8, (select sum(xact_commit)::float8 from pg_stat_database where datname = any($1)) from pg_stat_wal w`

const sqlUpdates = `select relname, n_tup_upd::float8, n_tup_hot_upd::float8 from pg_stat_user_tables where n_tup_upd > 0`

// used is what everything has used so far: the services by their own metrics, Postgres by the kernel's and its own.
func (s *server) used(ctx context.Context, p *place, urls map[string]string) (use StepUse, err error) {
	use.CPUMicros, use.Updates, use.HotUpdates = map[string]float64{}, map[string]float64{}, map[string]float64{}
	for service := range p.ops {
		said, err := p.ask(ctx, service, "/metrics")
		if err != nil {
			return use, err
		}
		cpu, err := metricOf(said, cpuSeconds)
		if err != nil {
			return use, fmt.Errorf("%s: %w", service, err)
		}
		allocated, err := metricOf(said, mallocs)
		if err != nil {
			return use, fmt.Errorf("%s: %w", service, err)
		}
		use.CPUMicros[service], use.Allocations = cpu*1e6, use.Allocations+allocated
	}
	seconds, err := s.cpu(ctx)
	if err != nil {
		return use, err
	}
	use.CPUMicros["postgres"] = seconds * 1e6
	var names []string
	for _, database := range urls {
		cfg, err := pgx.ParseConfig(database)
		if err != nil {
			return use, errors.New("the database URL cannot be parsed") // the cause quotes it
		}
		names = append(names, cfg.Database)
		if err := use.updates(ctx, database); err != nil {
			return use, err
		}
	}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return use, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return use, conn.QueryRow(ctx, sqlUsed, names).Scan(&use.WALSyncs, &use.WALBytes, &use.Commits)
}

// updates adds what the tables of a database were updated; their names are of one service only.
func (u StepUse) updates(ctx context.Context, database string) (err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows, _ := conn.Query(ctx, sqlUpdates) // ForEachRow returns the error that rows carry
	var table string
	var all, hot float64
	_, err = pgx.ForEachRow(rows, []any{&table, &all, &hot}, func() error {
		u.Updates[table], u.HotUpdates[table] = all, hot
		return nil
	})
	return err
}

func metricOf(page []byte, metric *regexp.Regexp) (float64, error) {
	found := metric.FindSubmatch(page)
	if found == nil {
		return 0, fmt.Errorf("no %s among its metrics", metric)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// tick is the kernel's unit of processor time, USER_HZ, which is 100 on every architecture that Linux runs this on.
const tick = 0.01

// cpu is how many seconds of a processor Postgres has used so far, by Linux's /proc; zero elsewhere.
func (s *server) cpu(ctx context.Context) (float64, error) {
	var data string
	if err := queryRow(ctx, s.url, `show data_directory`, &data); err != nil {
		return 0, err
	}
	lock, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	postmaster, _, _ := strings.Cut(string(lock), "\n")
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var ticks float64
	for _, stat := range stats {
		said, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(said), ") ") // the name may hold anything
		fields := strings.Fields(rest)
		own := strings.HasPrefix(string(said), postmaster+" ")
		if len(fields) < 15 || fields[1] != postmaster && !own {
			continue
		}
		counted := fields[11:13] // utime, stime
		if own {
			counted = fields[11:15] // and those of the backends that have ended
		}
		for _, field := range counted {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return ticks * tick, nil
}
