// Command onboarding is the onboarding service: onboarding [serve | migrate | doctor].
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // profiles name time zones, and a minimal image has none

	"paceline.internal/platform/config"
	"paceline.internal/services/onboarding"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "onboarding:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb := "serve"
	if len(args) > 0 {
		verb = args[0]
	}
	cfg, err := onboarding.LoadConfig(config.Environ(os.Environ()))
	switch {
	case len(args) > 1 || (verb != "serve" && verb != "migrate" && verb != "doctor"):
		return errors.New("usage: onboarding [serve | migrate | doctor]")
	case err != nil:
		return fmt.Errorf("the environment is incomplete:\n%w", err)
	case verb == "migrate":
		return onboarding.Migrate(ctx, cfg)
	case verb == "doctor":
		return onboarding.Doctor(ctx, cfg, os.Stdout)
	default:
		return onboarding.Run(ctx, cfg, onboarding.Deps{})
	}
}
