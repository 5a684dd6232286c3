package outbound_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

// TestRateIsKeptForEachSender: an organisation with a backlog keeps no other one waiting, and each sends as fast as its own sender may.
func TestRateIsKeptForEachSender(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := uuid.Must(uuid.NewV7())
	b.AddSender(other, sendtest.Seconds, func(s *senders.Sender) { s.Rate = 2 })
	cfg := b.Senders.Config
	cfg.Environment.Rate = 1
	known := senders.New(cfg)
	b.send = b.Service(func(c *send.Config) { c.Senders = known })
	b.intake.Senders = known
	for n := range 60 {
		b.enqueue(func(r *outbound.Request) { r.To = sendtest.Phone(t, fmt.Sprintf("+141555501%02d", n)) })
	}
	for range 6 {
		b.enqueue(func(r *outbound.Request) { r.OrgID = other })
	}
	sent := func() map[string]int {
		by := map[string]int{}
		for _, m := range b.Sent() {
			by[m.From]++
		}
		return by
	}
	runner := b.runner(func(c *outbound.Config) { c.Senders = known })
	drain := func() {
		_, err := runner.Drain(t.Context())
		require.NoError(t, err)
	}
	drain()
	require.Equal(t, map[string]int{sendtest.Ours: 1, sendtest.Seconds: 2}, sent(), "what one second allows each")
	for range 4 {
		b.Clock.Advance(500 * time.Millisecond)
		drain()
	}
	require.Equal(t, map[string]int{sendtest.Ours: 3, sendtest.Seconds: 6}, sent(), "two seconds later")
}

// TestFloodLeavesWorkers: while every message of a flood hangs at Twilio, those of another organisation find a worker at once.
func TestFloodLeavesWorkers(t *testing.T) {
	t.Parallel()
	const theirShare, inFlood, meets = 24, 40, 20
	b := setup(t)
	other := uuid.Must(uuid.NewV7())
	b.AddSender(other, sendtest.Seconds, func(s *senders.Sender) { s.Rate = 100 })
	cfg := b.Senders.Config
	cfg.Environment.Rate = 100
	known := senders.New(cfg)
	b.intake.Senders = known
	var hanging, most atomic.Int64
	release := make(chan struct{})
	service := b.Service(func(c *send.Config) {
		c.Senders = known
		c.Store = sendtest.Claims{Store: b.Store, Around: func(ctx context.Context, a send.Attempt) (send.Claim, error) {
			if a.OrgID != other {
				now := hanging.Add(1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				<-release
				hanging.Add(-1)
			}
			return b.Store.Claim(ctx, a)
		}}
	})
	for n := range inFlood {
		b.enqueue(func(r *outbound.Request) { r.To = sendtest.Phone(t, fmt.Sprintf("+141555501%02d", n)) })
	}
	wake, ended := make(chan struct{}, 1), make(chan error, 1)
	runner := b.runner(func(c *outbound.Config) { c.Senders, c.Send, c.Wake, c.Timeout = known, service, wake, time.Hour })
	go func() {
		_, err := runner.Drain(t.Context())
		ended <- err
	}()
	require.Eventually(t, func() bool { return hanging.Load() == theirShare }, time.Minute, 5*time.Millisecond)
	b.intake.Wake = wake
	for n := range meets {
		b.enqueue(func(r *outbound.Request) { r.OrgID, r.To = other, sendtest.Phone(t, fmt.Sprintf("+141555502%02d", n)) })
	}
	require.Eventually(t, func() bool { return len(b.Sent()) == meets }, time.Minute, 5*time.Millisecond)
	close(release)
	require.NoError(t, <-ended)
	require.EqualValues(t, theirShare, most.Load())
	require.Len(t, b.Sent(), inFlood+meets)
}

func TestSuspendedOrganisationsWithWorkAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	suspended, idle, ended := b.sender.OrgID, uuid.New(), uuid.New()
	b.AddSender(ended, sendtest.Seconds, nil)
	for _, org := range []uuid.UUID{suspended, ended} {
		b.enqueue(func(r *outbound.Request) { r.OrgID = org })
	}
	counted := func() int64 {
		n, err := b.store.Suspended(t.Context())
		require.NoError(t, err)
		return n
	}
	require.Zero(t, counted())
	for org, status := range map[uuid.UUID]string{suspended: "suspended", idle: "suspended", ended: "ended"} {
		require.NoError(t, b.Store.SetOrganisation(t.Context(), org, status, 1, b.Clock.Now()))
	}
	require.EqualValues(t, 1, counted())
	require.NoError(t, b.Store.SetOrganisation(t.Context(), suspended, "active", 2, b.Clock.Now()))
	require.Zero(t, counted())
}
