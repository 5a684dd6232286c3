// Package sendtest has the ground of the rooms' tests: the services on a real database and the emulator of Twilio,
// on one clock that stands still; and a process that dies, or sees an error, at any call of a port.
package sendtest

import (
	"bytes"
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
	"paceline.internal/emulators/subscriber"
	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const (
	account = "AC0123456789abcdef0123456789abcdef"
	token   = "0123456789abcdef0123456789abcdef"
	// SecondAccount is another account, with the number Seconds.
	SecondAccount = "ACbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	secondToken   = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	secondKey     = "SKbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	// Seconds is the number of a second sender.
	Seconds = "+14155550110"
	// Ours is the sender.
	Ours = "+14155550100"
	// Theirs is the person.
	Theirs = "+14155550123"
	// Body is the body of Request.
	Body = "Hi Ana, welcome aboard."
	// Key is the key of Request.
	Key = "onboarding:p:s:1"
	// Lease is the lease of Service.
	Lease = 30 * time.Second
	// Interval is the interval of Reconciler.
	Interval = 30 * time.Second
	// OutreachInterval is the interval of Limiter.
	OutreachInterval = 500 * time.Millisecond
)

// Bundle is the services on a real database and the emulator of Twilio.
type Bundle struct {
	T        testing.TB
	Pool     *pgxpool.Pool
	Store    Store
	Clock    *clock.Settable
	Emulator *emulator.Emulator
	Carrier  *twilio.Client
	Senders  *senders.Directory // of the environment, and those that a test stores
	Config   send.Config
	Copy     inbound.ReplyCopy
	Logged   *Log

	inboxMetrics *inbound.Metrics

	mu       sync.Mutex
	receiver *send.Service // who takes the receipts
}

// Setup makes a bundle with a clock that shows noon.
func Setup(tb testing.TB) *Bundle {
	tb.Helper()
	b := &Bundle{T: tb, Pool: pgtest.New(tb, schema.Migrations()), Logged: &Log{}}
	subscriber.Watch(tb, b.Pool, "event_outbox")
	b.Store = NewStore(b.Pool)
	b.Clock = clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	var err error
	b.Emulator, err = emulator.New(emulator.Config{
		Clock: b.Clock, AccountSID: account, AuthToken: token,
		Numbers: []string{Ours}, Others: []emulator.Account{{
			SID: SecondAccount, AuthToken: secondToken, APIKeys: map[string]string{secondKey: secondToken},
			Numbers: []string{Seconds, "+14155550111"},
		}},
	})
	require.NoError(tb, err)
	api := httptest.NewServer(b.Emulator)
	tb.Cleanup(api.Close)
	gateway := httptest.NewServer(http.HandlerFunc(b.takeReceipt))
	tb.Cleanup(gateway.Close)
	tb.Cleanup(b.Emulator.Close)
	b.Carrier, err = twilio.New(twilio.Config{AccountSID: account, AuthToken: token, APIURL: api.URL, FromNumber: Ours})
	require.NoError(tb, err)
	tb.Cleanup(b.Carrier.Close)
	meter := noop.NewMeterProvider().Meter("test")
	metrics, err := send.NewMetrics(meter)
	require.NoError(tb, err)
	b.inboxMetrics, err = inbound.NewMetrics(meter)
	require.NoError(tb, err)
	b.Senders = senders.New(senders.Config{
		Store: senders.NewStore(b.Pool), Environment: senders.Sender{
			OrgID: uuid.Must(uuid.NewV7()), AccountSID: account, Number: Ours, Rate: 100, Status: senders.Active,
		}, APIURL: api.URL, Timeout: time.Second, Now: b.Clock.Now, Transport: b.Carrier.Transport(),
	})
	b.Config = send.Config{
		Store: b.Store, Evidence: b.Store, Carrier: b.Carrier, Senders: b.Senders,
		Numbers:   phone.Policy{Kinds: phone.Kinds{phone.Personal}}, // the numbers that Twilio has for tests are such
		PublicURL: gateway.URL, Timeout: time.Second, Lease: Lease, StopWait: 10 * time.Second, Now: b.Clock.Now,
		Log: slog.New(slog.NewJSONHandler(b.Logged, nil)), Metrics: metrics,
	}
	b.Config.Limiter = b.Limiter()
	b.receiver = send.New(b.Config)
	return b
}

// Limiter are the bundle's: one message of outreach in Interval of OutreachInterval, of a sender that sends a hundred segments a second.
func (b *Bundle) Limiter() *outbound.Outreach {
	return &outbound.Outreach{
		Store: outbound.NewStore(b.Pool), Senders: b.Config.Senders, Interval: OutreachInterval,
	}
}

// AddSender stores a sender of the second account for an organisation.
func (b *Bundle) AddSender(org uuid.UUID, number string, change func(*senders.Sender)) senders.Sender {
	b.T.Helper()
	if b.Senders.Keyset == nil {
		keyset, err := senders.NextKeyset("")
		require.NoError(b.T, err)
		cfg := b.Senders.Config
		cfg.Keyset, err = senders.ParseKeyset(keyset)
		require.NoError(b.T, err)
		b.Senders = senders.New(cfg)
		b.Config.Senders = b.Senders
		b.Config.Limiter = b.Limiter()
		b.TakeReceipts(b.Service(nil))
	}
	s := senders.Sender{OrgID: org, Name: "second", AccountSID: SecondAccount, APIKeySID: secondKey, Number: number, Rate: 100}
	if change != nil {
		change(&s)
	}
	stored, err := b.Senders.Create(b.T.Context(), s, senders.Credentials{APIKeySecret: secondToken, AuthToken: secondToken})
	require.NoError(b.T, err)
	return stored
}

// Silent is a Twilio that sends no receipts, for a test that says so itself.
var Silent = emulator.Script{OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} }}

// Log is a buffer that several goroutines log to.
type Log struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

// String is everything that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// takeReceipt does what the gateway does with a status callback. The process that takes it may die before it answers.
func (b *Bundle) takeReceipt(w http.ResponseWriter, r *http.Request) {
	receiver := b.current()
	taken := receiver == nil
	Within(func() {
		if taken || r.ParseForm() != nil {
			return
		}
		id, _ := uuid.Parse(r.URL.Query().Get("message_id"))
		code, _ := strconv.Atoi(r.PostForm.Get("ErrorCode"))
		raw := map[string]string{}
		for name := range r.PostForm {
			raw[name] = r.PostForm.Get(name)
		}
		signer := r.PostForm.Get("AccountSid")
		if signer == account {
			signer = "" // as the gateway says it of the environment's
		}
		_, err := receiver.RecordStatus(r.Context(), send.Receipt{
			Account:   signer,
			MessageID: id, SID: r.PostForm.Get("MessageSid"), Status: r.PostForm.Get("MessageStatus"), ErrorCode: code, Raw: raw, At: b.Clock.Now(),
		})
		taken = err == nil
	})
	if !taken {
		http.Error(w, "", http.StatusInternalServerError)
	}
}

func (b *Bundle) current() *send.Service {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.receiver
}

// Service is one on the bundle's database, with something changed.
func (b *Bundle) Service(change func(*send.Config)) *send.Service {
	cfg := b.Config
	if change != nil {
		change(&cfg)
	}
	return send.New(cfg)
}

// Consents takes what is said elsewhere than in a message, next to a way of sending.
func (b *Bundle) Consents(sending *send.Service) *ledger.Service {
	return &ledger.Service{Store: b.Store.Consents.Store, InFlight: sending}
}

// Inbox is one on the bundle's database, with something changed.
func (b *Bundle) Inbox(sending *send.Service, change func(*inbound.Config)) *inbound.Service {
	cfg := inbound.Config{
		Store: b.Store, Twilio: b.Carrier, Send: sending, Copy: b.Copy, Now: b.Clock.Now, Log: b.Config.Log,
		Metrics: b.inboxMetrics,
	}
	if change != nil {
		change(&cfg)
	}
	return inbound.New(cfg)
}

// Reconciler is one on the bundle's database, with something changed.
func (b *Bundle) Reconciler(change func(*send.ReconcilerConfig)) *send.Reconciler {
	cfg := send.ReconcilerConfig{
		Store: b.Store, Carrier: b.Carrier, Senders: b.Senders, Interval: Interval, Timeout: b.Config.Timeout, Now: b.Clock.Now,
		Log: b.Config.Log, Metrics: b.Config.Metrics,
	}
	if change != nil {
		change(&cfg)
	}
	return send.NewReconciler(cfg)
}

// Reconcile does one batch of what is due.
func (b *Bundle) Reconcile() {
	b.T.Helper()
	_, err := b.Reconciler(nil).Once(b.T.Context())
	require.NoError(b.T, err)
}

// Request is one for the person.
func (b *Bundle) Request() send.Request {
	return send.Request{
		OrgID: b.Config.Senders.Environment.OrgID, ProfileID: uuid.MustParse("0190a000-0000-7000-8000-000000000001"),
		To: Phone(b.T, Theirs), Body: Body, Key: Key, CorrelationID: "c-1",
	}
}

// Send asks for a message under a key; empty stands for the key of Request.
func (b *Bundle) Send(key string) send.Result {
	b.T.Helper()
	r := b.Request()
	if key != "" {
		r.Key = key
	}
	result, err := b.Service(nil).Send(b.T.Context(), r)
	require.NoError(b.T, err)
	return result
}

// Phone is a number in E.164.
func Phone(tb testing.TB, e164 string) sms.Phone {
	tb.Helper()
	p, err := sms.ParsePhone(e164)
	require.NoError(tb, err)
	return p
}

// Inbound returns what the person writes to us.
func (b *Bundle) Inbound(sid, words string) inbound.Inbound {
	return inbound.Inbound{SID: sid, From: Phone(b.T, Theirs), To: Ours, Body: words, Segments: 1}
}

// Receive records it.
func (b *Bundle) Receive(sid, words string) send.Message {
	b.T.Helper()
	m, err := b.Inbox(b.Service(nil), nil).RecordInbound(b.T.Context(), b.Inbound(sid, words))
	require.NoError(b.T, err)
	return m
}

// Report records what Twilio reports now, and says whether there is such a message.
func (b *Bundle) Report(r send.Receipt) (matched bool) {
	b.T.Helper()
	r.At = b.Clock.Now()
	matched, err := b.Service(nil).RecordStatus(b.T.Context(), r)
	require.NoError(b.T, err)
	return matched
}

// AwaitBlocked waits until a backend of the database waits for a lock; Postgres has no signal for that.
func (b *Bundle) AwaitBlocked() {
	b.T.Helper()
	require.Eventually(b.T, func() bool {
		var waiting bool
		err := b.Pool.QueryRow(b.T.Context(),
			"select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')").Scan(&waiting)
		return err == nil && waiting
	}, 10*time.Second, 2*time.Millisecond)
}

// Hold puts the person on a safety hold, or lifts it.
func (b *Bundle) Hold(held bool, version int64) {
	b.T.Helper()
	require.NoError(b.T, b.Consents(b.Service(nil)).SetHold(b.T.Context(), b.HoldOf(held, version)))
}

// HoldOf is such a hold.
func (b *Bundle) HoldOf(held bool, version int64) ledger.Hold {
	return ledger.Hold{OrgID: b.Config.Senders.Environment.OrgID, Phone: Phone(b.T, Theirs), Held: held, Version: version, At: b.Clock.Now()}
}

// Pass lets time pass and every receipt that falls due arrive.
func (b *Bundle) Pass(d time.Duration) {
	b.T.Helper()
	for step := 100 * time.Millisecond; d > 0; d -= step {
		b.Clock.Advance(min(step, d))
		require.NoError(b.T, b.Emulator.Idle(b.T.Context()))
	}
}

// Sent returns what reached Twilio from us.
func (b *Bundle) Sent() []emulator.Message {
	var all []emulator.Message
	for _, m := range b.Emulator.Messages() {
		if m.Direction == emulator.DirectionAPI {
			all = append(all, m)
		}
	}
	return all
}

// Stored is the one outbound row.
func (b *Bundle) Stored() send.Message {
	b.T.Helper()
	found, err := b.Store.Messages(b.T.Context(), send.Query{
		OrgID: b.Config.Senders.Environment.OrgID, Key: b.Request().Key, Before: uuid.Max, Limit: 2,
	})
	require.NoError(b.T, err)
	require.Len(b.T, found, 1)
	return found[0]
}

// Ledger returns the whole ledger of the person.
func (b *Bundle) Ledger() ledger.Ledger {
	b.T.Helper()
	found, err := b.Store.Consent(b.T.Context(), b.Config.Senders.Environment.OrgID, Phone(b.T, Theirs), ledger.Page{Limit: edge.LargestPage})
	require.NoError(b.T, err)
	return found
}
