// Command messaging is the messaging service: messaging [serve | migrate | doctor].
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"paceline.internal/platform/config"
	"paceline.internal/services/messaging"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "messaging:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb := "serve"
	if len(args) > 0 {
		verb = args[0]
	}
	cfg, err := messaging.LoadConfig(config.Environ(os.Environ()))
	switch {
	case len(args) > 1 || (verb != "serve" && verb != "migrate" && verb != "doctor"):
		return errors.New("usage: messaging [serve | migrate | doctor]")
	case err != nil:
		return fmt.Errorf("the environment is incomplete:\n%w", err)
	case verb == "migrate":
		return messaging.Migrate(ctx, cfg)
	case verb == "doctor":
		return messaging.Doctor(ctx, cfg, os.Stdout)
	default:
		return messaging.Run(ctx, cfg, messaging.Deps{})
	}
}
