package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"paceline.internal/test/bench"
)

// benchCommand measures Paceline.
type benchCommand struct {
	Steps    benchStepsCommand    `cmd:"" help:"Due steps a second through three real processes, also beside another revision."`
	Replies  benchRepliesCommand  `cmd:"" help:"Replies a second, and what each costs."`
	Receipts benchReceiptsCommand `cmd:"" help:"Receipts a second, and what each costs."`
	Webhooks benchWebhooksCommand `cmd:"" help:"Webhooks a second, accepted and done."`
	Pacing   benchPacingCommand   `cmd:"" help:"How late texts go out while thousands of bursts run at once."`
	Memory   benchMemoryCommand   `cmd:"" help:"What the services have in memory with a hundred thousand conversations in their burst."`
}

// benchStepsCommand measures the whole way of a step.
type benchStepsCommand struct {
	Steps   int           `default:"4000" help:"How many to a measurement."`
	Rounds  int           `default:"5" help:"How often everything is measured, the contenders in turn."`
	Callers []int         `default:"1,16,64,256" help:"How many callbacks are in flight; each is measured."`
	Twilio  time.Duration `default:"1ms" help:"How long Twilio takes to answer."`

	Against string `help:"Another revision of this checkout, a commit or a tag: it is built, and measured in turn with this program."`
	JSON    bool   `name:"json" help:"Print one JSON object, for machines."`
}

// Help is the long text of --help.
func (c *benchStepsCommand) Help() string {
	return `Gateway, onboarding and messaging run as three processes on a private, durable Postgres. QStash and Twilio are stubs that
answer at once and do nothing else. Signed callbacks of due steps are delivered, so many at once; each must be answered "sent", and
afterwards each step must be stored, sent and moved on exactly once: else there are no figures, and the exit code is 1.

What a step asks of the databases is counted before, one step after the other, on a wire between services and Postgres, and the statements
of one step are taken from there, with its parameters. In every round pgbench does those, with 16 connections and the parameters of other
sessions, in a database that has the tables of both services. Figures are medians of the rounds, a ratio is the median of the rounds'
ratios, and rounds are interleaved.

--against needs git, go and the history of this repository. The machine should do nothing else: the load is printed, and figures of
different runs are not to be compared.`
}

// Run returns an error unless every step was done exactly once.
func (c *benchStepsCommand) Run(ctx context.Context, t terminal) error {
	return c.measure(ctx, t, "steps", 0)
}

// measure is the run of a work.
func (c *benchStepsCommand) measure(ctx context.Context, t terminal, work string, backlog int) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it as each of the services: %w", err)
	}
	report, err := bench.Steps{
		Steps: c.Steps, Rounds: c.Rounds, Callers: c.Callers, Twilio: c.Twilio, Work: work, Backlog: backlog, Against: c.Against, Repository: ".",
		Program: []string{program}, Environ: t.inherited(), Now: time.Now, Tell: t.teller(c.JSON),
	}.Run(ctx)
	if err != nil {
		return err
	}
	return t.show(c.JSON, &report)
}

// benchRepliesCommand measures the whole way of a reply.
type benchRepliesCommand struct{ benchStepsCommand }

// Help is the long text of --help.
func (c *benchRepliesCommand) Help() string {
	return `As bench steps, with people who answer an opening: a reply is done when the explanation was handed to Twilio and the session has
moved.`
}

// Run returns an error unless every reply was answered exactly once.
func (c *benchRepliesCommand) Run(ctx context.Context, t terminal) error {
	return c.measure(ctx, t, "replies", 0)
}

// benchReceiptsCommand measures the whole way of a receipt.
type benchReceiptsCommand struct{ benchStepsCommand }

// Help is the long text of --help.
func (c *benchReceiptsCommand) Help() string {
	return `As bench steps, with what Twilio reports of texts that it has accepted: a receipt is done when its text is delivered.`
}

// Run returns an error unless every receipt was recorded exactly once.
func (c *benchReceiptsCommand) Run(ctx context.Context, t terminal) error {
	return c.measure(ctx, t, "receipts", 0)
}

// benchWebhooksCommand measures the whole way of a webhook.
type benchWebhooksCommand struct {
	benchStepsCommand

	Backlog int `default:"0" help:"How many of another organisation's wait already, for an hour."`
}

// Help is the long text of --help.
func (c *benchWebhooksCommand) Help() string {
	return `As bench steps, with events of Kapso that only take a job: one is done when its job has ended, which may be after it was answered.`
}

// Run returns an error unless every webhook was done exactly once.
func (c *benchWebhooksCommand) Run(ctx context.Context, t terminal) error {
	return c.measure(ctx, t, "webhooks", c.Backlog)
}

// benchPacingCommand measures lateness.
type benchPacingCommand struct {
	Bursts int           `default:"2000" help:"How many bursts."`
	Over   time.Duration `default:"8s" help:"They begin spread over this; 0s is all in one instant."`
	Twilio time.Duration `default:"1ms" help:"How long Twilio takes to answer."`
	JSON   bool          `name:"json" help:"Print one JSON object, for machines."`
}

// Help is the long text of --help.
func (c *benchPacingCommand) Help() string {
	return `Gateway, onboarding and messaging run as three processes on a private, durable Postgres. QStash is a stub that delivers each alarm
when it is due, as many at once as are due, and again when it is refused. A text is as late as Twilio is asked for it after its alarm was
due; the rig's own timers are part of that, and are shown beside it. Afterwards each text must have been sent once, in order: else there are
no figures, and the exit code is 1.

The machine should do nothing else: the load is printed, and figures of different runs are not to be compared.`
}

// Run returns an error unless every text was sent exactly once, in order.
func (c *benchPacingCommand) Run(ctx context.Context, t terminal) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it as each of the services: %w", err)
	}
	report, err := bench.Pacing{
		Bursts: c.Bursts, Over: c.Over, Twilio: c.Twilio, Program: []string{program}, Environ: t.inherited(), Now: time.Now,
		Tell: t.teller(c.JSON),
	}.Run(ctx)
	if err != nil {
		return err
	}
	return t.show(c.JSON, &report)
}

// benchMemoryCommand measures memory.
type benchMemoryCommand struct {
	Sessions int           `default:"100000" help:"How many conversations are in their burst."`
	Rate     int           `default:"200" help:"How many steps a second are due, of conversations besides."`
	For      time.Duration `default:"30s" help:"How long."`
	JSON     bool          `name:"json" help:"Print one JSON object, for machines."`
}

// Help is the long text of --help.
func (c *benchMemoryCommand) Help() string {
	return `Gateway, onboarding and messaging run as three processes on a private, durable Postgres, with so many conversations in their burst
whose next step is due in an hour, and are delivered due steps of others at a constant rate. What each has in memory is what the kernel says
is resident, its program included. It needs Linux.`
}

// Run returns an error unless every step was done exactly once.
func (c *benchMemoryCommand) Run(ctx context.Context, t terminal) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it as each of the services: %w", err)
	}
	report, err := bench.Memory{
		Sessions: c.Sessions, Rate: c.Rate, For: c.For, Program: []string{program}, Environ: t.inherited(), Now: time.Now,
		Tell: t.teller(c.JSON),
	}.Run(ctx)
	if err != nil {
		return err
	}
	return t.show(c.JSON, &report)
}
