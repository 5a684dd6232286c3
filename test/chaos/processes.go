package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/session"
)

// Processes is a run of the product as it is deployed: three processes and their own Postgres, of which one is killed
// with SIGKILL every few seconds, and one of the wires between them falls silent every now and then, while people talk to them. The
// seed makes the plan: who comes when, what they say, what the vendors do wrong, who is killed at which instant, and which wire is
// silent in which manner. How all that interleaves is up to the machine.
type Processes struct {
	Seed      uint64
	Duration  time.Duration // how long processes are killed; people join during three quarters of it
	Sessions  int           // people, 1 to MaxPeople
	KillEvery time.Duration // on average; 0 kills no process
	// SilenceEvery is the average time from the recovery from a silence to the next one; 0 has no silence, and no wires.
	// SilenceFor is the average length of a silence.
	SilenceEvery, SilenceFor time.Duration
	Settle                   time.Duration // how long everything has to come to its end afterwards
	Gap                      time.Duration // between the messages of a burst; 0 is the built-in flow
	Replicas                 int           // of each service; 0 is one, with goals two
	// RollEvery is the time from one replacement to the next; 0 replaces no process. A new process takes over from an old one, as a rollout
	// does, for each replica of each service in turn. Nothing else goes wrong then, and no request may be refused.
	RollEvery time.Duration
	Nginx     bool // stands before the gateways as docs/deploy.md has it; with RollEvery

	Program []string          // how this program is started so that it serves the service with the name that is added
	Environ map[string]string // for the processes, on top of what they need; Knobs are in it
	Clock   clock.Clock       // the machine's: real processes know no other
	Tell    func(line string) // told what happens

	soak     *Soak  // nil when people or devices take part
	goals    *Goals // nil when people or Kapso take part
	failover *fault // nil where one server serves
}

// replicas returns how many processes of each service there are.
func (p Processes) replicas() int {
	if p.goals != nil || p.failover != nil {
		return 2
	}
	return max(1, p.Replicas)
}

// MaxPeople is the number of phone numbers there are.
const MaxPeople = 7000

// Knobs shortens the waits of the services, so that they recover within a run, and names the engine of alarms.
func Knobs() map[string]string {
	return map[string]string{
		"ALARM_RELAY_INTERVAL": "250ms", "ALARM_OVERDUE_GRACE": "5s", "SEND_LEASE": "5s", "TWILIO_TIMEOUT": "3s",
		"RECONCILE_INTERVAL": "500ms", "ALARMS": "qstash",
	}
}

// knobs returns the knobs of this kind of run.
func (p Processes) knobs() map[string]string {
	switch {
	case p.goals != nil:
		return GoalKnobs()
	case p.failover != nil:
		return FailoverKnobs()
	}
	return Knobs()
}

func (p Processes) check() error {
	var problems []error
	if p.Sessions < 1 || p.Sessions > MaxPeople {
		problems = append(problems, fmt.Errorf("--sessions must be 1 to %d", MaxPeople))
	}
	if p.Duration < time.Second || p.KillEvery < 0 || p.Settle < time.Second {
		problems = append(problems, errors.New("--duration and --settle must be 1s or more, and --kill-every 0 or more"))
	}
	if p.SilenceEvery < 0 || p.SilenceEvery > 0 && (p.SilenceEvery < time.Second || p.SilenceFor < time.Second) {
		problems = append(problems, errors.New("--silence-every must be 0, or 1s or more and --silence-for as well"))
	}
	if p.Replicas < 0 || p.Replicas > 8 {
		problems = append(problems, errors.New("--replicas must be 1 to 8"))
	}
	if p.RollEvery < 0 || p.RollEvery > 0 && (p.KillEvery > 0 || p.SilenceEvery > 0) {
		problems = append(problems, errors.New("--roll-every must be 0 or more, and goes with --kill-every 0s and --silence-every 0s alone"))
	}
	if p.Nginx && p.RollEvery == 0 {
		problems = append(problems, errors.New("--nginx goes with --roll-every alone"))
	}
	if p.Gap < 0 || p.Gap > session.MaxDelay {
		problems = append(problems, fmt.Errorf("--gap must be 0 to %s", session.MaxDelay))
	}
	return errors.Join(problems...)
}

// Run plays and examines. The report is only valid without an error; that a promise was broken is no error, but in it. When
// Run returns, whatever it started has ended.
func (p Processes) Run(ctx context.Context) (Report, error) {
	if err := p.check(); err != nil {
		return Report{}, err
	}
	_, report, err := p.run(ctx)
	return report, err
}

func (p Processes) run(ctx context.Context) (s *site, report Report, err error) {
	s, err = p.open(ctx)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		s.keep = ctx.Err() == nil
		return s, Report{}, err
	}
	p.Tell(fmt.Sprintf("seed %d; %d processes and Postgres %s are up, their output in %s", p.Seed, len(s.services), s.postgres.version, s.dir))
	report, err = s.play(ctx)
	s.keep = ctx.Err() == nil && (err != nil || !report.Kept)
	if s.keep {
		report.Folder = s.dir
	}
	return s, report, err
}

// play lets the people live and the processes die, waits for the end of everything, and examines it.
func (s *site) play(ctx context.Context) (Report, error) {
	life, finished := context.WithTimeout(ctx, s.cfg.Duration+s.cfg.Settle)
	defer finished()
	began := s.now()
	s.begin()
	if s.goals != nil {
		s.goals.begin()
	}
	var silent sync.WaitGroup
	if s.cfg.SilenceEvery > 0 {
		silent.Go(func() { s.fallSilent(ctx, s.cfg.Duration) })
	}
	if s.goals != nil {
		silent.Go(func() { s.goals.cut(ctx, s.cfg.Duration) })
	}
	var killed error
	switch {
	case s.cfg.failover != nil:
		killed = s.fail(ctx, s.cfg.Duration)
	case s.cfg.RollEvery > 0:
		killed = s.roll(ctx, s.cfg.Duration)
	default:
		killed = s.kill(ctx, s.cfg.Duration)
	}
	silent.Wait()
	s.cfg.Tell(fmt.Sprintf("%.0f s are over, and so are kills and silences; everything may come to its end now", s.cfg.Duration.Seconds()))
	settled := s.settle(life)
	finished()
	if err := errors.Join(killed, ctx.Err()); err != nil {
		return Report{}, err
	}
	s.watchers.Wait()
	return s.examine(ctx, s.now().Sub(began), settled)
}

// lookAgain is the time between two reads of something that does not report by itself.
const lookAgain = 200 * time.Millisecond

// settle waits until every conversation is over and nothing is left that a process works on, and returns how long the latter took.
func (s *site) settle(ctx context.Context) time.Duration {
	ended := s.now()
	for quiet := 0; quiet < 3; {
		switch {
		case s.busy():
			quiet, ended = 0, s.now()
		case s.quiet(ctx):
			quiet++ // a receipt that is on its way may begin something anew
		default:
			quiet = 0
		}
		if !pause(ctx, lookAgain) {
			return s.now().Sub(ended)
		}
	}
	s.settled = true
	return s.now().Sub(ended)
}

// quiet reports whether no process has anything left to do.
func (s *site) quiet(ctx context.Context) bool {
	if s.goals != nil && s.goals.moving(ctx) {
		return false
	}
	moves, err := s.moving(ctx)
	return err == nil && !moves && s.recalled(ctx) && s.vendors.Idle(ctx) == nil
}

// examineBound limits the time of the examination, soakExamineBound that of one with millions of events.
const (
	examineBound     = time.Minute
	soakExamineBound = 5 * time.Minute
)

// examine judges the run and gathers its figures.
func (s *site) examine(ctx context.Context, total, settled time.Duration) (Report, error) {
	bound := examineBound
	if s.cfg.soak != nil {
		bound = soakExamineBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	r := Report{Seed: s.cfg.Seed, People: s.cfg.Sessions, Killed: &Killed{
		DurationMS: s.cfg.Duration.Milliseconds(), SettleMS: settled.Milliseconds(), TotalMS: total.Milliseconds(),
		Kills: map[string]int{postgresVictim: 0}, EndedByThemselves: map[string]int{},
		VendorFaults: s.faults.counts(), Postgres: s.postgres.version, Knobs: map[string]string{},
	}}
	for name := range s.services {
		r.Kills[name] = 0
	}
	for name := range s.cfg.knobs() {
		r.Knobs[name] = s.environ[name]
	}
	if s.kapso != nil { // what it knows would still change
		s.end()
		s.leave()
		if err := s.still(ctx); err != nil {
			return r, err
		}
	}
	if s.cfg.failover != nil && !s.cfg.failover.synchronous {
		s.forgive()
	}
	var err error
	if r.Verdict, err = s.population.examine(ctx); err != nil {
		return r, err
	}
	r.SpacingAll = spreadOf(r.gaps)
	s.measureSilences(&r)
	s.measureRecovery(&r)
	s.measureRollout(&r)
	if err := s.measureFailover(ctx); err != nil {
		return r, err
	}
	if s.goals != nil {
		if err := s.examineGoals(ctx, &r); err != nil {
			return r, err
		}
	}
	if s.cfg.soak != nil && !s.settled {
		r.breakf(nil, "jobs were still open when the time was over")
	}
	r.Kept = r.Verdict.Kept()
	return r, nil
}

func (s *site) measureRecovery(r *Report) {
	var ready []time.Duration
	for _, o := range s.outages.list() {
		r.Kills[o.victim]++
		switch {
		case o.ready.IsZero():
			r.breakf(&r.NotRecovered, "%s was killed at %s and was not ready again", o.victim, o.at.Format(time.RFC3339Nano))
		case s.quietWithin(o.at, o.ready): // it waited for a wire
		default:
			ready = append(ready, o.ready.Sub(o.at))
		}
	}
	for name, k := range s.services {
		r.EndedByThemselves[name] = k.endedByItself()
	}
	r.RecoveryToReady = spreadOf(ready)
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool { return process.RestOnMachineClock(ctx, d, nil) }

// merged is one environment out of several; later ones win.
func merged(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}
