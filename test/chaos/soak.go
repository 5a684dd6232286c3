package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/emulators/clock"
	"paceline.internal/test/stack"
)

// Soak is the product as it is deployed under a constant load of webhooks: three processes and a Postgres of their own, with its
// durability on. Somebody posts signed events at POST /api/webhooks/kapso, at a rate that does not depend on the answers, some of
// them twice, and repeats what is not answered with a 2xx, as Kapso does. In mid-run onboarding is killed with SIGKILL, and later
// Postgres. In the end every event that was accepted must be a row exactly once, and completed exactly once.
type Soak struct {
	Seed       uint64
	Rate       int // events a second
	Duration   time.Duration
	Duplicates float64       // the share of events that are posted a second time all the same
	RetryAfter time.Duration // the first pause of the sender; the second is four times, all others nine times as long. Kapso's is 10 s.
	Settle     time.Duration // how long everything has to come to its end afterwards
	Keep       bool          // the folder of the run, also when every promise was kept

	Program []string          // as in Processes
	Environ map[string]string // for the processes, on top of what they need
	Clock   clock.Clock       // the machine's
	Tell    func(line string) // told what happens
}

// MaxSoak is how many events a run may have: what is remembered of each is a few bytes.
const MaxSoak = 50_000_000

func (s Soak) check() error {
	var problems []error
	if s.Rate < 1 || s.Duration < time.Second || s.Settle < time.Second || s.RetryAfter <= 0 {
		problems = append(problems, errors.New("--rate must be 1 or more, --duration and --settle 1s or more, --retry-after above 0"))
	}
	if float64(s.Rate)*s.Duration.Seconds() > MaxSoak {
		problems = append(problems, fmt.Errorf("--rate times --duration must be at most %d events", MaxSoak))
	}
	if s.Duplicates < 0 || s.Duplicates > 1 {
		problems = append(problems, errors.New("--duplicates must be 0 to 1"))
	}
	return errors.Join(problems...)
}

// Run plays and examines. The report is only valid without an error; that a promise was broken is no error, but in it. When
// Run returns, whatever it started has ended.
func (s Soak) Run(ctx context.Context) (_ SoakReport, err error) {
	if err := s.check(); err != nil {
		return SoakReport{}, err
	}
	secret := rand.Text()
	site, err := Processes{
		Seed: s.Seed, Program: s.Program, Clock: s.Clock, Tell: s.Tell,
		Environ: merged(s.Environ, map[string]string{"KAPSO_WEBHOOK_SECRET": secret}),
	}.open(ctx)
	defer func() { err = errors.Join(err, site.close()) }()
	if err != nil {
		site.keep = s.Keep || ctx.Err() == nil
		return SoakReport{}, err
	}
	s.Tell(fmt.Sprintf("three processes and Postgres %s are up, their output in %s; %d webhooks a second for %s",
		site.postgres.version, site.dir, s.Rate, s.Duration))
	report, err := s.play(ctx, site, secret)
	site.keep = s.Keep || ctx.Err() == nil && (err != nil || !report.Kept)
	if site.keep {
		report.Folder = site.dir
	}
	return report, err
}

// play sends, kills, waits until nothing is left to do, and examines.
func (s Soak) play(ctx context.Context, site *site, secret string) (SoakReport, error) {
	// The superuser sees the rows of every organisation, and has its own connections.
	audit, err := pgxpool.New(ctx, site.postgres.server.URL(stack.Onboarding, "postgres"))
	if err != nil {
		return SoakReport{}, err
	}
	defer audit.Close()
	if _, err := audit.Exec(ctx, sqlRecordEnds); err != nil {
		return SoakReport{}, fmt.Errorf("have the ends of jobs written down: %w", err)
	}
	load := loadBefore()
	sender := newSender(s, site.population.api.BaseURL+"/api/webhooks/kapso", secret)
	defer sender.close()
	backlog := newBacklog(audit, site.now)
	began := site.now()

	running, stop := context.WithTimeout(ctx, s.Duration+s.Settle)
	defer stop()
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(running)
	go func() { defer close(watched); backlog.watch(watching) }()
	struck := make(chan error, 1)
	go func() { struck <- s.strikes(running, site) }()
	sender.send(running)
	sent, meanwhile := site.now(), sender.acceptedEvents()
	s.Tell("everything was posted, and what was refused is repeated until it is accepted: " + sender.say())
	sender.settle(running)
	settled := backlog.drained(running, site)
	unwatch()
	<-watched
	if err := errors.Join(<-struck, ctx.Err()); err != nil {
		return SoakReport{}, err
	}
	site.watchers.Wait()
	report := SoakReport{
		Seed: s.Seed, Rate: s.Rate, DurationMS: s.Duration.Milliseconds(), SettleMS: site.now().Sub(sent).Milliseconds(),
		Postgres: site.postgres.version, CPUs: runtime.NumCPU(), LoadBefore: load, Backlog: backlog.seen, Settled: settled,
		RatePosted:   float64(sender.events) / sent.Sub(began).Seconds(),
		RateAccepted: float64(meanwhile) / sent.Sub(began).Seconds(),
	}
	report.ofSender(sender)
	report.ofOutages(site.outages.list(), sender, backlog)
	if err := report.examine(ctx, audit, sender); err != nil {
		return report, err
	}
	report.conclude()
	return report, nil
}

// strikes kills onboarding after a third of the time, and Postgres after two thirds.
func (s Soak) strikes(ctx context.Context, site *site) error {
	for _, victim := range []string{stack.Onboarding, postgresVictim} {
		if !pause(ctx, s.Duration/3) {
			return nil
		}
		s.Tell("SIGKILL: " + victim)
		if err := site.strike(ctx, victim); err != nil {
			return err
		}
	}
	return nil
}
