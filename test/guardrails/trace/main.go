// Command trace plays a conversation and writes to folders in the folder that its argument names which statements ran because of a text
// and because of a step. TestWalksAreWhole builds it with -cover and runs it: a test's own binary cannot clear its counters.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/rpc"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	err := run(ctx, os.Args[1])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, to string) (err error) {
	server, err := embeddedpg.Start(ctx, embeddedpg.Config{Throwaway: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	if err := errors.Join(server.EnsureService(ctx, stack.Onboarding), server.EnsureService(ctx, stack.Messaging)); err != nil {
		return err
	}
	now, log := clock.NewSettable(time.Date(2026, time.November, 20, 20, 0, 0, 0, time.UTC)), slog.New(slog.DiscardHandler)
	vendors, err := stack.StartVendors(ctx, stack.VendorConfig{Clock: now, Log: log})
	if err != nil {
		return err
	}
	services, err := stack.StartServices(ctx, vendors, stack.ServiceConfig{
		OnboardingDatabaseURL: server.URL(stack.Onboarding, stack.Onboarding),
		MessagingDatabaseURL:  server.URL(stack.Messaging, stack.Messaging),
		Secrets:               stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()},
		Log:                   log, Rest: untilWoken,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, services.Stop(ctx), vendors.Stop(ctx)) }()

	const phone = "+14155552001"
	says := func(text string) error {
		_, err := vendors.Twilio.Receive(ctx, phone, stack.FromNumber, text)
		return errors.Join(err, vendors.Idle(ctx))
	}
	api := &operator.Client{BaseURL: services.URL(), HTTP: &http.Client{Timeout: 10 * time.Second}}
	if api.Token, err = services.Secrets.APIToken("trace", stack.OrgID, rpc.RoleOperator, now.Now(), time.Hour); err != nil {
		return err
	}
	profile, err := api.Enrol(ctx, operator.Person{Phone: phone, FirstName: "Ada", Locale: "en"})
	if err != nil {
		return err
	}
	if _, err := api.Activate(ctx, profile.ProfileID); err != nil {
		return err
	}
	return errors.Join(
		says("Hello there"),
		trace(filepath.Join(to, "text"), func() error { return says("Please do go on then") }), // and the first step, which is due at once
		trace(filepath.Join(to, "step"), func() error { now.Advance(8 * time.Second); return vendors.Idle(ctx) }),
	)
}

// untilWoken is a rest that no time ends, so that no loop runs because of the time that passes.
func untilWoken(ctx context.Context, _ time.Duration, wake <-chan struct{}) bool {
	select {
	case <-ctx.Done():
	case <-wake:
	}
	return ctx.Err() == nil
}

func trace(dir string, what func() error) error {
	//nolint:gosec // the test that starts it names the folder
	return errors.Join(os.Mkdir(dir, 0o700), coverage.ClearCounters(), what(), coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
}
