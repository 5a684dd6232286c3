package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"paceline.internal/platform/config"
)

// Verbs is what a binary can do: serve, which is the default, migrate, doctor and health.
type Verbs[Config any] struct {
	Load    func(environ map[string]string) (Config, error)
	Serve   func(ctx context.Context, cfg Config) error
	Migrate func(ctx context.Context, cfg Config) error // nil for a process that keeps nothing
	Doctor  func(ctx context.Context, cfg Config) Findings
	OpsAddr func(cfg Config) config.Addr // where the verb health asks the process beside it
}

// Main is the whole main of a service's binary. The first SIGINT or SIGTERM stops it in order, the second at once.
func Main[Config any](name string, verbs Verbs[Config]) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := verbs.run(ctx, name, os.Args[1:], config.Environ(os.Environ()), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func (v Verbs[Config]) run(ctx context.Context, name string, args []string, environ map[string]string, out io.Writer) error {
	verb := "serve"
	if len(args) > 0 {
		verb = args[0]
	}
	asJSON := verb == "doctor" && len(args) == 2 && args[1] == "--json"
	if len(args) > 1 && !asJSON || !slices.Contains([]string{"serve", "migrate", "doctor", "health"}, verb) {
		return fmt.Errorf("usage: %s [serve | migrate | doctor [--json] | health]", name)
	}
	if verb == "migrate" && v.Migrate == nil {
		_, err := fmt.Fprintf(out, "%s keeps no state, so there is nothing to migrate\n", name)
		return err
	}
	cfg, err := v.Load(environ)
	if err != nil && verb == "doctor" {
		return Environment(name, err).Report(out, asJSON)
	}
	if err != nil {
		return fmt.Errorf("the environment cannot be used; docs/environment-contract.md lists all variables:\n%w", err)
	}
	switch verb {
	case "migrate":
		return v.Migrate(ctx, cfg)
	case "doctor":
		return v.Doctor(ctx, cfg).Report(out, asJSON)
	case "health":
		return Health(ctx, v.OpsAddr(cfg), out)
	default:
		return v.Serve(ctx, cfg)
	}
}
