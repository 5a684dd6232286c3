package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/rpc"
)

// site is the system that is judged: the whole product in this process, on its own Postgres and vendors, on the machine's clock.
type site struct {
	databases *embeddedpg.Server
	vendors   *stack.Vendors
	services  *stack.Services
	// operator is a token of /v1 for stack.OrgID.
	operator string
}

// stopBound limits the time of the end of a site.
const stopBound = 30 * time.Second

// openSite starts one, on the machine's clock.
func openSite(ctx context.Context) (s *site, err error) {
	s = &site{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.databases, err = embeddedpg.Start(ctx, embeddedpg.Config{Throwaway: true}); err != nil {
		return s, err
	}
	if err := errors.Join(s.databases.EnsureService(ctx, "onboarding"), s.databases.EnsureService(ctx, "messaging")); err != nil {
		return s, err
	}
	on, log := clock.System(), slog.New(slog.DiscardHandler)
	if s.vendors, err = stack.StartVendors(ctx, stack.VendorConfig{Clock: on, Log: log}); err != nil {
		return s, err
	}
	secrets := stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	if s.operator, err = secrets.APIToken("compat", stack.OrgID, rpc.RoleOperator, on.Now(), time.Hour); err != nil {
		return s, err
	}
	s.services, err = stack.StartServices(ctx, s.vendors, stack.ServiceConfig{
		OnboardingDatabaseURL: s.databases.URL("onboarding", embeddedpg.Serving("onboarding")),
		MessagingDatabaseURL:  s.databases.URL("messaging", embeddedpg.Serving("messaging")),
		OnboardingMigrateURL:  s.databases.URL("onboarding", "onboarding"),
		MessagingMigrateURL:   s.databases.URL("messaging", "messaging"),
		Secrets:               secrets, Log: log,
	})
	return s, err
}

// close ends what was started, in reverse.
func (s *site) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
	defer cancel()
	var problems []error
	if s.services != nil {
		problems = append(problems, s.services.Stop(ctx))
	}
	if s.vendors != nil {
		problems = append(problems, s.vendors.Stop(ctx))
	}
	if s.databases != nil {
		problems = append(problems, s.databases.Stop(ctx))
	}
	return errors.Join(problems...)
}
