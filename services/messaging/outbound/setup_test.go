package outbound_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/twilio"
	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	account = "AC0123456789abcdef0123456789abcdef"
	token   = "0123456789abcdef0123456789abcdef"
	ours    = "+14155550100"
	theirs  = "+14155550123"
)

// bundle is the queue on a real database, the one Send and the emulator of Twilio, on one clock that stands still.
type bundle struct {
	t        *testing.T
	pool     *pgxpool.Pool
	store    *postgres.Outbound
	messages *postgres.Store
	clock    *clock.Settable
	emulator *emulator.Emulator
	send     *delivery.Service
	sender   delivery.Sender
	tally    *outbound.Tally
	desk     *outbound.Desk
	rate     float64
	logged   *guarded
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t, postgres.Migrations()), tally: new(outbound.Tally), rate: 100, logged: &guarded{}}
	b.store, b.messages = postgres.NewOutbound(b.pool), postgres.NewStore(b.pool)
	b.clock = clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	b.sender = delivery.Sender{OrgID: uuid.Must(uuid.NewV7()), Number: ours}
	var err error
	b.emulator, err = emulator.New(emulator.Config{Clock: b.clock, AccountSID: account, AuthToken: token, Numbers: []string{ours}})
	require.NoError(t, err)
	api := httptest.NewServer(b.emulator)
	t.Cleanup(api.Close)
	receipts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // heard, and not taken to heart
	t.Cleanup(receipts.Close)
	t.Cleanup(b.emulator.Close)
	carrier, err := twilio.New(twilio.Config{AccountSID: account, AuthToken: token, APIURL: api.URL, FromNumber: ours})
	require.NoError(t, err)
	t.Cleanup(carrier.Close)
	metrics, err := delivery.NewMetrics(noop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	b.send = delivery.New(delivery.Config{
		Store: b.messages, Inbox: b.messages, Doubts: b.messages, Carrier: carrier, Sender: b.sender, PublicURL: receipts.URL,
		Timeout: time.Second, Lease: 30 * time.Second, StopWait: 10 * time.Second, Now: b.clock.Now, Log: b.log(), Metrics: metrics,
	})
	b.desk = &outbound.Desk{Store: b.store, Sender: b.sender, Log: b.log(), Now: b.clock.Now}
	return b
}

func (b *bundle) log() *slog.Logger { return slog.New(slog.NewJSONHandler(b.logged, nil)) }

// guarded is a buffer that several goroutines log to.
type guarded struct {
	mu sync.Mutex
	bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Buffer.Write(p)
}

// runner is a process of its own on the same database, with something changed.
func (b *bundle) runner(change func(*outbound.Config)) *outbound.Runner {
	b.t.Helper()
	cfg := outbound.Config{
		Jobs: b.store.Jobs(), Store: b.store, Rates: b.store, Send: b.send, Sender: b.sender, Pace: outbound.NewPace(b.rate), Tally: b.tally,
		Timeout: time.Second, Poll: 5 * time.Second, Log: b.log(), Now: b.clock.Now, Transient: platform.Outage,
	}
	if change != nil {
		change(&cfg)
	}
	r, err := outbound.NewRunner(cfg)
	require.NoError(b.t, err)
	return r
}

// drain sends what is due and allowed now, and says how many jobs were run.
func (b *bundle) drain() int {
	b.t.Helper()
	n, err := b.runner(nil).Drain(b.t.Context())
	require.NoError(b.t, err)
	return n
}

// pass lets time pass in small steps, and the queue work after each.
func (b *bundle) pass(d, step time.Duration) {
	b.t.Helper()
	for ; d > 0; d -= step {
		b.clock.Advance(min(step, d))
		b.drain()
	}
}

func (b *bundle) request() outbound.Request {
	return outbound.Request{
		OrgID: b.sender.OrgID, Key: uuid.NewString(), To: phone(b.t, theirs), Body: "See you at noon.", Purpose: outbound.Reminder,
	}
}

func (b *bundle) enqueue(change func(*outbound.Request)) outbound.Text {
	b.t.Helper()
	r := b.request()
	if change != nil {
		change(&r)
	}
	stored, duplicate, err := b.desk.Enqueue(b.t.Context(), r)
	require.NoError(b.t, err)
	require.False(b.t, duplicate)
	return stored
}

func (b *bundle) text(id uuid.UUID) outbound.Text {
	b.t.Helper()
	found, err := b.desk.Get(b.t.Context(), b.sender.OrgID, id)
	require.NoError(b.t, err)
	return found
}

// say is what the person writes to us.
func (b *bundle) say(words string) {
	b.t.Helper()
	_, err := b.send.RecordInbound(b.t.Context(), delivery.Text{
		SID: "SM" + uuid.NewString(), From: phone(b.t, theirs), To: ours, Body: words, Segments: 1,
	})
	require.NoError(b.t, err)
}

// hold puts the person on a safety hold, or lifts it.
func (b *bundle) hold(held bool, version int64) {
	b.t.Helper()
	h := delivery.Hold{OrgID: b.sender.OrgID, Phone: phone(b.t, theirs), Held: held, Version: version}
	require.NoError(b.t, b.send.SetHold(b.t.Context(), h))
}

// sent are the bodies that Twilio got, in order.
func (b *bundle) sent() (bodies []string) {
	for _, m := range b.emulator.Messages() {
		if m.Direction == emulator.DirectionAPI {
			bodies = append(bodies, m.Body)
		}
	}
	return bodies
}

func phone(t *testing.T, e164 string) sms.Phone {
	t.Helper()
	p, err := sms.ParsePhone(e164)
	require.NoError(t, err)
	return p
}

// sendFunc is a Send that does something around the real one.
type sendFunc func(ctx context.Context, r delivery.Request) (delivery.Result, error)

func (f sendFunc) Send(ctx context.Context, r delivery.Request) (delivery.Result, error) {
	return f(ctx, r)
}
