package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"paceline.internal/emulators/clock"
	"paceline.internal/test/chaos"
)

// soakCommand keeps the product under a load of webhooks while parts of it are killed.
type soakCommand struct {
	Rate       int           `default:"1000" help:"Webhooks a second, also while those before are unanswered."`
	Duration   time.Duration `default:"10m" help:"How long they come."`
	Duplicates float64       `default:"0.05" help:"The share of webhooks that are posted a second time though the first was accepted."`
	RetryAfter time.Duration `default:"10s" help:"When the sender repeats what was refused, then four and nine times that. Kapso's is 10s."`
	Settle     time.Duration `default:"5m" help:"How long everything has to come to its end afterwards."`
	Seed       uint64        `default:"1" help:"Chooses which webhooks are posted twice."`
}

// Help is the long text of --help.
func (c *soakCommand) Help() string {
	return `Three real processes and a Postgres of their own, durable as in production, take signed webhooks at POST /api/webhooks/kapso
at a constant rate. What is not answered with a 2xx is repeated, as Kapso does. After a third of the time onboarding is killed with
SIGKILL and started again, after two thirds Postgres.

In the end every webhook that was accepted must be a job exactly once and completed exactly once. The exit code is 0 only then;
otherwise the output of every process is kept, and its folder is named. Everything shares this machine: the sender, the services
and Postgres.`
}

// Run returns an error if an event was lost or done twice.
func (c *soakCommand) Run(ctx context.Context, t terminal) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it again as the services: %w", err)
	}
	report, err := chaos.Soak{
		Rate: c.Rate, Duplicates: c.Duplicates, RetryAfter: c.RetryAfter,
		Processes: chaos.Processes{
			Seed: c.Seed, Duration: c.Duration, Settle: c.Settle,
			Program: []string{program, "serve"}, Environ: t.inherited(), Clock: clock.System(), Tell: tell,
		},
	}.Run(ctx)
	if err != nil {
		return err
	}
	return t.judge(&report, report.Kept)
}
