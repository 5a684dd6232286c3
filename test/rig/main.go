// Command rig is the developers' command: it runs the product under faults and load on this machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // profiles name time zones, and a minimal image has none

	"github.com/alecthomas/kong"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/config"
)

// commands is the command line.
type commands struct {
	Chaos   chaosCommand   `cmd:"" help:"Run many conversations with injected faults and check the results."`
	Soak    soakCommand    `cmd:"" help:"Post webhooks at a constant rate while processes are killed, and count each."`
	Attack  attackCommand  `cmd:"" help:"Run denial-of-service tests against a local deployment and measure the effect on other callers."`
	Seed    seedCommand    `cmd:"" help:"Fill the databases of a development machine with a million sessions."`
	Reading readingCommand `cmd:"" help:"Print how the texts of platform/reading/testdata are read."`
	Devices fleetCommand   `cmd:"" help:"Connect as many devices, as chaos --goals does."`
	Serve   serveCommand   `cmd:"" hidden:"" help:"Run one service in this process, as chaos and soak do."`
}

// terminal is the output and the environment of a command.
type terminal struct {
	out     io.Writer
	environ map[string]string
}

// errBroken is a promise that was not kept. It has been printed by then.
var errBroken = errors.New("a promise was broken; see above")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], terminal{out: os.Stdout, environ: config.Environ(os.Environ())}); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, t terminal) error {
	var cli commands
	parser, err := kong.New(&cli,
		kong.Name("rig"),
		kong.Description("Runs Paceline under faults and load on this machine."),
		kong.Writers(t.out, os.Stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(t),
		kong.UsageOnError(),
	)
	if err != nil {
		return err
	}
	chosen, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return chosen.Run()
}

// serveCommand runs one service, so that real processes need no other program.
type serveCommand struct {
	Service string `arg:""`
	Verb    string `arg:"" optional:"" enum:"serve,migrate" default:"serve"`
}

// Run does what the binary of the service does with the same environment.
func (s *serveCommand) Run(ctx context.Context, t terminal) error {
	service, err := stack.ServiceNamed(s.Service)
	if err != nil {
		return err
	}
	return service.Do(ctx, s.Verb, t.environ, t.out)
}

// judge prints a report as JSON, and returns errBroken unless every promise was kept.
func (t terminal) judge(report any, kept bool) error {
	encoder := json.NewEncoder(t.out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil || kept {
		return err
	}
	return errBroken
}

// tell prints how far a command is. The report alone is on the standard output.
func tell(line string) { fmt.Fprintln(os.Stderr, line) }

// selfIsTest makes a test binary behave as the command. It is passed on to the processes that a command starts.
const selfIsTest = "RIG_TEST_AS_COMMAND"

// inherited is the part of the environment that a child process gets.
func (t terminal) inherited() map[string]string {
	some := map[string]string{}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LOG_LEVEL", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", selfIsTest} {
		if value, set := t.environ[name]; set {
			some[name] = value
		}
	}
	return some
}
