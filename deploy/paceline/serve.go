package main

import (
	"context"

	"paceline.internal/platform/process"
	"paceline.internal/test/stack"
)

// serveCommand is the binary of one service inside this one. It is how real processes are started on a machine that has
// nothing but the command.
type serveCommand struct {
	Service string `arg:"" enum:"onboarding,messaging,gateway" help:"One of ${enum}."`
	Verb    string `arg:"" optional:"" enum:"serve,migrate,doctor" default:"serve" help:"The verb of its own binary: ${enum}."`
}

// Run does what the binary of the service does with the same environment.
func (s *serveCommand) Run(ctx context.Context, t terminal) error {
	service, err := stack.ServiceNamed(s.Service)
	if err != nil {
		return err
	}
	switch s.Verb {
	case "migrate":
		return service.Migrate(ctx, t.environ)
	case "doctor":
		return service.Doctor(ctx, t.environ).Report(t.out, false)
	default:
		process.CollectLess()
		return service.Serve(ctx, t.environ)
	}
}
