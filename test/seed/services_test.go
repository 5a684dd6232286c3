package seed_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/process"
)

// TestServicesSendNothingToThoseWhoWereSeeded runs the product on their databases, two days later, until its loops have come to rest many
// times.
func TestServicesSendNothingToThoseWhoWereSeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	cfg, urls := seeded(t, 2_000)
	later := clock.NewSettable(now.Add(48 * time.Hour))
	vendors, err := stack.StartVendors(t.Context(), stack.VendorConfig{Clock: later, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, vendors.Stop(context.WithoutCancel(t.Context()))) }()
	var rests atomic.Int64
	rested := make(chan struct{})
	services, err := stack.StartServices(t.Context(), vendors, stack.ServiceConfig{
		OnboardingDatabaseURL: urls[0], MessagingDatabaseURL: urls[1], Log: slog.New(slog.DiscardHandler),
		Secrets: stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()},
		Rest: func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
			if rests.Add(1) == 200 {
				close(rested)
			}
			return process.RestOnMachineClock(ctx, min(d, 100*time.Millisecond), wake)
		},
	})
	require.NoError(t, err)
	select {
	case <-rested:
	case <-services.Ended():
		require.Fail(t, "the services ended")
	}
	require.NoError(t, services.Stop(context.WithoutCancel(t.Context())))

	require.Empty(t, vendors.Twilio.Messages())
	require.Equal(t, 20_000, count(t, cfg.Messaging, `select count(*) from sms_messages`))
	require.Zero(t, count(t, cfg.Onboarding, `select count(*) from step_alarms`))
	require.Zero(t, count(t, cfg.Onboarding, `select count(*) from engagement_outreach where status <> 'failed'`))
}
