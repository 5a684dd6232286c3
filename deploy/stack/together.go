package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"paceline.internal/gateway"
	"paceline.internal/platform/process"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// Together serves the three services in this process, with one environment for all of them, until ctx ends. With migrate it brings both
// databases to their schema first.
func Together(ctx context.Context, environ map[string]string, migrate bool) error {
	environ = alone(environ)
	messagingCfg, messagingErr := messaging.LoadConfig(environ)
	onboardingCfg, onboardingErr := onboarding.LoadConfig(environ)
	gatewayCfg, gatewayErr := gateway.LoadConfig(environ)
	if err := errors.Join(messagingErr, onboardingErr, gatewayErr); err != nil {
		return fmt.Errorf("the environment cannot be used; docs/configuration.md lists all variables:\n%s", eachOnce(err.Error()))
	}
	if migrate {
		if err := errors.Join(messaging.Migrate(ctx, messagingCfg), onboarding.Migrate(ctx, onboardingCfg)); err != nil {
			return err
		}
	}
	process.CollectLess()
	return process.Run(ctx, telemetry.NewLogger(os.Stdout, gatewayCfg.Telemetry, "paceline"), concat(
		serving(Messaging, func(ctx context.Context, ready func()) error {
			return messaging.Run(ctx, messagingCfg, process.Deps{Ready: ready})
		}),
		serving(Onboarding, func(ctx context.Context, ready func()) error {
			return onboarding.Run(ctx, onboardingCfg, process.Deps{Ready: ready})
		}),
		serving(Gateway, func(ctx context.Context, ready func()) error {
			return gateway.Run(ctx, gatewayCfg, process.Deps{Ready: ready})
		}),
	)...)
}

// OneMachine returns addresses that other machines cannot reach.
func OneMachine() map[string]string {
	return map[string]string{
		"ONBOARDING_ADDR": "127.0.0.1:9001", "ONBOARDING_OPS_ADDR": "127.0.0.1:9101", "MESSAGING_ADDR": "127.0.0.1:9002",
		"MESSAGING_OPS_ADDR": "127.0.0.1:9102", "GATEWAY_OPS_ADDR": "127.0.0.1:9100",
	}
}

// alone returns the environment of services that share a process: only the gateway is for others, and without QStash's token the database
// rings the alarms.
func alone(environ map[string]string) map[string]string {
	environ = maps.Clone(environ)
	for variable, addr := range OneMachine() {
		environ[variable] = cmp.Or(environ[variable], addr)
	}
	if environ["QSTASH_TOKEN"] == "" && environ["QSTASH_TOKEN_FILE"] == "" {
		environ["ALARMS"] = cmp.Or(environ["ALARMS"], "postgres")
	}
	return environ
}

// eachOnce leaves out the lines of a text that are there before: the services share variables.
func eachOnce(text string) string {
	seen := map[string]bool{}
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		before := seen[line]
		seen[line] = true
		return before
	}), "\n")
}
