// Command gateway is the public HTTP surface of Paceline.
//
//	gateway [serve | migrate | doctor]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"paceline.internal/gateway"
	"paceline.internal/platform/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, append(os.Args[1:], "serve")[0]); err != nil {
		fmt.Fprintf(os.Stderr, "gateway: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func run(ctx context.Context, verb string) error {
	if verb == "migrate" {
		_, err := fmt.Println("gateway: keeps no state, so there is nothing to migrate")
		return err
	}
	cfg, err := gateway.LoadConfig(config.Environ(os.Environ()))
	if err != nil {
		return fmt.Errorf("the environment is not complete:\n%w", err)
	}
	switch verb {
	case "serve":
		return gateway.Run(ctx, cfg, gateway.Deps{})
	case "doctor":
		return gateway.Doctor(ctx, cfg, os.Stdout)
	default:
		return fmt.Errorf("%q is no verb; use serve, migrate or doctor", verb)
	}
}
