// Package onboarding is the onboarding service: run.go and run_*.go name every concrete type, top to bottom as the data flows.
package onboarding

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/hours"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/devices"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/organisations"
	"paceline.internal/services/onboarding/overview"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/tickets"
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
// An orchestrator has to wait before it kills, at most: 10 s for the streams of devices, 20 s for calls in flight, 10 s for the ops port,
// 30 s for each of the jobs, their retention, outreach, the deliveries of events, the relay, the sweeper, the alarms, the inbound sweep
// and the history of the database, 10 s for each of the two listeners, the counts of flows, the two notifiers, the holds, the settings,
// the erasures, the organisations, the runs, the retention of alarms, of outreach and of deliveries, the sequencer and the readers of
// events, and of goals the relay, the sweeper, the devices and the offers, 5 s for the last spans, and a second for each.
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
	if err := ready(ctx); errors.Is(err, postgres.ErrOtherService) {
		return err
	} else if err != nil { // it may be migrated while we wait; until then /readyz says the same
		deps.Log.ErrorContext(ctx, "onboarding.not_ready", "error", err)
	}
	begun := &beginning{messaging: s.messaging, since: deps.Now(), now: deps.Now, log: deps.Log}
	ops := telemetry.OpsServer(telemetry.OpsHandler(telemetry.OpsConfig{
		Registry: tel.Registry, Addr: cfg.OpsAddr, Config: cfg, Queues: s.queues(deps.Now),
		Ready: func(ctx context.Context) error { return errors.Join(ready(ctx), begun.ready(ctx)) },
	}))
	return process.Run(ctx, deps.Log, append(s.components,
		process.HTTPServer("ops", ops, deps.OpsListener),
		bounded(process.GRPCServer("grpc", s.grpc.Server, deps.Listeners(), s.grpc.Health), stepTimeout),
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
	tickets          *tickets.Service
	runs             *runs.Service
	engagement       *engagement.Service
	people           *people.Service
	erasing          *erasure.Service
	organisations    *organisations.Service
	goals            *goals.Service
	hub              *devices.Hub
	feed             *events.Feed
	readers          *events.Hub
	courier          *events.Courier
	wakeDeliveries   func()
	closeReader      func() // of the model that reads times; nil without one
	notifier         *queue.Notifier
	outreach         *queue.Runner
	ringing          *queue.Runner // of alarms
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
	if s, err = connect(ctx, cfg, deps, tel, tokens, files); err != nil {
		return nil, err
	}
	s.loops, s.calls = loops, audit.New(s.pool, deps.Now)
	w := wiring{wired: s, cfg: cfg, deps: deps, tel: tel, meter: tel.Meter.Meter(name)}
	for _, feature := range []func() error{
		w.openAlarms,
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

	deleted *retention.Metrics
	alarms  publishing

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
	counted, countedErr := queue.NewMetrics(w.meter)
	var deletedErr error
	w.deleted, deletedErr = retention.NewMetrics(w.meter)
	observed := errors.Join(postgres.Observe(w.meter, w.pool), postgres.ObserveWrites(w.meter, w.pool))
	if err := errors.Join(err, countedErr, deletedErr, observed); err != nil {
		return err
	}
	carrier := messaging.New(w.messaging, w.deps.Now)
	if w.engagement, err = w.newEngagement(carrier, flow); err != nil {
		return err
	}
	goalTexts, err := w.newGoals(ctx, carrier, flow)
	if err != nil {
		return err
	}
	w.erasing = &erasure.Service{Store: erasure.NewStore(w.pool), Carrier: carrier, Log: w.deps.Log, Now: w.deps.Now}
	w.organisations = &organisations.Service{
		Store: w.store.Organisations(), Carrier: carrier, Settings: w.store.People(), Erasing: w.erasing, Default: w.cfg.DefaultOrgID,
		Grace: w.cfg.OrganisationGrace, Log: w.deps.Log, Now: w.deps.Now,
	}
	w.courier = events.NewCourier(events.CourierConfig{
		Subscriptions: w.store.Events(), Messaging: carrier, Networks: w.cfg.EventsPrivateTargets, Logger: w.deps.Log, Now: w.deps.Now,
	})
	c := conversation.New(conversation.Config{
		OrgID: w.cfg.DefaultOrgID, Store: w.store, Carrier: carrier, Flows: w.store.Flows(), Host: w.courier,
		Numbers: w.cfg.Numbers, ActivationsPerDay: w.cfg.ActivationsPerDay, ActivationFlow: w.cfg.ActivationFlow, Outbox: w.store.Alarms(),
		QStash: w.alarms, Flow: flow, Catalog: texts, Metrics: measured,
		Spans:       telemetry.Conversations{Tracer: w.tel.Tracer.Tracer("paceline.internal/services/" + name)},
		QStashReach: w.alarms.Reach, SchedulingDisabled: w.cfg.SchedulingDisabled, Log: w.deps.Log, Now: w.deps.Now,
	})
	if w.alarms.timer != nil {
		c.Timer = w.alarms.timer
	}
	w.people = people.New(people.Config{
		Store: w.store, Carrier: carrier, Words: c, Flows: w.store.Flows(), Catalog: texts, Texts: w.engagement.Texts, Numbers: w.cfg.Numbers,
		Log: w.deps.Log, Now: w.deps.Now, Settings: w.store.People(),
	})
	if err := overview.Observe(ctx, w.meter, w.store.Overviews(), w.deps.Now); err != nil {
		return err
	}
	if err := w.receiving(ctx, c, carrier, goalTexts, counted); err != nil {
		return err
	}
	w.conversations = c
	if err := w.events(ctx, carrier, counted); err != nil {
		return err
	}
	w.addLoops()
	return errors.Join(w.watch(), w.ringAlarms(ctx, counted), w.sendOutreach(ctx, counted))
}
