// Command paceline is the user's command: it tries, runs and operates Paceline, and helps to develop against it.
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
	"paceline.internal/platform/reading/languages"
)

// commands is the command line, in the order of --help.
type commands struct {
	Demo demoCommand `cmd:"" group:"try" help:"Play one whole conversation and check every promise."`
	Up   upCommand   `cmd:"" group:"try" help:"Run the whole product on this machine until Ctrl-C; data is kept between runs."`

	Init   initCommand   `cmd:"" group:"run" help:"Write the environment of a deployment: secrets, databases, and what you say of Twilio."`
	Serve  serveCommand  `cmd:"" group:"run" help:"Run the product, or one service, from the environment."`
	Doctor doctorCommand `cmd:"" group:"run" help:"Check everything that a deployment needs, and say how to repair what is wrong."`
	E2E    e2eCommand    `cmd:"" group:"run" name:"e2e" help:"Play onboarding against a running deployment and check the results."`

	Console  consoleCommand  `cmd:"" group:"operate" help:"Print a link that signs in once to the console of a paceline up."`
	Why      whyCommand      `cmd:"" group:"operate" help:"Say what would happen to a person now, and why."`
	Events   eventsCommand   `cmd:"" group:"operate" help:"Print the events so far; with --follow also those to come."`
	Key      keyCommand      `cmd:"" group:"operate" help:"Make, list and revoke the API keys of an organisation."`
	Org      orgCommand      `cmd:"" group:"operate" help:"Make, list, suspend, resume, move and end the organisations of a deployment."`
	Backup   backupCommand   `cmd:"" group:"operate" help:"Back up the servers of both databases while they are in use."`
	Restore  restoreCommand  `cmd:"" group:"operate" help:"Prepare a Postgres server from a backup, for an instant."`
	Settle   settleCommand   `cmd:"" group:"operate" help:"After a restore: read back what was lost, compare, hold who is in doubt, go on."`
	Profiles profilesCommand `cmd:"" group:"operate" help:"Import people from a CSV file."`

	Token     tokenCommand     `cmd:"" group:"develop" help:"Print a bearer token for gRPC, or with --api for /v1."`
	Flow      flowCommand      `cmd:"" group:"develop" help:"Check, draw, try, import and publish conversations that are written in files."`
	Listen    listenCommand    `cmd:"" group:"develop" help:"Post events to a program under development."`
	Device    deviceCommand    `cmd:"" group:"develop" help:"Connect as a device and run a command for each goal."`
	Emulators emulatorsCommand `cmd:"" group:"develop" help:"Run the emulated QStash and Twilio alone, for services that run elsewhere."`
	Version   versionCommand   `cmd:"" group:"develop" help:"Print the version and the commit of this program."`
}

// groups are the titles of --help, in this order.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "try", Title: "Try:"},
		{Key: "run", Title: "Run:"},
		{Key: "operate", Title: "Operate:"},
		{Key: "develop", Title: "Develop:"},
	}
}

// terminal holds a command's input, output and environment.
type terminal struct {
	in      io.Reader // nil for none
	out     io.Writer
	environ map[string]string
}

// errBroken is a promise that was not kept. It has been printed by then.
var errBroken = errors.New("a promise was broken; see above")

// asCalled returns the words that this command was called by, so that it can tell a person what to call next: from the sources, or as a
// binary.
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
		kong.Vars{"locales": strings.Join(languages.Written(), ",")},
		kong.Writers(t.out, os.Stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(t),
		kong.ExplicitGroups(groups()),
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
