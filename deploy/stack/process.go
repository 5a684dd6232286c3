package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"strconv"

	"paceline.internal/gateway"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// Process is one of the three services with the verbs of its binary, for a program that plays all of them.
type Process struct {
	Serve   func(ctx context.Context, environ map[string]string) error
	Migrate func(ctx context.Context, environ map[string]string) error
	Doctor  func(ctx context.Context, environ map[string]string) process.Findings
	Own     func(ctx context.Context, verb string, environ map[string]string, out io.Writer) error
}

// Do runs the verb serve, migrate or doctor, or one that the service alone has, with the environment, as the service's own binary does.
func (p Process) Do(ctx context.Context, verb string, environ map[string]string, out io.Writer) error {
	switch verb {
	case "migrate":
		return p.Migrate(ctx, environ)
	case "doctor":
		return p.Doctor(ctx, environ).Report(out, false)
	case "serve":
		process.CollectLess()
		return p.Serve(ctx, environ)
	default:
		return p.Own(ctx, verb, environ, out)
	}
}

// The names of the services.
const (
	Onboarding = "onboarding"
	Messaging  = "messaging"
	Gateway    = "gateway"
)

// ServiceNamed finds a service.
func ServiceNamed(name string) (Process, error) {
	switch name {
	case Onboarding:
		return verbsOf(name, process.Verbs[onboarding.Config]{
			Load: onboarding.LoadConfig, Migrate: onboarding.Migrate, Doctor: onboarding.Doctor,
			Serve: func(ctx context.Context, cfg onboarding.Config) error {
				return onboarding.Run(ctx, cfg, process.Deps{})
			},
		}), nil
	case Messaging:
		return verbsOf(name, process.Verbs[messaging.Config]{
			Load: messaging.LoadConfig, Migrate: messaging.Migrate, Doctor: messaging.Doctor,
			Serve: func(ctx context.Context, cfg messaging.Config) error { return messaging.Run(ctx, cfg, process.Deps{}) },
			Own:   messaging.Own(),
		}), nil
	case Gateway:
		return verbsOf(name, process.Verbs[gateway.Config]{
			Load: gateway.LoadConfig, Doctor: gateway.Doctor,
			Serve: func(ctx context.Context, cfg gateway.Config) error { return gateway.Run(ctx, cfg, process.Deps{}) },
		}), nil
	}
	return Process{}, fmt.Errorf("there is no service %q: it is %s, %s or %s", name, Onboarding, Messaging, Gateway)
}

// verbsOf loads the configuration before each verb, as a separate binary does.
func verbsOf[Config any](name string, verbs process.Verbs[Config]) Process {
	loaded := func(environ map[string]string, do func(cfg Config) error) error {
		cfg, err := verbs.Load(environ)
		if err != nil {
			return fmt.Errorf("the environment cannot be used; docs/configuration.md lists all variables:\n%w", err)
		}
		return do(cfg)
	}
	return Process{
		Serve: func(ctx context.Context, environ map[string]string) error {
			return loaded(environ, func(cfg Config) error { return verbs.Serve(ctx, cfg) })
		},
		Migrate: func(ctx context.Context, environ map[string]string) error {
			if verbs.Migrate == nil {
				return nil // it keeps nothing
			}
			return loaded(environ, func(cfg Config) error { return verbs.Migrate(ctx, cfg) })
		},
		Own: func(ctx context.Context, verb string, environ map[string]string, out io.Writer) error {
			own := verbs.Own[verb]
			if own == nil {
				return fmt.Errorf("this service has no verb %s", verb)
			}
			return loaded(environ, func(cfg Config) error { return own(ctx, cfg, out) })
		},
		Doctor: func(ctx context.Context, environ map[string]string) process.Findings {
			cfg, err := verbs.Load(environ)
			if err != nil {
				return process.Environment(name, err)
			}
			return verbs.Doctor(ctx, cfg)
		},
	}
}

// ProcessEnviron is the environment of the three services as separate processes, but for their databases.
func ProcessEnviron(vendors *Vendors, a Addresses, secrets Secrets) map[string]string {
	environ := vendors.Environ()
	maps.Copy(environ, map[string]string{
		"GATEWAY_ADDR": a.Gateway, "GATEWAY_OPS_ADDR": a.GatewayOps,
		"ONBOARDING_ADDR": a.Onboarding, "ONBOARDING_OPS_ADDR": a.OnboardingOps,
		"MESSAGING_ADDR": a.Messaging, "MESSAGING_OPS_ADDR": a.MessagingOps,
		"PUBLIC_BASE_URL": "http://" + a.Gateway, "DEFAULT_ORG_ID": OrgID,
		"API_JWT_SECRET": secrets.APIJWT, "PSEUDONYM_KEY": secrets.Pseudonym, "SENDER_KEYSET": secrets.Senders,
	})
	maps.Copy(environ, secrets.Keys())
	return environ
}

// FreePorts are addresses on which no process listens. They lie below the range that the kernel hands out by itself, so that
// no other process takes one while its own is being started again.
func FreePorts(ctx context.Context, n int) ([]string, error) {
	const first, last = 10_000, 32_000
	begin, err := rand.Int(rand.Reader, big.NewInt(last-first-1000))
	if err != nil {
		return nil, err
	}
	var found []string
	for port := first + begin.Int64(); port < last && len(found) < n; port++ {
		addr := net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10))
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			continue // taken
		}
		if err := listener.Close(); err != nil {
			return nil, err
		}
		found = append(found, addr)
	}
	if len(found) < n {
		return nil, errors.New("no port is free below 32000")
	}
	return found, nil
}
