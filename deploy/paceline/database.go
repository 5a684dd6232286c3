package main

import (
	"context"
	"errors"

	"paceline.internal/platform/postgres/embeddedpg"
)

// databases holds the URLs of the two services' databases.
type databases struct {
	Onboarding, Messaging string // Postgres URLs
	// OnboardingOwner and MessagingOwner are those that migrate; empty where the others do.
	OnboardingOwner, MessagingOwner string
	// Lost is closed when a private server has ended by itself; nil for servers that the environment names.
	Lost <-chan struct{}
	stop func(ctx context.Context) error
}

// openDatabases runs a private server in dir; an empty dir is a temporary one that stop removes. It reads no environment: the emulated
// vendors would take what a deployment has queued, and record it as delivered.
func openDatabases(ctx context.Context, dir string) (databases, error) {
	server, err := embeddedpg.Start(ctx, embeddedpg.Config{Dir: dir})
	if err != nil {
		return databases{}, err
	}
	if err := errors.Join(server.EnsureService(ctx, "onboarding"), server.EnsureService(ctx, "messaging")); err != nil {
		return databases{}, errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
	}
	return databases{
		Onboarding:      server.URL("onboarding", embeddedpg.Serving("onboarding")),
		Messaging:       server.URL("messaging", embeddedpg.Serving("messaging")),
		OnboardingOwner: server.URL("onboarding", "onboarding"), MessagingOwner: server.URL("messaging", "messaging"),
		Lost: server.Done(), stop: server.Stop,
	}, nil
}

// namedDatabases takes the databases that the environment names, for an operator who asked for that.
func namedDatabases(environ map[string]string) (databases, error) {
	d := databases{
		Onboarding: environ["ONBOARDING_DATABASE_URL"], Messaging: environ["MESSAGING_DATABASE_URL"],
		OnboardingOwner: environ["ONBOARDING_DATABASE_MIGRATE_URL"], MessagingOwner: environ["MESSAGING_DATABASE_MIGRATE_URL"],
		stop: func(context.Context) error { return nil },
	}
	if d.Onboarding == "" || d.Messaging == "" {
		return d, errors.New("--environment-databases needs both ONBOARDING_DATABASE_URL and MESSAGING_DATABASE_URL")
	}
	return d, nil
}
