// Package onboardingtest starts the whole onboarding service for tests, on a real database and between emulators.
package onboardingtest

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/emulators/subscriber"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/alarmclock"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/overview"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/tickets"
)

const (
	OrgID = "00000000-0000-7000-8000-000000000001"
	Ours  = "+14155550100"

	Grace       = time.Minute
	Generations = 3
)

// Bundle is the onboarding service of one test: on a real database, between the emulator of QStash and a fake messaging service, on one
// clock that stands still.
type Bundle struct {
	T         *testing.T
	Pool      *pgxpool.Pool
	Store     *onboarding.Stores
	Clock     *clock.Settable
	QStash    *emulator.Emulator
	alarms    outbox.Publisher
	ringsOwn  bool // our database is the one engine
	publisher *qstash.Publisher
	Messaging *messagingtest.Service
	Carrier   *messaging.Client
	Gateway   string // where QStash calls us
	Log       *Logbook
	Disabled  bool // the kill switch
	Flow      session.Flow
	Rules     rules.Config
	Outcome   messagingtest.Outcome // of the message that a test is about
	Host      *Host                 // is called by flows

	Skew   atomic.Int64 // by how much messaging's clock is ahead of our clock, a time.Duration
	people atomic.Int64
	owned  sync.Once
	owner  *pgxpool.Pool // see exec
	Serial atomic.Int64

	mu      sync.Mutex
	serving *Running // the process that answers callbacks
}

// Host is the application that flows call. It answers each key in the same way, as a host application has to.
type Host struct {
	mu     sync.Mutex
	Answer func(url string, body []byte) ([]byte, error) // nil fails
	Keys   []string                                      // of the calls
}

// Call answers a call of a flow.
func (h *Host) Call(_ context.Context, _, url, key string, _ time.Duration, body []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Keys = append(h.Keys, key)
	if h.Answer == nil {
		return nil, errors.New("no answer")
	}
	return h.Answer(url, body)
}

// Subtest runs a parallel subtest with a fresh setup.
func Subtest[S any](t *testing.T, name string, setup func(t *testing.T) S, run func(t *testing.T, s S)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t, setup(t))
	})
}

// AtOnce makes n equal calls at the same time and returns their errors.
func AtOnce(n int, call func() error) error {
	failures := make(chan error, n)
	for range n {
		go func() { failures <- call() }()
	}
	var all []error
	for range n {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

// New starts the service on an empty database.
func New(t *testing.T) *Bundle {
	t.Helper()
	b := &Bundle{
		T: t, Pool: pgtest.New(t, schema.Migrations()), Log: &Logbook{}, Flow: session.DefaultFlow(), Rules: rules.DefaultConfig(), Host: &Host{},
		Clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
	}
	t.Cleanup(func() { b.Log.HoldsNothingPersonal(t) })
	subscriber.Watch(t, b.Pool, "event_outbox")
	b.Store = onboarding.NewStores(b.Pool)
	b.Messaging = messagingtest.New(OrgID, Ours, func() time.Time { return b.Clock.Now().Add(time.Duration(b.Skew.Load())) })
	b.Carrier = messaging.New(b.Messaging.Client(t), b.Clock.Now)
	gateway := httptest.NewServer(http.HandlerFunc(b.takeCallback))
	t.Cleanup(gateway.Close)
	b.Gateway = gateway.URL
	b.QStash = emulator.New(emulator.Config{Clock: b.Clock})
	api := httptest.NewServer(b.QStash)
	t.Cleanup(api.Close)
	t.Cleanup(b.QStash.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := qstash.New(qstash.Config{URL: api.URL, Token: emulator.DevToken, HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	b.publisher, err = qstash.NewPublisher(qstash.PublisherConfig{
		Client: client, Origin: b.Gateway, Routes: []qstash.Route{conversation.StepRoute, goals.Route},
		HashKey: []byte("a key of the tests with over 32 bytes"), Log: slog.New(slog.NewJSONHandler(b.Log, nil)), Now: b.Clock.Now,
	})
	require.NoError(t, err)
	b.alarms = b.publisher
	b.Serve(b.Start(b.Healthy()))
	return b
}

// Running is one running service. Its ports may meet a mishap.
type Running struct {
	Ports    *Ports
	Server   *onboarding.Service
	People   *engagement.RPC
	Persons  *people.Service
	Goals    *goals.Service
	Service  *conversation.Service
	Inbound  *inbound.Service
	Inbox    *tickets.RPC
	Runs     *runs.Service
	Runner   *queue.Runner
	Outreach *queue.Runner
	Alarms   *queue.Runner // of ALARMS=postgres
	Timer    *alarmclock.Timer
	Relay    *outbox.Outbox[session.Alarm]
	Sweeper  *outbox.Sweeper[conversation.Overdue]
}

// Start wires a process as run.go does.
func (b *Bundle) Start(p *Ports) *Running {
	logger, now := slog.New(slog.NewJSONHandler(b.Log, nil)), b.Clock.Now
	follows := engagement.New(engagement.Config{
		Store: People{Ports: p}, Settings: People{Ports: p}, Carrier: p, Transient: func(err error) bool { return errors.Is(err, ErrMishap) }, Rules: b.Rules, Texts: catalog.DefaultEngagement(), Unknown: b.Flow.UnknownSends(), Log: logger, Now: now,
	})
	later := goals.NewService(goals.Config{
		Store: goalRows{p.Stores.Goals(), p}, Outbox: p.Stores.Goals().Alarms(), QStash: p, Messages: p, Reach: 7 * Day, RunLease: time.Minute,
		RunLimit: time.Hour, Log: logger, Now: now, Begin: func(ctx context.Context, _ goals.Alarm) (context.Context, func()) { return ctx, func() {} },
		Phone: &goals.TextPhone{Store: p, Carrier: p, Copy: catalog.DefaultEngagement(), Words: goals.DefaultWords(), Unknown: b.Flow.UnknownSends(), Now: now},
	})
	texts := &goals.Texts{
		Goals: later, Store: p, Carrier: p, Copy: catalog.DefaultEngagement(), Words: goals.DefaultWords(), Unknown: b.Flow.UnknownSends(),
		Log: logger, Now: now,
	}
	service := conversation.New(conversation.Config{
		OrgID: OrgID, Store: p, Carrier: p, Outbox: outboxRows{p}, QStash: p, Flow: b.Flow, Catalog: catalog.Default(),
		Flows: b.Store.Flows(), Host: b.Host,
		SchedulingDisabled: b.Disabled, Log: logger, Now: now,
	})
	persons := people.New(people.Config{
		Store: p, Carrier: p, Words: service, Flows: b.Store.Flows(), Catalog: catalog.Default(), Texts: catalog.DefaultEngagement(), Log: logger,
		Now: now, Settings: p.Stores.People(),
	})
	inbox := tickets.New(tickets.Config{
		Store: ticketRows{p.Stores.Tickets(), p}, Carrier: p, Holds: persons, Quiet: p.Stores.People(), Sessions: service, Log: logger, Now: now,
	})
	comes := inbound.New(inbound.Config{
		Inbox: inbox,
		OrgID: OrgID, Store: p, Carrier: p, Engagement: follows, Goals: texts, Conversations: service, Flows: b.Store.Flows(), People: persons,
		Log: logger, Now: now,
	})
	many := runs.New(runs.Config{
		Store: p.runs(), People: p.Stores.Runs(), Flows: b.Store.Flows(), Conversations: service, Carrier: p.carrier, Notify: func() {},
		Rest: b.leap, Log: logger, Now: now,
	})
	handlers, giveUp := many.Handle(comes.Handlers(), comes.GiveUp)
	service.Jobs = queue.NewRunner(queue.Config{
		Name: conversation.JobsTable, Store: Jobs{Ports: p, Queue: p.Stores.Jobs()}, Log: logger, Now: now, GiveUp: giveUp, Handlers: handlers,
	})
	comes.Jobs, inbox.Jobs = service.Jobs, service.Jobs
	outreach := queue.NewRunner(queue.Config{
		Name: engagement.OutreachTable, Store: Jobs{Ports: p, Queue: p.Stores.Engagement().Queue()}, Log: logger, Now: now, GiveUp: follows.GiveUp,
		Handlers: follows.Handlers(), Backoff: engagement.OutreachBackoff, Admit: follows.Admit,
	})
	timer, rings := b.clocks(p, service, later, logger)
	failures, err := dedup.New(&dedup.Postgres{Pool: b.Pool}, dedup.Lock, logger, now)
	require.NoError(b.T, err)
	return &Running{
		Ports: p, Goals: later, Service: service, Inbound: comes, Runner: service.Jobs, Outreach: outreach, Relay: service.Alarms,
		Persons: persons, Runs: many, Alarms: rings, Timer: timer,
		Server: onboarding.NewService(
			&people.RPC{People: persons, Store: b.Store.People(), Erasure: b.Store.Erasures(), Now: now},
			&conversation.RPC{Conversations: service, Store: b.Store.Conversations(), Engagement: catalog.DefaultEngagement(), Now: now},
			&inbound.RPC{Inbound: comes, Conversations: b.Store.Conversations(), Failures: failures, Notify: func() {}, Now: now},
			nil, &onboarding.Operations{RPC: &overview.RPC{
				Store: b.Store.Overviews(), Pauses: b.Store.People(), SchedulingDisabled: b.Disabled, Now: now,
			}},
		),
		Inbox:   &tickets.RPC{Tickets: inbox, Store: b.Store.Tickets(), People: b.Store, Now: now},
		People:  &engagement.RPC{People: follows, Store: b.Store.Engagement(), Now: now},
		Sweeper: service.Sweeper(outbox.Policy{Grace: Grace, MaxGenerations: Generations}),
	}
}

// leap rests on the clock of the test.
func (b *Bundle) leap(ctx context.Context, d time.Duration, _ <-chan struct{}) bool {
	b.Clock.Advance(d)
	return ctx.Err() == nil
}

// Healthy returns ports that meet no mishap.
func (b *Bundle) Healthy() *Ports {
	return &Ports{Stores: b.Store, carrier: b.Carrier, alarms: b.alarms}
}

// Serve makes p the process that answers from now on.
func (b *Bundle) Serve(p *Running) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = p
}

// Current returns the process that answers. A dead one is replaced by a healthy one first.
func (b *Bundle) Current() *Running {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serving.Ports.Dead() {
		b.serving = b.Start(b.Healthy())
	}
	return b.serving
}

// Count returns the number of rows that a query counts.
func (b *Bundle) Count(sql string, args ...any) int {
	b.T.Helper()
	var n int
	require.NoError(b.T, b.Pool.QueryRow(b.T.Context(), sql, args...).Scan(&n))
	return n
}

// Exec runs a statement as the owner of the tables, because the service may not.
func (b *Bundle) Exec(sql string, args ...any) {
	b.T.Helper()
	b.owned.Do(func() { b.owner = pgtest.Owner(b.T, b.Pool) })
	_, err := b.owner.Exec(b.T.Context(), sql, args...)
	require.NoError(b.T, err)
}

// NewID returns a new UUID.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Main runs the tests of a package that starts the service.
func Main(m *testing.M) {
	if checks := flag.Lookup("rapid.checks"); checks != nil { // of a package with properties
		// A check of a property is a whole conversation here. -rapid.checks=1000 asks for more.
		if err := checks.Value.Set("10"); err != nil {
			panic(err)
		}
	}
	pgtest.Run(m)
}
