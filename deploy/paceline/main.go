// Command paceline is the one command: it brings the whole product up on this machine and shows what it does.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // profiles name time zones, and a minimal image has none

	"github.com/alecthomas/kong"

	"paceline.internal/platform/config"
)

// commands is the command line.
type commands struct {
	Demo      demoCommand      `cmd:"" help:"Play one whole conversation and check every promise."`
	Up        upCommand        `cmd:"" help:"Run the whole product on this machine until Ctrl-C; data is kept between runs."`
	Console   consoleCommand   `cmd:"" help:"Print a link that signs in once to the console of a paceline up."`
	Token     tokenCommand     `cmd:"" help:"Print a bearer token for gRPC, or with --api for /v1."`
	E2E       e2eCommand       `cmd:"" name:"e2e" help:"Play onboarding against a running deployment, and check what came of it."`
	Doctor    doctorCommand    `cmd:"" help:"Check everything that a deployment needs, and say how to mend what is wrong."`
	Chaos     chaosCommand     `cmd:"" help:"Let many conversations happen while everything fails, and examine what the people got."`
	Soak      soakCommand      `cmd:"" help:"Take webhooks at a constant rate across kills, and count what became of each."`
	Attack    attackCommand    `cmd:"" help:"Do to a deployment on this machine what a stranger could do, and measure what others notice."`
	Events    eventsCommand    `cmd:"" help:"Print what has happened, or with --follow what happens."`
	Listen    listenCommand    `cmd:"" help:"Post what happens to a program under development."`
	Profiles  profilesCommand  `cmd:"" help:"People: import them from a CSV file."`
	Seed      seedCommand      `cmd:"" help:"Fill the databases of a machine under development with a million sessions."`
	Why       whyCommand       `cmd:"" help:"Say what would happen to a person now, and why."`
	Device    deviceCommand    `cmd:"" help:"Be a device: connect to a gateway and run a command for each goal."`
	Devices   fleetCommand     `cmd:"" hidden:"" help:"Be many devices, for chaos --goals."`
	Bench     benchCommand     `cmd:"" help:"Measure what is fast, beside others, on this machine."`
	Emulators emulatorsCommand `cmd:"" help:"Run the emulated QStash and Twilio alone, for services that run elsewhere."`
	Serve     serveCommand     `cmd:"" help:"Run one service in this process, from the environment, as its own binary does."`
}

// terminal is where a command reads and prints, and its environment.
type terminal struct {
	in      io.Reader // nil for none
	out     io.Writer
	environ map[string]string
}

// errBroken is a promise that was not kept. It has been printed by then.
var errBroken = errors.New("a promise was broken; see above")

// asCalled is how this command was called, for what it tells a person to call next: from the sources, or as a binary.
func asCalled(called string) string {
	if strings.Contains(called, "go-build") { // where go run puts it
		return "go run ./deploy/paceline"
	}
	return called
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], terminal{in: os.Stdin, out: os.Stdout, environ: config.Environ(os.Environ())})
	if err != nil {
		fmt.Fprintln(os.Stderr, "paceline:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, t terminal) error {
	var cli commands
	parser, err := kong.New(&cli,
		kong.Name("paceline"),
		kong.Description("Paced SMS onboarding: at most one SMS per step, and a sequence that always ends."),
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
