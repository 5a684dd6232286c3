package outbound_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const theirs = sendtest.Theirs

// bundle is sendtest's with the queue.
type bundle struct {
	*sendtest.Bundle

	store  *outbound.Store
	send   *send.Service
	sender senders.Sender
	tally  *outbound.Tally
	intake *outbound.Intake
	rate   float64
}

func setup(t testing.TB) *bundle {
	t.Helper()
	b := &bundle{Bundle: sendtest.Setup(t), tally: new(outbound.Tally), rate: 100}
	b.TakeReceipts(nil)
	b.store, b.send, b.sender = outbound.NewStore(b.Pool), b.Service(nil), b.Senders.Environment
	b.intake = &outbound.Intake{Store: b.store, Send: b.Service(nil), Senders: b.Senders, Log: b.Config.Log, Now: b.Clock.Now}
	return b
}

// runner is its own process on the same database, with something changed.
func (b *bundle) runner(change func(*outbound.Config)) *outbound.Runner {
	b.T.Helper()
	cfg := outbound.Config{
		Store: b.store, Send: b.send, Senders: b.atRate(), Tally: b.tally,
		Timeout: time.Second, Poll: 5 * time.Second, Log: b.Config.Log, Now: b.Clock.Now, Transient: platform.Outage,
	}
	if change != nil {
		change(&cfg)
	}
	return outbound.NewRunner(cfg)
}

// atRate are the senders, with the rate of the bundle.
func (b *bundle) atRate() *senders.Directory {
	cfg := b.Senders.Config
	cfg.Environment.Rate = b.rate
	return senders.New(cfg)
}

// drain sends what is due and allowed now, and says how many jobs were run.
func (b *bundle) drain() int {
	b.T.Helper()
	n, err := b.runner(nil).Drain(b.T.Context())
	require.NoError(b.T, err)
	return n
}

// pass lets time pass in small steps, and the queue work after each.
func (b *bundle) pass(d, step time.Duration) {
	b.T.Helper()
	for ; d > 0; d -= step {
		b.Clock.Advance(min(step, d))
		b.drain()
	}
}

func (b *bundle) request() outbound.Request {
	return outbound.Request{
		OrgID: b.sender.OrgID, Key: uuid.NewString(), To: sendtest.Phone(b.T, theirs), Body: "See you at noon.", Purpose: outbound.Reminder,
	}
}

func (b *bundle) enqueue(change func(*outbound.Request)) outbound.Queued {
	b.T.Helper()
	r := b.request()
	if change != nil {
		change(&r)
	}
	stored, duplicate, err := b.intake.Enqueue(b.T.Context(), r)
	require.NoError(b.T, err)
	require.False(b.T, duplicate)
	return stored
}

func (b *bundle) queued(id uuid.UUID) outbound.Queued {
	b.T.Helper()
	found, err := b.store.Queued(b.T.Context(), b.sender.OrgID, id)
	require.NoError(b.T, err)
	return found
}

// say returns what the person writes to us.
func (b *bundle) say(words string) {
	b.T.Helper()
	b.Receive("SM"+uuid.NewString(), words)
}

// sent are the bodies that Twilio got, in order.
func (b *bundle) sent() (bodies []string) {
	for _, m := range b.Emulator.Messages() {
		if m.Direction == emulator.DirectionAPI {
			bodies = append(bodies, m.Body)
		}
	}
	return bodies
}

// claiming is a Send that does something around its claims.
func (b *bundle) claiming(around func(ctx context.Context, a send.Attempt) (send.Claim, error)) *send.Service {
	return b.Service(func(c *send.Config) { c.Store = sendtest.Claims{Store: b.Store, Around: around} })
}
