package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"paceline.internal/test/history"
)

// Steps measures how many due steps a second the product does: gateway, onboarding and messaging as three processes on a durable
// Postgres, and vendors that cost next to nothing; beside pgbench, which does the product's own statements one step after the other. A run
// that loses or doubles a step fails and has no figures.
type Steps struct {
	Steps   int   // to a measurement
	Rounds  int   // of all measurements
	Callers []int // callbacks in flight, each of them measured
	// Twilio is how long Twilio takes to answer.
	Twilio time.Duration
	// Work is what is measured: "steps", which is what the empty one means too, "replies", "receipts" or "webhooks".
	Work string
	// Backlog is how many webhooks wait already when a measurement of webhooks begins.
	Backlog int
	// Against is another revision of this repository, which is built and measured in turn with this program; empty measures this alone.
	Against    string
	Repository string // a folder of the checkout that has Against

	Program []string          // how this program is started
	Environ map[string]string // of the processes
	Now     func() time.Time
	Tell    func(line string)
}

// build is one state of the product.
type build struct {
	name    string
	program []string
	figure  StepsFigure
	runs    map[int][]StepsRun // by callers
}

// countedSteps is how many steps the statements are counted of, one after the other: enough that the statements of the loops do not matter.
const countedSteps = 400

func (s Steps) check() error {
	if _, known := workloads()[s.work()]; !known || s.Backlog < 0 {
		return errors.New("the work must be steps, replies, receipts or webhooks, and --backlog 0 or more")
	}
	if s.Steps < 4 || s.Rounds < 1 || len(s.Callers) == 0 || slices.Min(s.Callers) < 1 || s.Twilio < 0 {
		return errors.New("--steps must be 4 or more, --rounds and --callers 1 or more, --twilio no less than 0")
	}
	return nil
}

func (s Steps) work() string { return cmp.Or(s.Work, "steps") }

func (s Steps) load() workload { return workloads()[s.work()](s.Backlog) }

// warm is how many steps go before a measurement: connections, statements, plans.
func (s Steps) warm(callers int) int { return min(s.Steps, 8*callers) }

// due is how many steps are due in a template.
func (s Steps) due() int {
	return max(s.Steps, pgbenchClients) + s.warm(slices.Max(s.Callers))
}

// Run measures.
func (s Steps) Run(ctx context.Context) (_ StepsReport, err error) {
	if err := s.check(); err != nil {
		return StepsReport{}, err
	}
	server, err := openServer(ctx)
	defer func() { err = errors.Join(err, server.close()) }()
	if err != nil {
		return StepsReport{}, err
	}
	if err := server.countStatements(ctx); err != nil {
		return StepsReport{}, err
	}
	stubs, err := startStubs(ctx, s.Twilio)
	if err != nil {
		return StepsReport{}, err
	}
	defer func() { err = errors.Join(err, stubs.close()) }()
	builds, err := s.builds(ctx, server)
	if err != nil {
		return StepsReport{}, err
	}
	report := StepsReport{
		Work: s.work(), Backlog: s.Backlog, Steps: s.Steps, Rounds: s.Rounds,
		TwilioMS: float64(s.Twilio.Microseconds()) / 1000, Postgres: server.version, Durable: server.durable,
		CPUs: runtime.NumCPU(), FsyncMicros: server.fsyncMicros(s.Now), LoadBefore: load(),
	}
	s.Tell(fmt.Sprintf("Postgres %s, %d %s, %d rounds, Twilio takes %s, load %.1f on %d CPUs, an fsync takes %.0f us",
		report.Postgres, s.Steps, s.work(), s.Rounds, s.Twilio, report.LoadBefore, report.CPUs, report.FsyncMicros))
	if err := s.measure(ctx, server, stubs, builds, &report); err != nil {
		return StepsReport{}, err
	}
	report.LoadAfter = load()
	report.conclude(builds, s.Callers)
	return report, nil
}

// builds makes what is measured, each with databases of its own whose steps are due.
func (s Steps) builds(ctx context.Context, server *server) ([]*build, error) {
	all := []*build{{name: "this", program: s.Program, runs: map[int][]StepsRun{}}}
	if s.Against != "" {
		source, to := filepath.Join(server.dir, "source"), filepath.Join(server.dir, "paceline-against")
		s.Tell("building " + s.Against)
		if err := history.Unpack(ctx, s.Repository, s.Against, source); err != nil {
			return nil, err
		}
		if err := history.Build(ctx, source, to); err != nil {
			return nil, err
		}
		all = append(all, &build{name: s.Against, program: []string{to}, runs: map[int][]StepsRun{}})
	}
	for i, b := range all {
		b.figure.Build = b.name
		for _, service := range databasesOf() {
			if err := s.makeTemplate(ctx, server, b, service, template(i, service)); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", service, b.name, err)
			}
		}
	}
	return all, nil
}

// measure counts first, and then measures each build once a round for each number of callers, in turn, and pgbench.
func (s Steps) measure(ctx context.Context, server *server, stubs *stubs, builds []*build, report *StepsReport) error {
	var pgbench *yardstick
	for i, b := range builds {
		tape, err := s.count(ctx, server, stubs, i, b)
		if err != nil {
			return fmt.Errorf("count the statements of %s: %w", b.name, err)
		}
		s.Tell(fmt.Sprintf("  %-12s %s", b.name, b.figure.costs()))
		if i == 0 && s.work() == "steps" {
			pgbench, err = server.newYardstick(ctx, tape, map[string]string{
				"onboarding": template(i, "onboarding"), "messaging": template(i, "messaging"),
			})
			if err != nil && !errors.Is(err, errNoPgbench) {
				return fmt.Errorf("pgbench: %w", err)
			}
		}
	}
	for round := range s.Rounds {
		for _, callers := range s.Callers {
			for turn := range builds {
				i := (round + turn) % len(builds) // the builds also take turns at going first
				run, err := s.round(ctx, server, stubs, i, builds[i], callers)
				if err != nil {
					return fmt.Errorf("%s: %w", builds[i].name, err)
				}
				builds[i].runs[callers] = append(builds[i].runs[callers], run)
				s.Tell(fmt.Sprintf("  round %d  %-12s %4d at once  %s", round+1, builds[i].name, callers, run))
			}
		}
		if pgbench == nil {
			continue
		}
		run, err := pgbench.run(ctx, max(s.Steps, pgbenchClients))
		if err != nil {
			return err
		}
		report.Pgbench = append(report.Pgbench, run)
		s.Tell(fmt.Sprintf("  round %d  %-12s %4d clients  %7.0f steps/s, %.0f us of a processor", round+1, "pgbench", pgbenchClients, run.Rate,
			run.CPUMicros))
	}
	return nil
}

// round measures one build once.
func (s Steps) round(ctx context.Context, server *server, stubs *stubs, i int, b *build, callers int) (run StepsRun, err error) {
	err = server.cloned(ctx, i, func(urls map[string]string) error {
		place, err := s.open(ctx, server, stubs, b, urls, callers)
		if err != nil {
			return err
		}
		defer place.close()
		run, err = s.drive(ctx, server, place, stubs, urls, callers, func() error { return nil })
		return err
	})
	return run, err
}

// count has a build do steps, one after the other, through a wire that counts, in databases that count as well. Nothing of it is timed.
func (s Steps) count(ctx context.Context, server *server, stubs *stubs, i int, b *build) (*tape, error) {
	if err := server.setTracking(ctx, "top"); err != nil {
		return nil, err
	}
	tape := newTape()
	counted := s
	counted.Steps = min(s.Steps, countedSteps)
	err := server.cloned(ctx, i, func(urls map[string]string) error {
		wires, closeWires, err := tape.tap(ctx, server.dir, urls)
		if err != nil {
			return err
		}
		defer closeWires()
		place, err := s.open(ctx, server, stubs, b, wires, 1)
		if err != nil {
			return err
		}
		defer place.close()
		if _, err := counted.drive(ctx, server, place, stubs, urls, 1, func() error {
			tape.run(true)
			return server.forgetStatements(ctx)
		}); err != nil {
			return err
		}
		tape.run(false)
		b.figure.Onboarding = tape.cost("onboarding", counted.Steps)
		b.figure.Messaging = tape.cost("messaging", counted.Steps)
		b.figure.Statements, err = server.statements(ctx, urls, counted.Steps)
		return err
	})
	return tape, errors.Join(err, server.setTracking(ctx, "none"))
}
