// Package bench measures our job queue beside others: the same jobs, on the same Postgres, in one run, each contender in a process
// of its own. A run in which a contender loses or doubles a job fails and has no figures.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"paceline.internal/deploy/stack"
)

// Queue is a comparison. Every round measures each contender once, so that other load of the machine affects all of them, and a
// ratio is taken within a round.
type Queue struct {
	Jobs     int // to a measurement; the seed's loops, which are slow, get a tenth
	Rounds   int
	Finished int // rows that are finished already, in that scenario
	// Scenarios and Measures to run; empty runs all.
	Scenarios, Measures []string
	// DatabaseURL of a server on which databases may be created, one to a contender; they are dropped in the end. Empty starts a
	// private server with its durability on.
	DatabaseURL string

	Program []string          // how this program is started so that it runs Measure with the spec that is added
	Environ map[string]string // of the processes
	Now     func() time.Time
	Tell    func(line string)
}

// childBound is how long one measurement may take.
const childBound = 15 * time.Minute

func (q Queue) check() error {
	var problems []error
	if q.Jobs < 10 || q.Rounds < 1 || q.Finished < 1 {
		problems = append(problems, errors.New("--jobs must be 10 or more, --rounds and --finished 1 or more"))
	}
	for _, name := range q.Scenarios {
		if _, err := named(scenarios(), name); err != nil {
			problems = append(problems, fmt.Errorf("--scenario: %w", err))
		}
	}
	for _, name := range q.Measures {
		if _, err := named(measures(), name); err != nil {
			problems = append(problems, fmt.Errorf("--measure: %w", err))
		}
	}
	return errors.Join(problems...)
}

// Run measures. An error is a contender that did not do every job exactly once, or a machine on which nothing can be measured.
func (q Queue) Run(ctx context.Context) (_ Report, err error) {
	if err := q.check(); err != nil {
		return Report{}, err
	}
	server, err := openServer(ctx, q.DatabaseURL)
	defer func() { err = errors.Join(err, server.close()) }()
	if err != nil {
		return Report{}, err
	}
	report := Report{
		Jobs: q.Jobs, Rounds: q.Rounds, Finished: q.Finished, River: riverVersion(), Postgres: server.version, Durable: server.durable,
		CPUs: runtime.NumCPU(), FsyncMicros: server.fsyncMicros(q.Now), LoadBefore: load(), Goal: goal,
	}
	q.Tell(fmt.Sprintf("Postgres %s, river %s, %d jobs, %d rounds, load %.1f on %d CPUs, an fsync takes %.0f us",
		report.Postgres, report.River, q.Jobs, q.Rounds, report.LoadBefore, report.CPUs, report.FsyncMicros))
	for _, scene := range chosen(scenarios(), q.Scenarios) {
		runs, err := q.play(ctx, server, scene)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", scene.name, err)
		}
		report.Scenarios = append(report.Scenarios, summary(scene, chosen(measures(), q.Measures), runs))
	}
	report.LoadAfter = load()
	report.conclude()
	return report, nil
}

// play measures everything in one scenario, round by round.
func (q Queue) play(ctx context.Context, server *server, scene scenario) (map[runKey][]Result, error) {
	q.Tell("scenario " + scene.name + ": " + scene.title)
	fields := make([]*field, 0, len(contenders()))
	defer func() {
		for _, f := range fields {
			f.close()
		}
	}()
	for _, entry := range contenders() {
		f, err := openField(ctx, server, entry)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
		if scene.finished {
			if err := f.fill(ctx, q.Finished); err != nil {
				return nil, fmt.Errorf("%s: %w", entry.name, err)
			}
		}
	}
	runs := map[runKey][]Result{}
	for round := range q.Rounds {
		for _, m := range chosen(measures(), q.Measures) {
			for _, f := range fields {
				if !f.entry.takesPart(m) {
					continue
				}
				result, err := q.measure(ctx, server, scene, m, f)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", f.entry.name, m.name, err)
				}
				key := runKey{measure: m.name, contender: f.entry.name}
				runs[key] = append(runs[key], result)
				q.Tell(fmt.Sprintf("  round %d  %-14s %-10s %s", round+1, m.name, f.entry.name, result))
			}
		}
	}
	return runs, nil
}

// measure has a fresh process measure one thing, on a table that is as the scenario wants it.
func (q Queue) measure(ctx context.Context, server *server, scene scenario, m measure, f *field) (_ Result, err error) {
	if err := f.reset(ctx, scene.finished); err != nil {
		return Result{}, err
	}
	spec := Spec{
		Contender: f.entry.name, Measure: m.name, URL: f.url, Jobs: f.entry.share(q.Jobs), Out: filepath.Join(server.dir, "result.json"),
	}
	if scene.held {
		spec.Churn = spec.Jobs
		release, err := f.holdSnapshot(ctx)
		if err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	return q.child(ctx, server.dir, spec)
}

// child runs one measurement in a process of its own, so that its memory is that of this measurement alone.
func (q Queue) child(ctx context.Context, dir string, spec Spec) (Result, error) {
	text, err := spec.encode()
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, childBound, errors.New("the measurement did not come to its end"))
	defer cancel()
	log := filepath.Join(dir, "child.log")
	if err := os.RemoveAll(log); err != nil {
		return Result{}, err
	}
	child, err := stack.StartChild(stack.ChildConfig{
		Name: spec.Contender, Command: append(append([]string{}, q.Program...), text), Environ: q.Environ, Log: log,
	})
	if err != nil {
		return Result{}, err
	}
	select {
	case <-ctx.Done():
		child.Kill()
		return Result{}, context.Cause(ctx)
	case <-child.Done():
	}
	if err := child.Err(); err != nil {
		said, _ := os.ReadFile(log) // what there is of it
		return Result{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said)))
	}
	return readResult(spec.Out)
}

// load is how many processes wanted to run during the last minute; -1 where the kernel does not report it. Figures from a
// machine with other load are worth little, and this shows that load.
func load() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(content), " ")
	value, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return value
}

// together runs do n times at once and waits for all.
func together(n int, do func(i int) error) error {
	var group errgroup.Group
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}
