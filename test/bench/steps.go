package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"paceline.internal/test/history"
)

// Steps measures how many due steps a second the product does: gateway, onboarding and messaging as three processes on a durable
// Postgres, and vendors that cost next to nothing. It also measures what the same Postgres does with the same statements alone. A run
// that loses or doubles a step fails and has no figures.
type Steps struct {
	Steps   int // to a measurement
	Rounds  int
	Callers int // callbacks in flight
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
	tape    *tape // what a counted run asked of the databases
	figure  StepsFigure
}

// countedSteps is how many steps the statements are counted of: enough that the statements of the loops do not matter.
const countedSteps = 2000

func (s Steps) check() error {
	if s.Steps < 4 || s.Rounds < 1 || s.Callers < 1 {
		return errors.New("--steps must be 4 or more, --rounds and --callers 1 or more")
	}
	return nil
}

// warm is how many steps go before a measurement: connections, statements, plans.
func (s Steps) warm() int { return min(s.Steps, 8*s.Callers) }

// Run measures.
func (s Steps) Run(ctx context.Context) (_ StepsReport, err error) {
	if err := s.check(); err != nil {
		return StepsReport{}, err
	}
	server, err := openServer(ctx, "")
	defer func() { err = errors.Join(err, server.close()) }()
	if err != nil {
		return StepsReport{}, err
	}
	if err := server.countStatements(ctx); err != nil {
		return StepsReport{}, err
	}
	stubs, err := startStubs(ctx)
	if err != nil {
		return StepsReport{}, err
	}
	defer func() { err = errors.Join(err, stubs.close()) }()
	builds, err := s.builds(ctx, server)
	if err != nil {
		return StepsReport{}, err
	}
	report := StepsReport{
		Steps: s.Steps, Rounds: s.Rounds, Callers: s.Callers, Postgres: server.version, Durable: server.durable,
		CPUs: runtime.NumCPU(), FsyncMicros: server.fsyncMicros(s.Now), LoadBefore: load(),
	}
	s.Tell(fmt.Sprintf("Postgres %s, %d steps, %d rounds, %d callbacks at once, load %.1f on %d CPUs, an fsync takes %.0f us",
		report.Postgres, s.Steps, s.Rounds, s.Callers, report.LoadBefore, report.CPUs, report.FsyncMicros))
	if err := s.measure(ctx, server, stubs, builds, &report); err != nil {
		return StepsReport{}, err
	}
	report.LoadAfter = load()
	report.conclude(builds)
	return report, nil
}

// builds makes what is measured, each with databases of its own whose steps are due.
func (s Steps) builds(ctx context.Context, server *server) ([]*build, error) {
	all := []*build{{name: "this", program: s.Program}}
	if s.Against != "" {
		source, to := filepath.Join(server.dir, "source"), filepath.Join(server.dir, "paceline-against")
		s.Tell("building " + s.Against)
		if err := history.Unpack(ctx, s.Repository, s.Against, source); err != nil {
			return nil, err
		}
		if err := history.Build(ctx, source, to); err != nil {
			return nil, err
		}
		all = append(all, &build{name: s.Against, program: []string{to}})
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

// measure counts first, and then measures each build once a round, in turn.
func (s Steps) measure(ctx context.Context, server *server, stubs *stubs, builds []*build, report *StepsReport) error {
	for i, b := range builds {
		if err := s.count(ctx, server, stubs, i, b); err != nil {
			return fmt.Errorf("count the statements of %s: %w", b.name, err)
		}
		s.Tell(fmt.Sprintf("  %-12s %s", b.name, b.figure.costs()))
	}
	for round := range s.Rounds {
		for turn := range builds {
			i := (round + turn) % len(builds) // the builds also take turns at going first
			run, err := s.round(ctx, server, stubs, i, builds[i])
			if err != nil {
				return fmt.Errorf("%s: %w", builds[i].name, err)
			}
			builds[i].figure.Runs = append(builds[i].figure.Runs, run)
			s.Tell(fmt.Sprintf("  round %d  %-12s %s", round+1, builds[i].name, run))
		}
		least, err := server.pgbench(ctx, pgbenchSeconds)
		if err != nil {
			return err
		}
		report.Pgbench = append(report.Pgbench, least)
		s.Tell(fmt.Sprintf("  round %d  %-12s %7.0f steps/s", round+1, "pgbench", least))
	}
	return nil
}

// round measures one build once, and what the database alone does with the statements that were counted of it.
func (s Steps) round(ctx context.Context, server *server, stubs *stubs, i int, b *build) (StepsRun, error) {
	var run StepsRun
	err := server.cloned(ctx, i, func(urls map[string]string) error {
		place, err := s.open(ctx, server, stubs, b, urls)
		if err != nil {
			return err
		}
		defer place.close()
		run, err = s.drive(ctx, place, stubs, urls, func() error { return nil })
		return err
	})
	if err != nil {
		return StepsRun{}, err
	}
	err = server.cloned(ctx, i, func(urls map[string]string) error {
		run.Replayed, err = b.tape.replay(ctx, urls, s.Now)
		return err
	})
	return run, err
}

// count has a build do steps through a wire that counts, in databases that count as well. Nothing of it is timed.
func (s Steps) count(ctx context.Context, server *server, stubs *stubs, i int, b *build) error {
	if err := server.setTracking(ctx, "top"); err != nil {
		return err
	}
	b.tape = newTape()
	counted := s
	counted.Steps = min(s.Steps, countedSteps)
	err := server.cloned(ctx, i, func(urls map[string]string) error {
		wires, closeWires, err := b.tape.tap(ctx, server.dir, urls)
		if err != nil {
			return err
		}
		defer closeWires()
		place, err := s.open(ctx, server, stubs, b, wires)
		if err != nil {
			return err
		}
		defer place.close()
		if _, err := counted.drive(ctx, place, stubs, urls, func() error {
			b.tape.start()
			return server.forgetStatements(ctx)
		}); err != nil {
			return err
		}
		b.tape.stop(counted.Steps)
		b.figure.Onboarding = b.tape.cost("onboarding")
		b.figure.Messaging = b.tape.cost("messaging")
		b.figure.Statements, err = server.statements(ctx, urls, counted.Steps)
		return err
	})
	return errors.Join(err, server.setTracking(ctx, "none"))
}
