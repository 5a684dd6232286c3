// Package messaging is the messaging service: the only caller of Twilio, and the owner of messages and consent.
package messaging

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/outbound"
	store "paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/server"
	"paceline.internal/services/messaging/twilio"
)

// name is what logs, spans and metrics call this service.
const name = "messaging"

// stopReconciler bounds the end of the reconciler, which breaks off the look it is at: the row is looked at again later.
const stopReconciler = 5 * time.Second

// Run serves until ctx ends, then finishes what is in flight and returns nil. It does not migrate: on a database that
// is behind, /readyz says so.
//
// An orchestrator has to wait before it kills, at most: TWILIO_TIMEOUT and 10 s for sends in flight, 10 s for the ops
// port, 5 s for the reconciler, as long as for sends for the responder, 5 s more than that for the outbound queue, 5 s for its
// retention, 5 s for the last spans, and a second for each.
func Run(ctx context.Context, cfg Config, deps process.Deps) (err error) {
	ctx = postgres.AcrossOrganisations(ctx) // what works without being called works for all; a call has a scope of its own
	observed, err := telemetry.New(ctx, telemetry.Options{
		Service: name, Config: cfg.Telemetry, Output: os.Stdout, Registry: telemetry.NewRegistry(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, observed.Shutdown(context.WithoutCancel(ctx))) }()
	deps.Fill(observed.Log)
	observed.Log = deps.Log

	database := cfg.database()
	database.TracerProvider = observed.Tracer
	pool, err := postgres.OpenFor(ctx, name, database)
	if err != nil {
		return err
	}
	defer pool.Close() // everything that uses it ends within bounds of its own
	carrier, err := twilio.New(cfg.carrier())
	if err != nil {
		return err
	}
	defer carrier.Close()

	metrics, err := delivery.NewMetrics(observed.Meter.Meter(name))
	if err != nil {
		return err
	}
	db := store.NewStore(pool)
	if err := errors.Join(
		postgres.Observe(observed.Meter.Meter(name), pool), delivery.Observe(ctx, observed.Meter.Meter(name), db, deps.Now),
	); err != nil {
		return err
	}
	sending := delivery.New(delivery.Config{
		Store: db, Inbox: db, Doubts: db, Carrier: carrier, Sender: cfg.sender(), Copy: cfg.replyCopy(), PublicURL: cfg.PublicBaseURL.String(),
		Timeout: cfg.Timeout, Lease: cfg.Lease, StopWait: delivery.DefaultStopWait, Now: deps.Now, Log: observed.Log, Metrics: metrics,
		Threads: telemetry.Threads{Tracer: observed.Tracer.Tracer("paceline.internal/services/" + name)},
	})
	loops, err := process.NewLoops(observed.Meter.Meter(name), observed.Log, deps.PassBound)
	if err != nil {
		return err
	}
	queue, err := queueTexts(ctx, cfg, deps, observed, loops, sending, store.NewOutbound(pool))
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return pool.Ready(ctx, Migrations()) }
	grpcServer, err := serve(cfg, deps, observed, sending, queue, db, carrier, ready)
	if err != nil {
		return err
	}
	working := func(ctx context.Context) error { return errors.Join(loops.Ready(), ready(ctx)) }
	process.LogPlainText(ctx, observed.Log, cfg.TLS, cfg.Addr)
	if err := working(ctx); err != nil { // it may be migrated while we wait; until then /readyz says the same
		observed.Log.ErrorContext(ctx, "messaging.not_ready", "error", err)
	}
	ops := telemetry.OpsServer(telemetry.OpsHandler(telemetry.OpsConfig{
		Registry: observed.Registry, Addr: cfg.OpsAddr, Config: cfg, Ready: working, Queues: queue.health,
	}))
	if err := deps.Listen(ctx, "MESSAGING", cfg.Addr, cfg.OpsAddr); err != nil {
		return err
	}
	calls := process.GRPCServer("grpc", grpcServer.Server, deps.Listener, grpcServer.Health)
	calls.StopTimeout = cfg.Timeout + delivery.SettleBound
	reconcile, respond := settlers(cfg, deps, observed, loops, db, carrier, sending, metrics)
	return process.Run(ctx, observed.Log,
		reconcile,
		respond,
		queue.send,
		queue.clear,
		process.HTTPServer("ops", ops, deps.OpsListener),
		calls,
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }},
	)
}

// settlers are the loops that settle sends in doubt and answer words about consent.
func settlers(
	cfg Config, deps process.Deps, observed *telemetry.Telemetry, loops *process.Loops, db *store.Store, carrier *twilio.Client,
	sending *delivery.Service, metrics *delivery.Metrics,
) (reconcile, respond process.Component) {
	reconciler := delivery.NewReconciler(delivery.ReconcilerConfig{
		Store: db, Twilio: carrier, Interval: cfg.ReconcileInterval, Timeout: cfg.Timeout, Now: deps.Now, Log: observed.Log, Metrics: metrics,
	})
	responder := delivery.NewResponder(delivery.ResponderConfig{
		Store: db, Sender: sending, Timeout: cfg.Timeout, Wake: sending.Replies(), Now: deps.Now, Log: observed.Log, Metrics: metrics,
	})
	reconcile = loops.Loop("reconciler", reconciler.Loop(deps.Rest).Run)
	reconcile.StopTimeout = stopReconciler
	respond = loops.Loop("responder", responder.Loop(deps.Rest).Run)
	respond.StopTimeout = cfg.Timeout + delivery.SettleBound
	return reconcile, respond
}

// serve puts the service behind its gRPC server.
func serve(
	cfg Config, deps process.Deps, observed *telemetry.Telemetry, sending *delivery.Service, queue textQueue, db *store.Store,
	carrier *twilio.Client, ready func(ctx context.Context) error,
) (*rpc.Server, error) {
	tokens, err := rpc.NewTokens(cfg.AuthSecret, deps.Now)
	if err != nil {
		return nil, err
	}
	tls, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	grpcServer, err := rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Log: observed.Log, TracerProvider: observed.Tracer, MeterProvider: observed.Meter,
		TLS: tls.Server, Scope: process.Scope, Timeout: cfg.Timeout + delivery.SettleBound, Database: ready,
		MaxRequest: maxRequest,
	})
	if err != nil {
		return nil, err
	}
	messagingv1.RegisterMessagingServiceServer(grpcServer, server.New(server.Config{
		Delivery: sending, Archive: db, Audit: &delivery.Auditor{Twilio: carrier, Store: db, Sender: cfg.sender()},
		Tally: queue.tally, Sender: cfg.sender(), Now: deps.Now,
	}))
	messagingv1.RegisterOutboundServiceServer(grpcServer, &server.Outbound{Desk: queue.desk, Sender: cfg.sender()})
	return grpcServer, grpcServer.CheckRules()
}

// textQueue is the outbound queue: who takes texts in, who sends them and who clears them away.
type textQueue struct {
	desk        *outbound.Desk
	tally       *outbound.Tally
	send, clear process.Component
	health      func(ctx context.Context) (any, error)
}

func queueTexts(
	ctx context.Context, cfg Config, deps process.Deps, observed *telemetry.Telemetry, loops *process.Loops, sending *delivery.Service,
	db *store.Outbound,
) (textQueue, error) {
	wake, tally := make(chan struct{}, 1), new(outbound.Tally)
	meter := observed.Meter.Meter(name)
	metrics, err := queue.NewMetrics(meter)
	if err != nil {
		return textQueue{}, err
	}
	if err := queue.Observe(ctx, meter, outbound.Queue, db.Jobs(), deps.Now); err != nil {
		return textQueue{}, err
	}
	runner, err := outbound.NewRunner(outbound.Config{
		Jobs: db.Jobs(), Store: db, Rates: db, Send: sending, Sender: cfg.sender(), Pace: outbound.NewPace(cfg.SegmentsPerSecond), Tally: tally,
		Timeout: cfg.Timeout, Poll: cfg.OutboundPoll, Wake: wake, Log: observed.Log, Now: deps.Now, Metrics: metrics,
		Transient: func(err error) bool { return errors.Is(err, delivery.ErrUnavailable) || postgres.Outage(err) },
	})
	if err != nil {
		return textQueue{}, err
	}
	retention := queue.Retention{Queue: db.Jobs(), For: cfg.OutboundRetention, Log: observed.Log, Now: deps.Now}
	texts := textQueue{
		desk:  &outbound.Desk{Store: db, Sender: cfg.sender(), Wake: wake, Log: observed.Log, Now: deps.Now},
		tally: tally, send: loops.Loop("outbound", runner.Loop(deps.Rest).Run),
		clear: loops.Loop("outbound retention", retention.Loop(deps.Rest).Run),
	}
	texts.health = func(ctx context.Context) (any, error) {
		health, err := runner.Health(postgres.AcrossOrganisations(ctx), db.Jobs())
		return map[string]queue.Health{outbound.Queue: health}, err
	}
	texts.send.StopTimeout, texts.clear.StopTimeout = runner.Bound(), stopReconciler
	return texts, nil
}

// carrier is how Twilio is called: through the messaging service if there is one.
func (c *Config) carrier() twilio.Config {
	account := twilio.Config{
		AccountSID: c.AccountSID, AuthToken: c.AuthToken.First(), APIURL: c.APIURL.String(), Timeout: c.Timeout,
		MessagingServiceSID: c.ServiceSID,
	}
	if c.ServiceSID == "" {
		account.FromNumber = c.FromNumber
	}
	return account
}

// maxRequest is more than any callback of 64 KiB makes, with the names of its fields: one too large for us would come again for ever.
const maxRequest = 256 << 10

// Migrations is the schema of the messaging database.
func Migrations() postgres.Migrations { return store.Migrations() }

// Migrate brings the database to the schema that this binary needs. Any number of processes may do so at once.
func Migrate(ctx context.Context, cfg Config) error {
	schema := Migrations()
	schema.Log = telemetry.NewLogger(os.Stdout, cfg.Telemetry, name)
	return schema.Up(ctx, cmp.Or(cfg.DirectURL.Reveal(), cfg.DatabaseURL.Reveal()))
}
