// Package onboarding is the onboarding service: this file names every concrete type, top to bottom as the data flows.
package onboarding

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"google.golang.org/grpc"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/audit"
	"paceline.internal/services/onboarding/burst"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/enrolment"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/messaging"
	store "paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/rescue"
	"paceline.internal/services/onboarding/reservation"
	"paceline.internal/services/onboarding/server"
	"paceline.internal/services/onboarding/webhooks"
)

// name is what logs, spans and metrics call this service.
const name = "onboarding"

const (
	// stepTimeout bounds one RPC: the longest is a step, with a call to Twilio inside a call to messaging.
	stepTimeout = messaging.Timeout + 5*time.Second
	// sweepInterval is how often the sweeper looks, at the least.
	sweepInterval = 15 * time.Second
	// jobWorkers is how many jobs are at work at a time: each spends most of its time waiting for messaging and Twilio.
	jobWorkers = 16
	// maxRequest holds a webhook of a megabyte, which is Shopify's, twice as long once it is stored as JSON.
	maxRequest = 3 << 20
	// stopLoops bounds the end of a loop, which finishes the job or the publish it is at.
	stopLoops = 30 * time.Second
)

// Migrations is the schema of the onboarding database.
func Migrations() postgres.Migrations { return store.Migrations() }

// Migrate brings the database to the schema that this binary needs. Any number of processes may do so at once.
func Migrate(ctx context.Context, cfg Config) error {
	schema := Migrations()
	schema.Log = telemetry.NewLogger(os.Stdout, cfg.Telemetry, name)
	return schema.Up(ctx, cmp.Or(cfg.DirectURL.Reveal(), cfg.DatabaseURL.Reveal()))
}

// Run serves until ctx ends, then finishes what is in flight and returns nil. It does not migrate: on a database that
// is behind, /readyz says so.
//
// An orchestrator has to wait before it kills, at most: 20 s for calls in flight, 10 s for the ops port, 30 s for each of
// the jobs, their retention, the relay, the sweeper and the inbound audit, 10 s for each of the wake-ups, the bell and the holds, 5 s for
// the last spans, and a second for each.
func Run(ctx context.Context, cfg Config, deps process.Deps) (err error) {
	ctx = postgres.AcrossOrganisations(ctx) // what works without being called works for all; a call has a scope of its own
	tel, err := telemetry.New(ctx, telemetry.Options{
		Service: name, Config: cfg.Telemetry, Output: os.Stdout, Registry: telemetry.NewRegistry(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Shutdown(context.WithoutCancel(ctx))) }()
	deps.Fill(tel.Log)
	s, err := wire(ctx, cfg, deps, tel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	loops, err := process.NewLoops(tel.Meter.Meter(name), deps.Log, deps.PassBound)
	if err != nil {
		return err
	}
	components := s.loops(cfg, loops, deps.Rest)
	if err := deps.Listen(ctx, "ONBOARDING", cfg.Addr, cfg.OpsAddr); err != nil {
		return err
	}
	process.LogPlainText(ctx, deps.Log, cfg.TLS, cfg.Addr, cfg.MessagingAddr)
	ready := func(ctx context.Context) error { return errors.Join(loops.Ready(), s.ready(ctx)) }
	if err := ready(ctx); err != nil { // it may be migrated while we wait; until then /readyz says the same
		deps.Log.ErrorContext(ctx, "onboarding.not_ready", "error", err)
	}
	ops := telemetry.OpsServer(telemetry.OpsHandler(telemetry.OpsConfig{
		Registry: tel.Registry, Addr: cfg.OpsAddr, Config: cfg, Ready: ready, Queues: s.queues(deps.Now),
	}))
	return process.Run(ctx, deps.Log, append(components,
		process.HTTPServer("ops", ops, deps.OpsListener),
		bounded(process.GRPCServer("grpc", s.grpc.Server, deps.Listener, s.grpc.Health), stepTimeout),
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }},
	)...)
}

// wired is the service with every part in its place.
type wired struct {
	pool      *postgres.Pool
	messaging *grpc.ClientConn
	redis     *reservation.Redis // nil without REDIS_URL
	runner    *jobs.Runner
	jobs      *queue.Queue
	relay     *burst.Relay
	sweeper   *burst.Sweeper
	auditor   *audit.Auditor
	desk      *enrolment.Desk
	grpc      *rpc.Server
	notifier  *queue.Notifier
	retention *queue.Retention
	wakeJobs  chan struct{}
	wakeRelay chan struct{}
}

// transient is an outage of our database. A handler that used up its own time is not one: it might do so for ever.
func transient(err error) bool {
	return postgres.Outage(err) && !errors.Is(err, context.DeadlineExceeded)
}

// loops are the components that work without being called.
func (s *wired) loops(cfg Config, loops *process.Loops, rest process.Rest) []process.Component {
	repeated := func(name string, r process.Repetition) process.Component {
		return bounded(loops.Loop(name, r.Run), stopLoops)
	}
	components := []process.Component{
		repeated("jobs", s.runner.Loop(rest)),
		process.Loop("wake-ups", s.listen), // each of its waits has a bound of its own
		loops.Loop("bell", s.notifier.Run),
		repeated("retention", s.retention.Loop(rest)),
		loops.Loop("holds", s.desk.TellLoop(rest).Run),
	}
	if !cfg.InboundAuditInterval.Never() {
		components = append(components, repeated("inbound-audit", s.auditor.Loop(rest)))
	}
	if !cfg.SchedulingDisabled {
		components = append(components,
			repeated("relay", s.relay.Loop(rest, cfg.AlarmRelayInterval, s.wakeRelay)),
			repeated("sweeper", s.sweeper.Loop(rest, min(cfg.AlarmOverdueGrace/4, sweepInterval))))
	}
	return components
}

func wire(ctx context.Context, cfg Config, deps process.Deps, tel *telemetry.Telemetry) (*wired, error) {
	flow, texts, err := cfg.script()
	if err != nil {
		return nil, err
	}
	tokens, err := rpc.NewTokens(cfg.ServiceAuthSecret, deps.Now)
	if err != nil {
		return nil, err
	}
	files, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	alarmClock, err := openQStash(cfg, deps, tel)
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, cfg, tel, tokens, files)
	if err != nil {
		return nil, err
	}
	audited, err := audit.NewMetrics(tel.Meter.Meter(name))
	if err != nil {
		return nil, errors.Join(err, s.close())
	}

	db := store.NewStore(s.pool)
	measured, threads, err := s.observe(ctx, deps, tel, db)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	carrier := messaging.New(s.messaging, deps.Now)
	delivery := &dispatch.Dispatcher{Sender: carrier, Store: db, Catalog: texts, Unknown: flow.UnknownSends(), Now: deps.Now}
	alarms := &burst.Publisher{
		QStash: alarmClock, Outbox: db, Flow: flow, Disabled: cfg.SchedulingDisabled, Threads: threads, Log: deps.Log, Now: deps.Now,
	}
	s.watch(cfg, deps, db, alarms)
	router := &inbound.Router{
		OrgID: cfg.DefaultOrgID, Queue: db, Messaging: carrier, People: db, Sessions: db, History: db, Delivery: delivery, Alarms: alarms,
		Flow: flow, OnLate: audit.Reporter{Metrics: audited, Log: deps.Log}.Late, Threads: threads, Log: deps.Log, Now: deps.Now,
	}
	s.auditor = &audit.Auditor{
		OrgID: cfg.DefaultOrgID, Carrier: carrier, Sweeps: db, Router: router, Interval: cfg.InboundAuditInterval.Every(), Metrics: audited,
		Log: deps.Log, Now: deps.Now,
	}
	desk := &enrolment.Desk{
		Profiles: db, Sessions: db, Queue: db, Delivery: delivery, Senders: carrier, Holds: carrier, Catalog: texts, NewAlarm: burst.NewAlarm,
		Threads: threads, Log: deps.Log, Now: deps.Now,
	}
	takers := &webhooks.Takers{Texts: router, Receipts: carrier, Log: deps.Log, Now: deps.Now}
	err = s.queue(ctx, cfg, deps, tel, db, jobs.Config{GiveUp: router.GiveUp, Handlers: joined(takers.Handlers(), map[string]jobs.Handler{
		inbound.EventMessage:   router.Handle,
		jobs.EventHeldReply:    router.Handle,
		jobs.EventResumedReply: router.HandleResumed,
		enrolment.EventOpening: desk.SendOpening,
	})})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	router.Runner, desk.Runner, s.desk = s.runner, s.runner, desk
	crew := &rescue.Crew{Store: db, OrgID: cfg.DefaultOrgID, NewAlarm: burst.NewAlarm, Now: deps.Now}
	steps := &burst.Executor{
		Sessions: db, Delivery: delivery, Receipts: carrier, Waits: db, Outages: db, Alarms: alarms, Flow: flow, Metrics: measured,
		Threads: threads, Log: deps.Log, Now: deps.Now,
	}

	failures, guardErr := s.guard(cfg, deps)
	s.grpc, err = rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Policy: server.Policy(), Log: deps.Log, TracerProvider: tel.Tracer, MeterProvider: tel.Meter,
		TLS: files.Server, Scope: process.Scope, Timeout: stepTimeout, MaxRequest: maxRequest,
		Database: s.ready,
	})
	if err := errors.Join(err, guardErr); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.register(&server.Server{
		Steps: steps, Router: router, Desk: desk, Crew: crew, Store: db, Failures: failures, Now: deps.Now,
	}, &server.WebhookJobs{OrgID: cfg.DefaultOrgID, Store: db, Texts: router, Notifier: s.notifier, Now: deps.Now}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// register puts the servers behind gRPC, and sees to it that each of their methods has a policy.
func (s *wired) register(conversations *server.Server, events *server.WebhookJobs) error {
	onboardingv1.RegisterOnboardingServiceServer(s.grpc, conversations)
	onboardingv1.RegisterWebhookJobServiceServer(s.grpc, events)
	return s.grpc.CheckPolicy()
}

// observe registers the gauges that are asked of the database and its pool, and makes what the parts measure and trace with.
func (s *wired) observe(
	ctx context.Context, deps process.Deps, tel *telemetry.Telemetry, db *store.Store,
) (*burst.Metrics, telemetry.Threads, error) {
	meter := tel.Meter.Meter(name)
	metrics, err := burst.NewMetrics(meter)
	err = errors.Join(err, postgres.Observe(meter, s.pool), burst.Observe(ctx, meter, db, deps.Now))
	return metrics, telemetry.Threads{Tracer: tel.Tracer.Tracer("paceline.internal/services/" + name)}, err
}

// watch makes what finishes and repeats alarms.
func (s *wired) watch(cfg Config, deps process.Deps, db *store.Store, alarms *burst.Publisher) {
	s.relay = &burst.Relay{Outbox: db, Publisher: alarms, Log: deps.Log, Now: deps.Now}
	s.sweeper = &burst.Sweeper{
		Store: db, Grace: cfg.AlarmOverdueGrace, MaxGenerations: cfg.AlarmMaxGenerations, Log: deps.Log, Now: deps.Now,
	}
}

// queue makes what works webhook_jobs: its runner with these handlers, the bell that wakes it, and its retention.
func (s *wired) queue(
	ctx context.Context, cfg Config, deps process.Deps, tel *telemetry.Telemetry, db *store.Store, work jobs.Config,
) error {
	meter := tel.Meter.Meter(name)
	counted, err := queue.NewMetrics(meter)
	if err := errors.Join(err, queue.Observe(ctx, meter, jobs.Queue, db.Jobs(), deps.Now)); err != nil {
		return err
	}
	work.Store, work.Log, work.Now, work.Wake, work.Metrics, work.Transient = db.Jobs(), deps.Log, deps.Now, s.wakeJobs, counted, transient
	work.Workers = jobWorkers
	s.runner, s.jobs = jobs.NewRunner(work), db.Jobs()
	s.notifier = queue.NewNotifier(s.pool, store.ChannelJobs, s.wakeJobs, deps.Log)
	s.retention = &queue.Retention{Queue: db.Jobs(), Keep: store.KeptJobs, For: cfg.JobsRetention, Log: deps.Log, Now: deps.Now}
	return nil
}

// joined is every handler of both.
func joined(handlers, others map[string]jobs.Handler) map[string]jobs.Handler {
	maps.Copy(handlers, others)
	return handlers
}

// connect opens what the service stands on: messaging and the database.
func connect(ctx context.Context, cfg Config, tel *telemetry.Telemetry, tokens *rpc.Tokens, files rpc.TLS) (*wired, error) {
	conn, err := rpc.Dial(rpc.ClientConfig{
		Target: cfg.MessagingAddr.String(), Tokens: tokens, Caller: rpc.Principal{Subject: "onboarding", Role: rpc.RoleService},
		TracerProvider: tel.Tracer, MeterProvider: tel.Meter, TLS: files.Client, Timeout: messaging.Timeout, Idempotent: messaging.Idempotent,
	})
	if err != nil {
		return nil, fmt.Errorf("messaging: %w", err)
	}
	database := cfg.database()
	database.TracerProvider = tel.Tracer
	pool, err := postgres.OpenFor(ctx, name, database)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &wired{pool: pool, messaging: conn, wakeJobs: make(chan struct{}, 1), wakeRelay: make(chan struct{}, 1)}, nil
}

// openQStash is the one publisher, with the policy of the environment.
func openQStash(cfg Config, deps process.Deps, tel *telemetry.Telemetry) (*qstash.Publisher, error) {
	client, err := qstash.New(qstash.Config{URL: cfg.QStashURL.String(), Token: cfg.QStashToken.Reveal()})
	if err != nil {
		return nil, err
	}
	key := hmac.New(sha256.New, []byte(cfg.ServiceAuthSecret.First())) // one secret, another key for every purpose
	key.Write([]byte("qstash dedup id"))
	return qstash.NewPublisher(qstash.PublisherConfig{
		Client: client, Origin: cfg.PublicBaseURL.String(), FailurePath: burst.FailurePath, Labels: []string{burst.Label},
		Policy:  qstash.Policy{Retries: cfg.QStashRetries, RetryDelay: cfg.QStashRetryDelay, Timeout: qstash.PolicyTimeout},
		HashKey: key.Sum(nil), Log: deps.Log, TracerProvider: tel.Tracer, Now: deps.Now,
	})
}

// guard keeps its reservations in the database, or in Redis when there is one.
func (s *wired) guard(cfg Config, deps process.Deps) (*reservation.Guard, error) {
	if cfg.RedisURL.IsZero() {
		return reservation.New(&store.Reservations{Pool: s.pool}, reservation.Lock, deps.Log, deps.Now)
	}
	var err error
	if s.redis, err = reservation.OpenRedis(cfg.RedisURL.Reveal()); err != nil {
		return nil, err
	}
	return reservation.New(s.redis, reservation.Lock, deps.Log, deps.Now)
}

// listen wakes the loops when another request, here or in another process, left them something.
func (s *wired) listen(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		postgres.Listen(ctx, s.pool.Direct(), store.ChannelAlarms, wake(s.wakeRelay))
	}()
	postgres.Listen(ctx, s.pool.Direct(), store.ChannelJobs, wake(s.wakeJobs))
	<-done
	return nil
}

// wake leaves one wake-up in a channel of one; a second before the first was heard adds nothing.
func wake(channel chan<- struct{}) func() {
	return func() {
		select {
		case channel <- struct{}{}:
		default:
		}
	}
}

// ready reports why there should be no traffic now. A Redis that is down is no reason: it refuses failure callbacks, which
// QStash repeats, while every step and every reply is still answered; and all instances would be out of service at once.
func (s *wired) ready(ctx context.Context) error {
	return s.pool.Ready(ctx, Migrations())
}

// queues says how webhook_jobs is doing, in all organisations.
func (s *wired) queues(now func() time.Time) func(ctx context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		health, err := s.runner.Health(postgres.AcrossOrganisations(ctx), s.jobs, now())
		return map[string]queue.Health{jobs.Queue: health}, err
	}
}

func (s *wired) close() error {
	s.pool.Close()
	err := s.messaging.Close()
	if s.redis != nil {
		err = errors.Join(err, s.redis.Close())
	}
	return err
}

func bounded(c process.Component, stop time.Duration) process.Component {
	c.StopTimeout = stop
	return c
}
