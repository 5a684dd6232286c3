package delivery_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/delivery"
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
	body    = "Hi Ana, welcome aboard."
	lease   = 30 * time.Second
)

// bundle is the service on a real database and the emulator of Twilio, on one clock that stands still.
type bundle struct {
	t        *testing.T
	pool     *pgxpool.Pool
	store    *postgres.Store
	clock    *clock.Settable
	emulator *emulator.Emulator
	carrier  *twilio.Client
	config   delivery.Config
	logged   *bytes.Buffer

	mu       sync.Mutex
	receiver *delivery.Service // who takes the receipts
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t, postgres.Migrations()), logged: &bytes.Buffer{}}
	b.store = postgres.NewStore(b.pool)
	b.clock = clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	var err error
	b.emulator, err = emulator.New(emulator.Config{Clock: b.clock, AccountSID: account, AuthToken: token, Numbers: []string{ours}})
	require.NoError(t, err)
	api := httptest.NewServer(b.emulator)
	t.Cleanup(api.Close)
	gateway := httptest.NewServer(http.HandlerFunc(b.takeReceipt))
	t.Cleanup(gateway.Close)
	t.Cleanup(b.emulator.Close)
	b.carrier, err = twilio.New(twilio.Config{AccountSID: account, AuthToken: token, APIURL: api.URL, FromNumber: ours})
	require.NoError(t, err)
	t.Cleanup(b.carrier.Close)
	metrics, err := delivery.NewMetrics(noop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	b.config = delivery.Config{
		Store: b.store, Inbox: b.store, Doubts: b.store, Carrier: b.carrier,
		Sender:    delivery.Sender{OrgID: uuid.Must(uuid.NewV7()), Number: ours},
		PublicURL: gateway.URL, Timeout: time.Second, Lease: lease, StopWait: 10 * time.Second, Now: b.clock.Now,
		Log: slog.New(slog.NewJSONHandler(&guarded{w: b.logged}, nil)), Metrics: metrics,
	}
	b.receiver = delivery.New(b.config)
	return b
}

// silent is a Twilio that tells of no message what becomes of it, for a test that says so itself.
var silent = emulator.Script{OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} }}

// guarded is a buffer that several goroutines log to.
type guarded struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.w.Write(p)
}

// takeReceipt does what the gateway does with a status callback. Whoever takes it may die over it.
func (b *bundle) takeReceipt(w http.ResponseWriter, r *http.Request) {
	taken := false
	within(func() {
		if r.ParseForm() != nil {
			return
		}
		id, _ := uuid.Parse(r.URL.Query().Get("message_id"))
		code, _ := strconv.Atoi(r.PostForm.Get("ErrorCode"))
		raw := map[string]string{}
		for name := range r.PostForm {
			raw[name] = r.PostForm.Get(name)
		}
		_, err := b.current().RecordStatus(r.Context(), delivery.Receipt{
			MessageID: id, SID: r.PostForm.Get("MessageSid"), Status: r.PostForm.Get("MessageStatus"), ErrorCode: code, Raw: raw,
		})
		taken = err == nil
	})
	if !taken {
		http.Error(w, "", http.StatusInternalServerError)
	}
}

func (b *bundle) current() *delivery.Service {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.receiver
}

// service is one on the same database, with something changed.
func (b *bundle) service(change func(*delivery.Config)) *delivery.Service {
	cfg := b.config
	if change != nil {
		change(&cfg)
	}
	return delivery.New(cfg)
}

func (b *bundle) request() delivery.Request {
	return delivery.Request{
		OrgID: b.config.Sender.OrgID, ProfileID: uuid.MustParse("0190a000-0000-7000-8000-000000000001"),
		To: phone(b.t, theirs), Body: body, Key: "onboarding:p:s:1", CorrelationID: "c-1",
	}
}

func phone(t *testing.T, e164 string) sms.Phone {
	t.Helper()
	p, err := sms.ParsePhone(e164)
	require.NoError(t, err)
	return p
}

// text is what a person writes to us.
func (b *bundle) text(sid, words string) delivery.Text {
	return delivery.Text{SID: sid, From: phone(b.t, theirs), To: ours, Body: words, Segments: 1}
}

// pass lets time pass and every receipt that falls due arrive.
func (b *bundle) pass(d time.Duration) {
	b.t.Helper()
	for step := 100 * time.Millisecond; d > 0; d -= step {
		b.clock.Advance(min(step, d))
		require.NoError(b.t, b.emulator.Idle(b.t.Context()))
	}
}

// sent is what reached Twilio from us.
func (b *bundle) sent() []emulator.Message {
	var all []emulator.Message
	for _, m := range b.emulator.Messages() {
		if m.Direction == emulator.DirectionAPI {
			all = append(all, m)
		}
	}
	return all
}

// stored is the one outbound row.
func (b *bundle) stored() delivery.Message {
	b.t.Helper()
	found, err := b.store.Messages(b.t.Context(), delivery.Query{
		OrgID: b.config.Sender.OrgID, Key: b.request().Key, Before: uuid.Max, Limit: 2,
	})
	require.NoError(b.t, err)
	require.Len(b.t, found, 1)
	return found[0]
}

func (b *bundle) ledger() delivery.Ledger {
	b.t.Helper()
	ledger, err := b.store.Consent(b.t.Context(), b.config.Sender.OrgID, phone(b.t, theirs), delivery.LedgerPage{Limit: delivery.LargestLedgerPage})
	require.NoError(b.t, err)
	return ledger
}

// carrierFunc is a carrier that does something around the real call.
type carrierFunc func(ctx context.Context, out twilio.Outgoing) twilio.Outcome

// Fetch is not what it is for.
func (f carrierFunc) Fetch(context.Context, string) (twilio.Stored, error) {
	return twilio.Stored{}, twilio.ErrNotFound
}

func (f carrierFunc) Send(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
	return f(ctx, out)
}
