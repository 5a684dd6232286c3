package outbound_test

import (
	"fmt"
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
