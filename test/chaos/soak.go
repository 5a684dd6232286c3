package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"paceline.internal/deploy/stack"
)

// Soak is a run of processes with Kapso as the population, which posts signed events at POST /api/webhooks/kapso, at a rate that does not
// depend on the answers, some of them twice, and repeats what is not answered with a 2xx. In mid-run onboarding is killed with SIGKILL, and
// later Postgres. In the end every event that was accepted must be a row exactly once, and completed exactly once.
type Soak struct {
	Processes // without people, kills and its own silences

	Rate       int           // events a second
	Duplicates float64       // the share of events that are posted a second time all the same
	RetryAfter time.Duration // the first pause of the sender; the second is four times, all others nine times as long. Kapso's is 10 s.
}

// MaxSoak bounds the number of events of a run: a few bytes are remembered of each.
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

// soakVictims say who is killed in a soak, after each third of the time.
var soakVictims = []string{stack.Onboarding, postgresVictim}

// Run plays and examines, as that of Processes.
func (s Soak) Run(ctx context.Context) (SoakReport, error) {
	if err := s.check(); err != nil {
		return SoakReport{}, err
	}
	p := s.Processes
	p.soak, p.Environ = &s, merged(p.Environ, map[string]string{signsWith: rand.Text()})
	site, report, err := p.run(ctx)
	if err != nil {
		return SoakReport{Report: report}, err
	}
	k := site.kapso
	return SoakReport{Report: report, Events: k.events, Duplicates: k.duplicates.Load(), Retries: k.retries.Load(), Repeated: k.repeats}, nil
}

// SoakReport is the outcome of a soak: the report of its processes, and what Kapso counted.
type SoakReport struct {
	Report

	Events int `json:"events"`
	// Posted a second time without need, and repeated because of their answer.
	Duplicates int64          `json:"duplicate_posts"`
	Retries    int64          `json:"retries"`
	Repeated   map[string]int `json:"repeated"` // by the answer that was repeated
}
