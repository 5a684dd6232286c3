package main

import (
	"context"

	"paceline.internal/deploy/stack"
)

// serveCommand is the binary of one service inside this one. It starts real processes on a machine that has
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
	return service.Do(ctx, s.Verb, t.environ, t.out)
}
