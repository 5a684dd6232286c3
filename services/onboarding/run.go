// Package onboarding is the onboarding service: this file names every concrete type, top to bottom as the data flows.
package onboarding

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/hours"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/session"
)

// name is the name under which logs, spans and metrics call this service.
const name = "onboarding"

const (
	// stepTimeout bounds one RPC: the longest is a step, with a call to Twilio inside a call to messaging.
	stepTimeout = messaging.Timeout + 5*time.Second
	// sweepInterval sets how often the sweeper runs, at the least.
	sweepInterval = 15 * time.Second
	// jobWorkers limits how many jobs are at work at a time: each spends most of its time waiting for messaging and Twilio.
	jobWorkers = 64
	// outreachWorkers limits how many rows of outreach are at work at a time: messaging lets an organisation's through one after the other.
	outreachWorkers = 4
	// maxRequest holds a webhook of a megabyte, which is Shopify's, twice as long once it is stored as JSON.
	maxRequest = 3 << 20
	// stopLoops bounds the end of a loop, which finishes the job or the publish it is at.
	stopLoops = 30 * time.Second
)

// Migrations returns the schema of the onboarding database.
func Migrations() postgres.Migrations { return schema.Migrations() }

// Migrate brings the database to the schema that this binary needs. Any number of processes may do so at once.
func Migrate(ctx context.Context, cfg Config) error {
	schema := Migrations()
	schema.Log = telemetry.NewLogger(os.Stdout, cfg.Telemetry, name)
	return schema.Up(ctx, cmp.Or(cfg.MigrateURL.Reveal(), cfg.DirectURL.Reveal(), cfg.DatabaseURL.Reveal()))
}

// Run serves until ctx ends, then finishes what is in flight and returns nil. It does not migrate: on a database that
// is behind, /readyz says so.
//
// An orchestrator has to wait before it kills, at most: 10 s for the streams of devices, 20 s for calls in flight, 10 s for the ops
// port, 30 s for each of the jobs, their retention, outreach, the deliveries of events, the relay, the sweeper and the inbound audit, 10 s
// for each of the two listeners, the two notifiers, the holds, the erasures, the runs, the retention of outreach and of deliveries, the
// sequencer and the readers of events, and of goals the relay, the sweeper, the devices and the offers, 5 s for the last spans, and a
// second for each.
func Run(ctx context.Context, cfg Config, deps process.Deps) (err error) {
	ctx = postgres.AcrossOrganisations(ctx) // what works without being called works for all; a call has its own scope
	tel, err := telemetry.New(ctx, telemetry.Options{
		Service: name, Config: cfg.Telemetry, Output: os.Stdout, Registry: telemetry.NewRegistry(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Shutdown(context.WithoutCancel(ctx))) }()
	deps.Fill(tel.Log)
	phone.Allow(cfg.ExtraPrefixes)
	lost, err := tel.Meter.Meter("paceline.internal/services/"+name).Int64Counter("paceline_time_zones_unreadable_total",
		metric.WithDescription("Uses of a stored time zone that is not known any more."))
	if err != nil {
		return err
	}
	hours.OnUnreadable(func(zone string) {
		lost.Add(ctx, 1)
		deps.Log.ErrorContext(ctx, "onboarding.time_zone_unreadable", "time_zone", zone)
	})
	s, err := wire(ctx, cfg, deps, tel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := deps.Listen(ctx, "ONBOARDING", cfg.Addr, cfg.OpsAddr); err != nil {
		return err
	}
	process.LogPlainText(ctx, deps.Log, cfg.TLS, cfg.Addr, cfg.MessagingAddr)
	ready := func(ctx context.Context) error { return errors.Join(s.loops.Ready(), s.ready(ctx)) }
	if err := ready(ctx); err != nil { // it may be migrated while we wait; until then /readyz says the same
		deps.Log.ErrorContext(ctx, "onboarding.not_ready", "error", err)
	}
	begun := &beginning{messaging: s.messaging, since: deps.Now(), now: deps.Now}
	ops := telemetry.OpsServer(telemetry.OpsHandler(telemetry.OpsConfig{
		Registry: tel.Registry, Addr: cfg.OpsAddr, Config: cfg, Queues: s.queues(deps.Now),
		Ready: func(ctx context.Context) error { return errors.Join(ready(ctx), begun.ready(ctx)) },
	}))
	return process.Run(ctx, deps.Log, append(s.components,
		process.HTTPServer("ops", ops, deps.OpsListener),
		bounded(process.GRPCServer("grpc", s.grpc.Server, deps.Listener, s.grpc.Health), stepTimeout),
		process.Component{Name: "streams", Stop: func(ctx context.Context) error { // before the calls in flight, which streams are
			s.readers.Drain()
			return s.hub.Drain(ctx)
		}},
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }},
	)...)
}

// wired is the service with every part in its place.
type wired struct {
	pool             *postgres.Pool
	store            *Stores
	messaging        *grpc.ClientConn
	redis            *dedup.Redis // nil without REDIS_URL
	conversations    *conversation.Service
	inbound          *inbound.Service
	people           *engagement.Service
	persons          *people.Service
	erasing          *erasure.Service
	later            *goals.Service
	hub              *goals.Hub
	feed             *events.Feed
	readers          *events.Hub
	courier          *events.Courier
	wakeDeliveries   func()
	closeReader      func() // of the model that reads times; nil without one
	notifier         *queue.Notifier
	outreach         *queue.Runner
	outreachNotifier *queue.Notifier
	failures         *dedup.Guard
	grpc             *rpc.Server
	calls            *audit.Log
	wakeJobs         chan struct{}
	wakeOutreach     chan struct{}
	wakeRelay        chan struct{}
	wakeGoals        chan struct{} // the relay of their alarms
	loops            *process.Loops
	components       []process.Component // what works without being called
}

// transient is an outage of our database. A handler that used up its own time is not one: it might do so for ever.
func transient(err error) bool {
	return postgres.Outage(err) && !errors.Is(err, context.DeadlineExceeded)
}

func wire(ctx context.Context, cfg Config, deps process.Deps, tel *telemetry.Telemetry) (s *wired, err error) {
	loops, err := process.NewLoops(tel.Meter.Meter(name), deps.Log, deps.PassBound)
	if err != nil {
		return nil, err
	}
	tokens, err := rpc.NewTokens(cfg.keys(), deps.Now)
	if err != nil {
		return nil, err
	}
	files, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	if s, err = connect(ctx, cfg, tel, tokens, files); err != nil {
		return nil, err
	}
	s.loops, s.calls = loops, audit.New(s.pool, deps.Now)
	w := wiring{wired: s, cfg: cfg, deps: deps, tel: tel, meter: tel.Meter.Meter(name)}
	for _, feature := range []func() error{
		w.openQStash,
		func() error { return w.conversation(ctx) },
		w.guard,
		func() error { return w.serve(tokens, files) },
	} {
		if err := feature(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// wiring has what the features are wired with.
type wiring struct {
	*wired

	deleted   *retention.Metrics
	qstash    *qstash.Client
	publisher *qstash.Publisher

	cfg   Config
	deps  process.Deps
	tel   *telemetry.Telemetry
	meter metric.Meter
}

// conversation wires the conversations, the queue of their jobs, and the loops of both.
func (w *wiring) conversation(ctx context.Context) error {
	flow, texts, err := w.cfg.script()
	if err != nil {
		return err
	}
	measured, err := conversation.NewMetrics(w.meter)
	missed, missedErr := inbound.NewMetrics(w.meter)
	counted, countedErr := queue.NewMetrics(w.meter)
	var deletedErr error
	w.deleted, deletedErr = retention.NewMetrics(w.meter)
	if err := errors.Join(err, missedErr, countedErr, deletedErr, postgres.Observe(w.meter, w.pool),
		queue.Observe(ctx, w.meter, conversation.JobsTable, w.store.Jobs(), w.deps.Now)); err != nil {
		return err
	}
	carrier := messaging.New(w.messaging, w.deps.Now)
	if w.people, err = w.engagement(carrier, flow); err != nil {
		return err
	}
	goalTexts, err := w.goals(ctx, carrier, flow)
	if err != nil {
		return err
	}
	w.erasing = &erasure.Service{Store: erasure.NewStore(w.pool), Carrier: carrier, Log: w.deps.Log, Now: w.deps.Now}
	c := conversation.New(conversation.Config{
		OrgID: w.cfg.DefaultOrgID, Store: w.store, Carrier: carrier,
		Numbers: w.cfg.Numbers, ActivationsPerDay: w.cfg.ActivationsPerDay, Outbox: w.store.Alarms(),
		QStash: w.publisher, Flow: flow, Catalog: texts, Metrics: measured,
		Spans:       telemetry.Conversations{Tracer: w.tel.Tracer.Tracer("paceline.internal/services/" + name)},
		QStashReach: w.cfg.QStashMaxDelay, SchedulingDisabled: w.cfg.SchedulingDisabled, Log: w.deps.Log, Now: w.deps.Now,
	})
	w.persons = people.New(people.Config{
		Store: w.store, Carrier: carrier, Words: c, Catalog: texts, Numbers: w.cfg.Numbers, Log: w.deps.Log, Now: w.deps.Now,
	})
	if err := c.Observe(ctx, w.meter); err != nil {
		return err
	}
	w.inbound = inbound.New(inbound.Config{
		Erase: func(ctx context.Context, orgID, profileID, jobID string) error {
			_, err := w.erasing.Ask(ctx, erasure.Request{OrgID: orgID, ProfileID: profileID, Source: erasure.FromShopify, JobID: jobID})
			return err
		},
		OrgID: w.cfg.DefaultOrgID, Store: w.store, Carrier: carrier, Engagement: w.people, Goals: goalTexts, Conversations: c,
		Metrics: missed, Log: w.deps.Log, Now: w.deps.Now,
	})
	c.Jobs = queue.NewRunner(queue.Config{
		Name: conversation.JobsTable, Store: w.store.Jobs(), Handlers: w.inbound.Handlers(), GiveUp: w.inbound.GiveUp, Workers: jobWorkers, Transient: transient,
		Wake: w.wakeJobs, Metrics: counted, Log: w.deps.Log, Now: w.deps.Now,
	})
	w.inbound.Jobs = c.Jobs
	w.conversations, w.notifier = c, queue.NewNotifier(w.pool, conversation.ChannelJobs, w.wakeJobs, w.deps.Log)
	if err := w.events(ctx, carrier, counted); err != nil {
		return err
	}
	w.addLoops()
	return w.sendOutreach(ctx, counted)
}

// engagement wires what people do and say to engagement.
func (w *wiring) engagement(carrier *messaging.Client, flow session.Flow) (*engagement.Service, error) {
	decided, texts, err := w.cfg.engagement()
	if err != nil {
		return nil, err
	}
	measured, err := engagement.NewMetrics(w.meter)
	if err != nil {
		return nil, err
	}
	w.outreachNotifier = queue.NewNotifier(w.pool, engagement.ChannelOutreach, w.wakeOutreach, w.deps.Log)
	return engagement.New(engagement.Config{
		Store: w.store.Engagement(), Carrier: carrier, Rules: decided, Texts: texts, Metrics: measured, Notify: w.outreachNotifier.Notify,
		Transient: transient, Unknown: flow.UnknownSends(), Log: w.deps.Log, Now: w.deps.Now,
	}), nil
}

// sendOutreach wires the queue of outreach.
func (w *wiring) sendOutreach(ctx context.Context, counted *queue.Metrics) error {
	rows, rest := w.store.Engagement().Queue(), w.deps.Rest
	if err := errors.Join(queue.Observe(ctx, w.meter, engagement.OutreachTable, rows, w.deps.Now),
		w.people.Observe(ctx, w.meter, w.store.Engagement())); err != nil {
		return err
	}
	w.outreach = queue.NewRunner(queue.Config{
		Name: engagement.OutreachTable, Store: rows, Handlers: w.people.Handlers(), GiveUp: w.people.GiveUp, Backoff: engagement.OutreachBackoff,
		Admit:   w.people.Admit,
		Workers: outreachWorkers, Transient: transient, Wake: w.wakeOutreach, Metrics: counted, Log: w.deps.Log, Now: w.deps.Now,
	})
	ended := &queue.Retention{Queue: rows, Keep: engagement.KeptOutreach, For: w.cfg.JobsRetention, Log: w.deps.Log, Now: w.deps.Now}
	w.components = append(w.components,
		bounded(w.loops.Loop("outreach", w.outreach.Loop(rest).Run), stopLoops),
		w.loops.Loop("outreach-notifier", w.outreachNotifier.Run),
		w.loops.Loop("runs", w.people.RunLoop(rest).Run),
		w.loops.Loop("outreach-retention", ended.Loop(rest).Run))
	return nil
}

// addLoops adds what works on the conversations without being called.
func (w *wiring) addLoops() {
	c, rest := w.conversations, w.deps.Rest
	repeat := func(name string, r process.Repetition) {
		w.components = append(w.components, bounded(w.loops.Loop(name, r.Run), stopLoops))
	}
	jobs := &queue.Retention{
		Queue: w.store.Jobs(), Keep: conversation.KeptJobs, For: w.cfg.JobsRetention, Log: w.deps.Log, Now: w.deps.Now,
	}
	repeat("jobs", c.Jobs.Loop(rest))
	w.components = append(w.components,
		process.Component{Name: "wake-ups", Run: w.listen}, // each of its waits has its own bound
		w.loops.Loop("notifier", w.notifier.Run))
	repeat("retention", w.forgetting(jobs.Loop(rest)))
	w.components = append(w.components,
		w.loops.Loop("holds", w.persons.HoldsLoop(rest).Run), w.loops.Loop("erasures", w.erasing.Loop(rest).Run))
	if !w.cfg.InboundAuditInterval.Never() {
		repeat("inbound-audit", w.inbound.AuditLoop(rest, w.cfg.InboundAuditInterval.Every()))
	}
	if !w.cfg.SchedulingDisabled {
		policy := outbox.Policy{Grace: w.cfg.AlarmOverdueGrace, MaxGenerations: w.cfg.AlarmMaxGenerations}
		repeat("relay", c.Alarms.RelayLoop(rest, w.cfg.AlarmRelayInterval, w.wakeRelay))
		repeat("sweeper", c.Sweeper(policy).Loop(rest, min(policy.Grace/4, sweepInterval)))
	}
}

// forgetting has a retention delete the goals and the events too that were over long ago, and what the rules say is over.
func (w *wiring) forgetting(r process.Repetition) process.Repetition {
	jobs := r.Once
	sweep := &retention.Sweep{
		DB: w.pool, Rules: Rules(w.cfg.kept()), Own: w.store.OwnRetention, Metrics: w.deleted, Log: w.deps.Log, Now: w.deps.Now,
	}
	r.Once = func(ctx context.Context) (bool, error) {
		more, err := jobs(ctx)
		return more, errors.Join(err, w.forgetGoals(ctx), w.feed.Forget(ctx), sweep.Pass(ctx))
	}
	return r
}

// guard keeps the reservations of failure callbacks in the database, or in Redis when there is one.
func (w *wiring) guard() (err error) {
	if w.cfg.RedisURL.IsZero() {
		w.failures, err = dedup.New(&dedup.Postgres{Pool: w.pool}, dedup.Lock, w.deps.Log, w.deps.Now)
		return err
	}
	if w.redis, err = dedup.OpenRedis(w.cfg.RedisURL.Reveal()); err != nil {
		return err
	}
	w.failures, err = dedup.New(w.redis, dedup.Lock, w.deps.Log, w.deps.Now)
	return err
}

// serve puts the service behind gRPC, and sees to it that each of its methods says who may call it.
func (w *wiring) serve(tokens *rpc.Tokens, files rpc.TLS) (err error) {
	w.grpc, err = rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Log: w.deps.Log, TracerProvider: w.tel.Tracer, MeterProvider: w.tel.Meter,
		TLS: files.Server, Scope: process.Scope, Timeout: stepTimeout, MaxRequest: maxRequest, Database: w.ready,
		Keep: w.calls.Keep, Answer: Answer,
	})
	if err != nil {
		return err
	}
	now := w.deps.Now
	onboardingv1.RegisterOnboardingServiceServer(w.grpc, NewService(
		&people.RPC{People: w.persons, Store: w.store.People(), Erasure: w.store.Erasures(), Now: now},
		&conversation.RPC{Conversations: w.conversations, Store: w.store.Conversations(), Engagement: w.people.Texts, Now: now},
		&inbound.RPC{
			Inbound: w.inbound, Conversations: w.store.Conversations(), Failures: w.failures, Notify: w.notifier.Notify, Now: now,
		},
		&erasure.RPC{Erasures: w.erasing, Holds: w.store.Erasures()},
		&Operations{
			Store: w.store, Calls: w.calls, Messaging: messaging.New(w.messaging, now), SchedulingDisabled: w.cfg.SchedulingDisabled, Clock: now,
		},
	))
	onboardingv1.RegisterWebhookJobServiceServer(w.grpc, &inbound.JobsRPC{
		OrgID: w.cfg.DefaultOrgID, Inbound: w.inbound, Store: w.store.Inbound(), Notify: w.notifier.Notify, Now: w.deps.Now,
	})
	onboardingv1.RegisterEngagementServiceServer(w.grpc, &engagement.RPC{
		People: w.people, Store: w.store.Engagement(), Now: w.deps.Now,
	})
	onboardingv1.RegisterEventServiceServer(w.grpc, &events.RPC{
		Store: events.NewStore(w.pool), Hub: w.readers, Courier: w.courier, Wake: w.wakeDeliveries, Now: w.deps.Now,
	})
	onboardingv1.RegisterGoalServiceServer(w.grpc, &goals.RPC{
		Goals: w.later, Devices: &goals.Devices{Store: goals.NewStore(w.pool), Metrics: w.later.Metrics, Now: w.deps.Now},
		Hub: w.hub, Store: goals.NewStore(w.pool), Pause: w.pauseOf, Answer: Answer, Now: w.deps.Now,
	})
	return w.grpc.CheckRules()
}

// connect opens what the service stands on: messaging and the database.
func connect(ctx context.Context, cfg Config, tel *telemetry.Telemetry, tokens *rpc.Tokens, files rpc.TLS) (*wired, error) {
	conn, err := rpc.Dial(rpc.ClientConfig{
		Target: cfg.MessagingAddr.String(), Tokens: tokens, Caller: rpc.Principal{Subject: rpc.Onboarding, Role: rpc.RoleService},
		TracerProvider: tel.Tracer, MeterProvider: tel.Meter, TLS: files.Client, Timeout: messaging.Timeout, Services: messaging.Services,
	})
	if err != nil {
		return nil, fmt.Errorf("messaging: %w", err)
	}
	database := cfg.database()
	database.TracerProvider, database.Watch = tel.Tracer, tel.Log
	pool, err := postgres.OpenFor(ctx, name, database)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stored := NewStores(pool)
	if stored.QuietByDefault, err = hours.ParseWindow(cfg.QuietHoursDefault); err != nil {
		pool.Close()
		return nil, errors.Join(err, conn.Close())
	}
	return &wired{
		pool: pool, store: stored, messaging: conn,
		wakeJobs: make(chan struct{}, 1), wakeOutreach: make(chan struct{}, 1), wakeRelay: make(chan struct{}, 1),
		wakeGoals: make(chan struct{}, 1),
	}, nil
}

// openQStash opens the one publisher, with the policy of the environment.
func (w *wiring) openQStash() (err error) {
	if w.qstash, err = qstash.New(qstash.Config{URL: w.cfg.QStashURL.String(), Token: w.cfg.QStashToken.Reveal()}); err != nil {
		return err
	}
	key := hmac.New(sha256.New, w.cfg.keys().Root()) // one secret, another key for every purpose
	key.Write([]byte("qstash dedup id"))
	w.publisher, err = qstash.NewPublisher(qstash.PublisherConfig{
		Client: w.qstash, Origin: w.cfg.PublicBaseURL.String(), Routes: []qstash.Route{conversation.StepRoute, goals.Route},
		Policy:  qstash.Policy{Retries: w.cfg.QStashRetries, RetryDelay: w.cfg.QStashRetryDelay, Timeout: qstash.PolicyTimeout},
		HashKey: key.Sum(nil), Log: w.deps.Log, TracerProvider: w.tel.Tracer, Now: w.deps.Now,
	})
	return err
}

// listeners counts the connections that a process listens on: for alarms, jobs, outreach, goals and the alarms of goals.
const listeners = 5

// listen wakes the loops when the database notifies of work that another request, here or in another process, left them.
func (s *wired) listen(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		postgres.Listen(ctx, s.pool.Direct(), conversation.ChannelAlarms, wake(s.wakeRelay))
	}()
	outreach := make(chan struct{})
	go func() {
		defer close(outreach)
		postgres.Listen(ctx, s.pool.Direct(), engagement.ChannelOutreach, wake(s.wakeOutreach))
	}()
	postgres.Listen(ctx, s.pool.Direct(), conversation.ChannelJobs, wake(s.wakeJobs))
	<-done
	<-outreach
	return nil
}

// wake leaves one signal in a channel of one; a second before the first was received adds nothing.
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

// queues returns a function that reports the health of webhook_jobs and engagement_outreach, in all organisations.
func (s *wired) queues(now func() time.Time) func(ctx context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		health, err := s.conversations.Jobs.Health(postgres.AcrossOrganisations(ctx), s.store.Jobs(), now())
		sending, sendingErr := s.outreach.Health(postgres.AcrossOrganisations(ctx), s.store.Engagement().Queue(), now())
		return map[string]queue.Health{conversation.JobsTable: health, engagement.OutreachTable: sending}, errors.Join(err, sendingErr)
	}
}

func (s *wired) close() error {
	s.pool.Close()
	err := s.messaging.Close()
	if s.redis != nil {
		err = errors.Join(err, s.redis.Close())
	}
	if s.courier != nil {
		s.courier.Close()
	}
	if s.closeReader != nil {
		s.closeReader()
	}
	return err
}

func bounded(c process.Component, stop time.Duration) process.Component {
	c.StopTimeout = stop
	return c
}
