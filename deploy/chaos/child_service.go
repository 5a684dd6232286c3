package chaos

import (
	"context"
	"fmt"

	"paceline.internal/gateway"
	"paceline.internal/platform/service"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// ServiceProcess is one of the three services with the verbs of its own binary, for a program that plays all of them.
type ServiceProcess struct {
	Serve   func(ctx context.Context, environ map[string]string) error
	Migrate func(ctx context.Context, environ map[string]string) error
	Doctor  func(ctx context.Context, environ map[string]string) service.Findings
}

// The names of the services.
const (
	Onboarding = "onboarding"
	Messaging  = "messaging"
	Gateway    = "gateway"
)

// ServiceNamed finds a service.
func ServiceNamed(name string) (ServiceProcess, error) {
	switch name {
	case Onboarding:
		return verbsOf(name, service.Verbs[onboarding.Config]{
			Load: onboarding.LoadConfig, Migrate: onboarding.Migrate, Doctor: onboarding.Doctor,
			Serve: func(ctx context.Context, cfg onboarding.Config) error {
				return onboarding.Run(ctx, cfg, service.Deps{})
			},
		}), nil
	case Messaging:
		return verbsOf(name, service.Verbs[messaging.Config]{
			Load: messaging.LoadConfig, Migrate: messaging.Migrate, Doctor: messaging.Doctor,
			Serve: func(ctx context.Context, cfg messaging.Config) error { return messaging.Run(ctx, cfg, service.Deps{}) },
		}), nil
	case Gateway:
		return verbsOf(name, service.Verbs[gateway.Config]{
			Load: gateway.LoadConfig, Doctor: gateway.Doctor,
			Serve: func(ctx context.Context, cfg gateway.Config) error { return gateway.Run(ctx, cfg, service.Deps{}) },
		}), nil
	}
	return ServiceProcess{}, fmt.Errorf("there is no service %q: it is %s, %s or %s", name, Onboarding, Messaging, Gateway)
}

// verbsOf loads the configuration before each verb, as a binary of its own does.
func verbsOf[Config any](name string, verbs service.Verbs[Config]) ServiceProcess {
	loaded := func(environ map[string]string, do func(cfg Config) error) error {
		cfg, err := verbs.Load(environ)
		if err != nil {
			return fmt.Errorf("the environment cannot be used; docs/environment-contract.md lists all variables:\n%w", err)
		}
		return do(cfg)
	}
	return ServiceProcess{
		Serve: func(ctx context.Context, environ map[string]string) error {
			return loaded(environ, func(cfg Config) error { return verbs.Serve(ctx, cfg) })
		},
		Migrate: func(ctx context.Context, environ map[string]string) error {
			if verbs.Migrate == nil {
				return nil // it keeps nothing
			}
			return loaded(environ, func(cfg Config) error { return verbs.Migrate(ctx, cfg) })
		},
		Doctor: func(ctx context.Context, environ map[string]string) service.Findings {
			cfg, err := verbs.Load(environ)
			if err != nil {
				return service.Environment(name, err)
			}
			return verbs.Doctor(ctx, cfg)
		},
	}
}
