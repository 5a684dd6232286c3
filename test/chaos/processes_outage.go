package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"paceline.internal/deploy/stack"
)

// postgresVictim is the name of a kill of the database, next to the names of the services.
const postgresVictim = "postgres"

// victims say who is killed, each as often as it stands here.
var victims = []string{stack.Onboarding, stack.Onboarding, stack.Messaging, stack.Messaging, stack.Gateway, stack.Gateway, postgresVictim}

// outage is one kill and how it was recovered from.
type outage struct {
	victim string
	at     time.Time
	ready  time.Time // when every affected process was ready again; zero: never
}

// outages are all kills of a run, oldest first.
type outages struct {
	mu  sync.Mutex
	all []outage
}

func (o *outages) begin(victim string, at time.Time) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, outage{victim: victim, at: at})
	return len(o.all) - 1
}

func (o *outages) recovered(n int, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all[n].ready = at
}

func (o *outages) list() []outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

// recoveryBound limits the time for which a process is watched after its kill.
const recoveryBound = time.Minute

// plan returns who is the n-th to be killed, and how long after the one before.
func (p Processes) plan(n int) (rest time.Duration, victim string) {
	switch {
	case p.soak != nil && n < len(soakVictims):
		return p.Duration / 3, soakVictims[n]
	case p.soak != nil || p.KillEvery == 0:
		return p.Duration, ""
	}
	r := dice(p.Seed).roll("kill", n)
	rest = p.KillEvery/2 + time.Duration(r.Int64N(int64(p.KillEvery)+1))
	switch victim = pick(r, p.victims()); victim {
	case postgresVictim:
	case devicesVictim:
		victim = replica(victim, r.IntN(p.goals.fleets()), p.goals.fleets())
	default:
		victim = replica(victim, r.IntN(p.replicas()), p.replicas())
	}
	return rest, victim
}

func (p Processes) victims() []string {
	if p.goals != nil {
		return goalsVictims
	}
	return victims
}

// kill kills until the time is over. Its only error is a Postgres that does not come back.
func (s *site) kill(ctx context.Context, duration time.Duration) error {
	until := s.now().Add(duration)
	for n := 0; ; n++ {
		rest, victim := s.cfg.plan(n)
		if left := until.Sub(s.now()); rest >= left {
			pause(ctx, left)
			return nil
		}
		if !pause(ctx, rest) {
			return nil
		}
		if s.cfg.soak != nil {
			s.cfg.Tell("SIGKILL: " + victim)
		}
		if err := s.strike(ctx, victim); err != nil {
			return err
		}
	}
}

// strike kills one victim, sees that it is started again, and has a goroutine watch its recovery.
func (s *site) strike(ctx context.Context, victim string) error {
	at := s.now()
	n := s.outages.begin(victim, at)
	if victim == postgresVictim {
		if err := s.postgres.kill(); err != nil {
			return err
		}
		if err := s.postgres.revive(ctx); err != nil {
			return fmt.Errorf("postgres did not come back: %w", err)
		}
	} else {
		s.process(victim).kill()
	}
	s.log.InfoContext(ctx, "chaos.killed", "victim", victim, "at", at)
	s.watchers.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, recoveryBound)
		defer cancel()
		for _, k := range s.affected(victim) {
			if !s.ready(ctx, k) {
				return
			}
		}
		s.outages.recovered(n, s.now())
		s.log.InfoContext(ctx, "chaos.recovered", "victim", victim, "after_ms", s.now().Sub(at).Milliseconds())
	})
	return nil
}

// affected lists the processes that show by their readiness that a victim is back: itself and the gateways, which ask the others, and for
// Postgres all processes. A process that holds devices has no readiness check.
func (s *site) affected(victim string) []*supervisor {
	var all []*supervisor
	for name, k := range s.services {
		if victim == postgresVictim || name == victim || strings.HasPrefix(name, stack.Gateway) && !strings.HasPrefix(victim, stack.Gateway) {
			all = append(all, k)
		}
	}
	return all
}

// process is a service, or a process that holds devices.
func (s *site) process(name string) *supervisor {
	if k := s.services[name]; k != nil {
		return k
	}
	return s.goals.holders[name]
}
