package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"time"

	"paceline.internal/emulators/clock"
	"paceline.internal/test/chaos"
)

// chaosCommand plays many conversations while everything fails, and examines what people got.
type chaosCommand struct {
	Processes    bool          `help:"Real processes and a real Postgres, killed with SIGKILL at random, over wires that fall silent."`
	Duration     time.Duration `default:"60s" help:"With --processes: how long processes are killed and wires are silent."`
	Sessions     int           `aliases:"people" help:"How many people take part. Default: 1000, with --processes 150."`
	Parallel     int           `default:"4" help:"Without --processes: how many worlds are played at a time."`
	PerWorld     int           `default:"50" help:"Without --processes: people to a world. Large worlds play faster, small ones differ more."`
	Gear         chaos.Gear    `default:"slow" enum:"slow,fast" help:"Without --processes: slow plays minutes, fast leaps through months."`
	Engagement   bool          `help:"Without --processes: people are followed by engagement, who drift away and return, in the fast gear."`
	Days         int           `default:"60" help:"With --engagement: for how many days."`
	Goals        int           `help:"Devices take part, not people, in so many goals, with two real processes of each service."`
	Devices      int           `default:"1000" help:"With --goals: how many devices are connected."`
	CutEvery     time.Duration `default:"2s" help:"With --goals: how often connections of devices are cut, on average; 0s never."`
	Cancel       float64       `help:"With --goals: the share of goals that are cancelled while their callback is under way."`
	Failover     bool          `help:"Two Postgres servers under Patroni, two processes of each service, and a failover in each trial."`
	Asynchronous bool          `help:"With --failover: the standby does not confirm commits, and some are lost."`
	Trials       []chaos.Trial `help:"With --failover: only these of kill, freeze, partition, switchover, standby-lost."`
	Seed         *uint64       `help:"Makes the plan of the run. Default: random, and printed."`
	KillEvery    time.Duration `default:"2s" help:"With --processes: how often a process is killed, on average; 0s never."`
	SilenceEvery time.Duration `default:"10s" help:"With --processes: from the recovery from a silence to the next, on average; 0s has none."`
	SilenceFor   time.Duration `default:"30s" help:"With --processes: how long a wire is silent, on average."`
	Replicas     int           `default:"1" help:"With --processes: of each service."`
	RollEvery    time.Duration `help:"With --processes: how often a process is replaced by a new one, as a rollout does; 0s never."`
	Nginx        bool          `help:"With --roll-every: a real nginx stands before the gateways, with the configuration of deploy/proxy."`
	Settle       time.Duration `default:"3m" help:"With --processes: how long everything has to come to its end after the last of them."`
	Gap          time.Duration `help:"With --processes: the pause between the messages of a burst, instead of that of the built-in flow."`
}

// Help is the long text of --help.
func (c *chaosCommand) Help() string {
	return `Without --processes the whole system runs in this process many times over, in worlds of some people with a clock and
databases of their own, while vendors, databases and services fail by a plan. The seed makes the plan, and the same seed is the
same run: a world that breaks a promise is named with the command that plays it again. In the slow gear people answer within seconds, and
every instant is played. In the fast one they drift away and return over months: the clock leaps from one planned instant to the next,
and every instant is played while a job, an alarm or a text is open.

With --processes three real processes and a Postgres of their own are started, and one of the four is killed with SIGKILL every few
seconds. All calls between them and to QStash, Twilio and Postgres go over wires, of which one at a time falls silent: its
connections stay open and nothing arrives, in both directions, in one, or from the middle of a message on; sometimes new connections
work. Then it speaks again, or its connections are cut. --silence-every 0s has no silence and no wires, --kill-every 0s kills no process.
The seed makes the plan: who comes when, what they say, what the vendors do wrong with which message, who is killed at which instant, which
wire is silent in which manner. How it interleaves is up to the machine, so a seed repeats the plan and not the run.

With --roll-every nothing fails. Instead processes are replaced in turn, all day: a new one starts, calls go to it once it is ready, and the
old one is asked to end. No request may be refused. With --nginx calls of the gateway go through Debian's nginx with the documented
configuration: it is given the new gateway, reloaded, and has a second before the old one ends.

With --goals the processes are two of each service behind balancers, and stream devices take part: real WebSockets, 250 to a process. Goals
are said over the API at a steady rate and fall due some seconds later. Connections of devices are cut every few seconds, and one process
or Postgres is killed with SIGKILL, those that hold devices included. In the end each goal must have run exactly once by what its device
wrote down, or have failed with a reason that is true. --cancel 1 has every goal cancelled while its callback is under way, and compares
the answers with what ran. --duration, --kill-every, --settle and --seed are as with --processes.

With --failover two Postgres servers of this machine run under Patroni with etcd, behind HAProxy, which leads to the primary, and two
processes of each service use them. One fault is made after a third of --duration: kill is SIGKILL of the primary and its Patroni,
freeze is SIGSTOP of both, partition cuts it off from etcd, switchover is ordered from Patroni, standby-lost is SIGKILL of the standby.
Each trial has new servers and processes, and prints a line: the time from the fault until texts went on, the requests that were refused
meanwhile, and each promise that was broken. A primary that is gone is replaced after about 20 s (Patroni's ttl), and texts go on some
13 s later, when Twilio's record has been read back. With --asynchronous the standby gets nothing for 5 s before a fault that loses
commits: what the host application had written then is lost and not counted, people get no text twice or after their STOP all the same.
It needs Debian's packages patroni, etcd-server, haproxy and postgresql.

The variables ALARM_RELAY_INTERVAL, ALARM_OVERDUE_GRACE, SEND_LEASE, TWILIO_TIMEOUT and RECONCILE_INTERVAL are shortened, with --goals
RUN_LEASE and QSTASH_RETRY_DELAY as well, with --failover INBOUND_SWEEP_INTERVAL, and printed; those that are set in the environment are
left as they are. So is ALARMS, the engine of alarms of --processes, which is qstash.

The exit code is 0 only if every promise was kept. Otherwise the output of every process is kept, and its folder is named.`
}

// Run returns an error unless every promise was kept.
func (c *chaosCommand) Run(ctx context.Context, t terminal) error {
	var drawn [4]byte // short enough to be typed again
	if _, err := rand.Read(drawn[:]); err != nil {
		return fmt.Errorf("draw a seed: %w", err)
	}
	seed := uint64(binary.BigEndian.Uint32(drawn[:]))
	if c.Seed != nil {
		seed = *c.Seed
	}
	switch {
	case c.Goals != 0:
		return c.goals(ctx, t, seed)
	case c.Failover:
		return c.failover(ctx, t, seed)
	case c.Processes:
		return c.processes(ctx, t, seed)
	}
	return c.simulate(ctx, t, seed)
}

func (c *chaosCommand) processes(ctx context.Context, t terminal, seed uint64) error {
	p, err := c.killed(t, seed, chaos.Knobs())
	if err != nil {
		return err
	}
	p.Sessions, p.SilenceEvery, p.SilenceFor, p.Gap = cmp.Or(c.Sessions, driven), c.SilenceEvery, c.SilenceFor, c.Gap
	p.Replicas, p.RollEvery, p.Nginx = c.Replicas, c.RollEvery, c.Nginx
	report, err := p.Run(ctx)
	if err != nil {
		return err
	}
	return t.judge(&report, report.Kept)
}

func (c *chaosCommand) goals(ctx context.Context, t terminal, seed uint64) error {
	p, err := c.killed(t, seed, chaos.GoalKnobs())
	if err != nil {
		return err
	}
	g := chaos.Goals{
		Processes: p, Devices: c.Devices, Count: c.Goals, CutEvery: c.CutEvery, Cancel: c.Cancel, Fleet: []string{p.Program[0], "devices"},
	}
	report, err := g.Run(ctx)
	if err != nil {
		return err
	}
	return t.judge(&report, report.Kept)
}

// failover prints a table, with what was broken in a trial below it.
func (c *chaosCommand) failover(ctx context.Context, t terminal, seed uint64) error {
	p, err := c.killed(t, seed, chaos.FailoverKnobs())
	if err != nil {
		return err
	}
	p.Sessions, p.KillEvery, p.Gap = cmp.Or(c.Sessions, failedOver), 0, c.Gap
	report, err := chaos.Failover{Processes: p, Trials: c.Trials, Asynchronous: c.Asynchronous}.Run(ctx, t.out)
	if err != nil || report.Kept {
		return err
	}
	return errBroken
}

// killed are processes that are killed. The environment of the user goes before the knobs.
func (c *chaosCommand) killed(t terminal, seed uint64, knobs map[string]string) (chaos.Processes, error) {
	program, err := os.Executable()
	if err != nil {
		return chaos.Processes{}, fmt.Errorf("find this program, to start it again as the services: %w", err)
	}
	for name := range knobs {
		if value, set := t.environ[name]; set {
			knobs[name] = value
		}
	}
	maps.Copy(knobs, t.inherited())
	return chaos.Processes{
		Seed: seed, Duration: c.Duration, KillEvery: c.KillEvery, Settle: c.Settle, Program: []string{program, "serve"},
		Environ: knobs, Clock: clock.System(), Tell: tell,
	}, nil
}

// driven is the number of people who take part in a run of processes by default.
const driven = 150

// failedOver is the number of sessions of a run with a failover: two servers and six processes leave less of the machine to them.
const failedOver = 60
