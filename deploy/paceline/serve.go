package main

import (
	"context"
	"errors"

	"paceline.internal/deploy/stack"
)

// serveCommand runs the product from the environment: all of it in this process, or one service as its own binary does.
type serveCommand struct {
	Service string `arg:"" optional:"" enum:",onboarding,messaging,gateway" default:"" help:"Which; without it all three, in this process."`
	Verb    string `arg:"" optional:"" enum:"serve,migrate,doctor,keyset,promote,reseal" default:"serve" help:"Its binary's verb: ${enum}."`
	Migrate bool   `help:"Bring both databases to this release's schema first; without a service."`
}

// Run serves until SIGTERM or Ctrl-C.
func (s *serveCommand) Run(ctx context.Context, t terminal) error {
	if s.Service == "" {
		return stack.Together(ctx, t.environ, s.Migrate)
	}
	if s.Migrate {
		return errors.New("--migrate is for all services; for one name the verb: paceline serve " + s.Service + " migrate")
	}
	if s.Service == stack.Gateway && s.Verb == "migrate" {
		return errors.New("the gateway has no database, so there is nothing to migrate; the databases are those of onboarding and messaging")
	}
	service, err := stack.ServiceNamed(s.Service)
	if err != nil {
		return err
	}
	return service.Do(ctx, s.Verb, t.environ, t.out)
}
