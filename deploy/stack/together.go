package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"paceline.internal/gateway"
	"paceline.internal/platform/process"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// Together serves the three services in this process, with one environment for all of them, until ctx ends. They call each other by gRPC in
// memory, with the same interceptors, tokens and deadlines as over the network; their ports are for operators. With migrate it brings both
// databases to their schema first.
func Together(ctx context.Context, environ map[string]string, migrate bool) error {
	messagingCfg, onboardingCfg, gatewayCfg, err := load(environ)
	if err != nil {
		return err
	}
	if migrate {
		if err := errors.Join(messaging.Migrate(ctx, messagingCfg), onboarding.Migrate(ctx, onboardingCfg)); err != nil {
			return err
		}
	}
	process.CollectLess()
	inside := map[string]*bufconn.Listener{Messaging: bufconn.Listen(pipe), Onboarding: bufconn.Listen(pipe)}
	dial := func(ctx context.Context, service string) (net.Conn, error) { return inside[service].DialContext(ctx) }
	return process.Run(ctx, telemetry.NewLogger(os.Stdout, gatewayCfg.Telemetry, "paceline"), concat(
		within(messagingStop, Messaging, func(ctx context.Context, ready func()) error {
			return messaging.Run(ctx, messagingCfg, process.Deps{Ready: ready, Inside: inside[Messaging]})
		}),
		within(onboardingStop, Onboarding, func(ctx context.Context, ready func()) error {
			return onboarding.Run(ctx, onboardingCfg, process.Deps{Ready: ready, Inside: inside[Onboarding], Dial: dial})
		}),
		serving(Gateway, func(ctx context.Context, ready func()) error {
			return gateway.Run(ctx, gatewayCfg, process.Deps{Ready: ready, Dial: dial})
		}),
	)...)
}

// pipe is the buffer of a connection between two services, in each direction: what a stream's window of gRPC has.
const pipe = 64 << 10

// The bounds of the ends of two services, as the comments at their Run add them up.
const (
	onboardingStop = 540 * time.Second
	messagingStop  = 125 * time.Second
)

// within is serving with a bound of the end.
func within(stop time.Duration, name string, run func(ctx context.Context, ready func()) error) []process.Component {
	components := serving(name, run)
	components[0].StopTimeout = stop
	return components
}

// OneMachine returns addresses that other machines cannot reach.
func OneMachine() map[string]string {
	return map[string]string{
		"ONBOARDING_ADDR": "127.0.0.1:9001", "ONBOARDING_OPS_ADDR": "127.0.0.1:9101", "MESSAGING_ADDR": "127.0.0.1:9002",
		"MESSAGING_OPS_ADDR": "127.0.0.1:9102", "GATEWAY_OPS_ADDR": "127.0.0.1:9100",
	}
}

// Check reports what Together would refuse in an environment.
func Check(environ map[string]string) error {
	_, _, _, err := load(environ) //nolint:dogsled // the configurations are for Together
	return err
}

func load(environ map[string]string) (m messaging.Config, o onboarding.Config, g gateway.Config, err error) {
	environ = alone(environ)
	m, messagingErr := messaging.LoadConfig(environ)
	o, onboardingErr := onboarding.LoadConfig(environ)
	g, gatewayErr := gateway.LoadConfig(environ)
	if err := errors.Join(messagingErr, onboardingErr, gatewayErr); err != nil {
		return m, o, g, fmt.Errorf("the environment cannot be used; docs/configuration.md lists all variables:\n%s", eachOnce(err.Error()))
	}
	return m, o, g, nil
}

// alone returns the environment of services that share a process: only the gateway is for others.
func alone(environ map[string]string) map[string]string {
	environ = maps.Clone(environ)
	for variable, addr := range OneMachine() {
		environ[variable] = cmp.Or(environ[variable], addr)
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
