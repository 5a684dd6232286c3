package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"paceline.internal/emulators/wire"
)

// Trial is one fault of a cluster of two servers, made while people talk.
type Trial string

// The trials.
const (
	Kill        Trial = "kill"         // SIGKILL of the primary and its Patroni; they are started again once the other has taken over
	Freeze      Trial = "freeze"       // SIGSTOP of both; they go on once the other has taken over
	Partition   Trial = "partition"    // the primary cannot reach etcd
	Switchover  Trial = "switchover"   // as an operator orders it
	StandbyLost Trial = "standby-lost" // SIGKILL of the standby and its Patroni, which are started again
)

// Trials are all of them.
var Trials = []Trial{Kill, Freeze, Partition, Switchover, StandbyLost}

// Failover is a run of the processes for each trial, on a cluster that Patroni, etcd and HAProxy make of two servers.
type Failover struct {
	Processes // without kills, silences and rollouts

	Trials []Trial // empty for all
	// Asynchronous lets commits be acknowledged that the standby lacks. It is kept behind for some seconds before a trial that may lose them.
	Asynchronous bool
}

// FailoverReport is the outcome of a Failover.
type FailoverReport struct {
	Kept   bool
	Trials []TrialReport
}

// TrialReport is the outcome of one trial.
type TrialReport struct {
	Trial Trial
	// ToNextText is the time from the fault to the end of the pause that it made; 0 when no text came any more.
	ToNextText time.Duration
	Refused    int // requests to the gateways without an answer, or with 500 or more
	ReadBack   int // texts that the database had lost and Twilio's record had
	Report     Report
}

// FailoverKnobs returns Knobs with a short interval of the search for missed texts.
func FailoverKnobs() map[string]string {
	return merged(Knobs(), map[string]string{"INBOUND_SWEEP_INTERVAL": "5s"})
}

// tempo returns the tempo of a run of processes. In one with a failover people take more time, for Twilio's record has whole seconds: a
// reply within the second of its question is not told from one before it, and an opt-out that is found there counts as the later word for
// 20 s.
func (p Processes) tempo() tempo {
	t := within(p.Duration)
	if p.failover != nil {
		t.think, t.start = spans{{2 * time.Second, 6 * time.Second}}, spans{{25 * time.Second, 30 * time.Second}}
	}
	return t
}

// Run plays every trial, each with new servers and processes, and prints a line for each to out.
func (f Failover) Run(ctx context.Context, out io.Writer) (FailoverReport, error) {
	trials := f.Trials
	if len(trials) == 0 {
		trials = Trials
	}
	for _, trial := range trials {
		if !slices.Contains(Trials, trial) {
			return FailoverReport{}, fmt.Errorf("there is no trial %q: they are %v", trial, Trials)
		}
	}
	if err := errors.Join(f.check(), FailoverPrograms()); err != nil {
		return FailoverReport{}, err
	}
	shortened := FailoverKnobs()
	for name := range shortened {
		shortened[name] = f.Environ[name]
	}
	f.Tell(fmt.Sprintf("shortened: %v", shortened))
	all := FailoverReport{Kept: true}
	for _, trial := range trials {
		p := f.Processes
		p.failover = &fault{trial: trial, synchronous: !f.Asynchronous}
		p.Tell(fmt.Sprintf("%s: two servers are being made", trial))
		s, report, err := p.run(ctx)
		if err != nil {
			return all, fmt.Errorf("%s: %w", trial, err)
		}
		one := TrialReport{
			Trial: trial, Report: report, ToNextText: s.recorder.pauseAfter(p.failover.at, p.failover.over), ReadBack: p.failover.readBack,
		}
		for _, n := range s.front.counts() {
			one.Refused += n
		}
		all.Kept = all.Kept && report.Kept
		all.Trials = append(all.Trials, one)
		if err := all.print(out, len(all.Trials) == 1); err != nil {
			return all, err
		}
	}
	return all, nil
}

const trialHead = "trial\tnext text\trefused\tdoubled\tlost\tafter STOP\tout of order\tstranded\twithout a row\tconsent wrong\t" +
	"read back\ttexts\tkept\n"

// print prints the newest trial and what was broken in it, and the head of the table before the first, in columns of one width.
func (all FailoverReport) print(out io.Writer, head bool) error {
	w := tabwriter.NewWriter(out, 14, 0, 1, ' ', 0)
	if head {
		_, _ = io.WriteString(w, trialHead) // Flush returns its error
	}
	t := all.Trials[len(all.Trials)-1]
	v, next := t.Report.Verdict, "none"
	if t.ToNextText > 0 {
		next = fmt.Sprintf("%.1f s", t.ToNextText.Seconds())
	}
	_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%t\n", t.Trial, next, t.Refused, v.Duplicates, v.Losses,
		v.AfterStop, v.OutOfOrder, v.Stranded+v.Unfinished, v.OrphanTexts, v.ConsentErrors, t.ReadBack, v.Texts, t.Report.Kept)
	for _, broken := range t.Report.Broken {
		_, _ = fmt.Fprintf(w, "  %s; see %s\n", broken, t.Report.Folder)
	}
	return w.Flush()
}

// fault is the trial of one run.
type fault struct {
	trial       Trial
	synchronous bool
	at          time.Time // zero: not yet
	over        time.Time // when the other member had taken over, where it does
	readBack    int
}

const (
	// takeoverBound limits the time until the other member is the primary.
	takeoverBound = 2 * time.Minute
	// behindFor is the time for which an asynchronous standby gets nothing before it takes over.
	behindFor = 5 * time.Second
	// awayFor is the time for which a member stays away after the other has taken over.
	awayFor = 5 * time.Second
)

// fail makes the fault after a third of the time, and mends it when the other member has taken over.
func (s *site) fail(ctx context.Context, duration time.Duration) error {
	f, until := s.cfg.failover, s.now().Add(duration)
	pause(ctx, duration/3)
	first, second := s.cluster.roles(ctx)
	if first == nil {
		return errors.New("the cluster has no primary before the fault: this machine is too busy")
	}
	loses := f.trial == Kill || f.trial == Freeze || f.trial == Partition
	if loses && !f.synchronous {
		first.replication.Freeze(wire.BothWays, false)
		pause(ctx, behindFor)
	}
	f.at = s.now()
	s.log.InfoContext(ctx, "chaos.fault", "trial", string(f.trial), "primary", first.name)
	s.cfg.Tell(fmt.Sprintf("%s: now, with %s as the primary", f.trial, first.name))
	mend, err := f.strike(ctx, first, second)
	if err != nil {
		return err
	}
	if f.trial != StandbyLost {
		if err := s.taken(ctx, second); err != nil {
			return err
		}
	}
	f.over = s.now()
	pause(ctx, awayFor)
	first.replication.Cut()
	if err := mend(); err != nil {
		return err
	}
	pause(ctx, until.Sub(s.now()))
	return nil
}

// strike makes the fault, and returns what mends it.
func (f *fault) strike(ctx context.Context, first, second *member) (mend func() error, err error) {
	switch f.trial {
	case Kill:
		return first.start, first.kill()
	case Freeze:
		return first.thaw, first.freeze()
	case Partition:
		first.etcd.Freeze(wire.BothWays, false)
		return func() error { first.etcd.Cut(); return nil }, nil
	case Switchover:
		return func() error { return nil }, first.handOver(ctx)
	default:
		return second.start, second.kill()
	}
}

// taken waits until a member is the primary.
func (s *site) taken(ctx context.Context, over *member) error {
	ctx, cancel := context.WithTimeout(ctx, takeoverBound)
	defer cancel()
	for !over.is(ctx, primary) {
		if !pause(ctx, lookAgain) {
			return fmt.Errorf("%s did not become the primary within %s", over.name, takeoverBound)
		}
	}
	s.cfg.Tell(fmt.Sprintf("%s is the primary, %.1f s after the fault", over.name, s.now().Sub(s.cfg.failover.at).Seconds()))
	return nil
}

// roles returns the primary and the other member, or nil.
func (c *cluster) roles(ctx context.Context) (first, second *member) {
	for i, m := range c.members {
		if m.is(ctx, primary) {
			return m, c.members[1-i]
		}
	}
	return nil, nil
}

// sqlReadBack counts the texts that were in Twilio's record alone. What people wrote while nobody answered is there in any case.
const sqlReadBack = `select coalesce(sum(sent), 0)::int from readbacks`

// sqlRecalled is true when no text of a time that was lost is still to be delivered again.
const sqlRecalled = `select not exists (select from inbound_sweeps where again_until is not null)`

// recalled reports whether what people wrote has been found again, in a run in which it may be lost.
func (s *site) recalled(ctx context.Context) (done bool) {
	if s.cfg.failover == nil || s.cfg.failover.synchronous {
		return true
	}
	return s.onboardingDB.QueryRow(ctx, sqlRecalled).Scan(&done) == nil && done
}

// forgive forgets calls that were refused: what an operator has just written is lost with the commits, and Twilio has no record of it.
func (s *site) forgive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = nil
}

func (s *site) measureFailover(ctx context.Context) error {
	if s.cfg.failover == nil {
		return nil
	}
	return s.messagingDB.QueryRow(ctx, sqlReadBack).Scan(&s.cfg.failover.readBack)
}

// openCluster starts the servers of a run with a failover.
func (s *site) openCluster(ctx context.Context) (err error) {
	s.cluster, err = startCluster(ctx, s.dir, s.cfg.failover.synchronous)
	if err == nil {
		s.postgres, err = s.cluster.through(ctx)
	}
	return err
}
