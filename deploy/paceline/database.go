package main

import (
	"context"
	"errors"

	"paceline.internal/platform/postgres/cluster"
)

// databases is where the two services keep their data.
type databases struct {
	Onboarding, Messaging string // Postgres URLs
	// OnboardingOwner and MessagingOwner are those that migrate, as the environment has them or of the private server; empty where the
	// others do.
	OnboardingOwner, MessagingOwner string
	// Lost is closed when a private server has ended by itself; nil for servers that the environment names.
	Lost <-chan struct{}
	stop func(ctx context.Context) error
}

// openDatabases uses the servers that the environment names, or runs a private one in dir; an empty dir is a temporary
// one that stop removes.
func openDatabases(ctx context.Context, environ map[string]string, dir string) (databases, error) {
	onboarding, messaging := environ["ONBOARDING_DATABASE_URL"], environ["MESSAGING_DATABASE_URL"]
	switch {
	case onboarding != "" && messaging != "":
		return databases{
			Onboarding: onboarding, Messaging: messaging, OnboardingOwner: environ["ONBOARDING_DATABASE_MIGRATE_URL"],
			MessagingOwner: environ["MESSAGING_DATABASE_MIGRATE_URL"], stop: func(context.Context) error { return nil },
		}, nil
	case onboarding != "" || messaging != "":
		return databases{}, errors.New("set both ONBOARDING_DATABASE_URL and MESSAGING_DATABASE_URL, or neither for a private server")
	}
	server, err := cluster.Start(ctx, cluster.Config{Dir: dir})
	if err != nil {
		return databases{}, err
	}
	if err := errors.Join(server.EnsureService(ctx, "onboarding"), server.EnsureService(ctx, "messaging")); err != nil {
		return databases{}, errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
	}
	return databases{
		Onboarding:      server.URL("onboarding", cluster.Serving("onboarding")),
		Messaging:       server.URL("messaging", cluster.Serving("messaging")),
		OnboardingOwner: server.URL("onboarding", "onboarding"), MessagingOwner: server.URL("messaging", "messaging"),
		Lost: server.Done(), stop: server.Stop,
	}, nil
}
