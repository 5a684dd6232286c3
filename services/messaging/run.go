// Package messaging is the messaging service: the only caller of Twilio, and the owner of messages and consent.
package messaging

import (
	"context"
	"errors"
	"os"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/service"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/delivery"
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
// port, 5 s for the reconciler, 5 s for the last spans, and a second for each.
func Run(ctx context.Context, cfg Config, deps service.Deps) (err error) {
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

	pool, err := postgres.Open(ctx, postgres.Config{
		URL: cfg.DatabaseURL.Reveal(), Roles: postgres.RolesOf(name), TracerProvider: observed.Tracer,
	})
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
	grpcServer, err := serve(cfg, deps, observed, metrics, db, carrier)
	if err != nil {
		return err
	}
	reconciler := delivery.NewReconciler(delivery.ReconcilerConfig{
		Store: db, Twilio: carrier, Interval: cfg.ReconcileInterval, Timeout: cfg.Timeout, Now: deps.Now, Log: observed.Log, Metrics: metrics,
	})
	ready := func(ctx context.Context) error { return Migrations().Ready(ctx, pool) }
	if err := ready(ctx); err != nil { // it may be migrated while we wait; until then /readyz says the same
		observed.Log.ErrorContext(ctx, "messaging.not_ready", "error", err)
	}
	ops := telemetry.OpsServer(telemetry.OpsHandler(telemetry.OpsConfig{
		Registry: observed.Registry, Config: cfg, Ready: ready,
	}))
	if err := deps.Listen(ctx, "MESSAGING", cfg.Addr, cfg.OpsAddr); err != nil {
		return err
	}
	grpcComponent := process.GRPCServer("grpc", grpcServer.Server, deps.Listener, grpcServer.Health)
	grpcComponent.StopTimeout = cfg.Timeout + delivery.SettleBound
	reconcile := process.Loop("reconciler", reconciler.Loop(deps.Rest).Run)
	reconcile.StopTimeout = stopReconciler
	return process.Run(ctx, observed.Log,
		reconcile,
		process.HTTPServer("ops", ops, deps.OpsListener),
		grpcComponent,
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }},
	)
}

// serve puts the service behind its gRPC server.
func serve(
	cfg Config, deps service.Deps, observed *telemetry.Telemetry, metrics *delivery.Metrics, db *store.Store, carrier *twilio.Client,
) (*rpc.Server, error) {
	tokens, err := rpc.NewTokens(cfg.AuthSecret, deps.Now)
	if err != nil {
		return nil, err
	}
	tls, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	sending := delivery.New(delivery.Config{
		Store: db, Inbox: db, Doubts: db, Carrier: carrier, Sender: cfg.sender(), PublicURL: cfg.PublicBaseURL.String(),
		Timeout: cfg.Timeout, Lease: cfg.Lease, StopWait: delivery.DefaultStopWait, Now: deps.Now, Log: observed.Log, Metrics: metrics,
	})
	grpcServer, err := rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Policy: server.Policy(), Log: observed.Log, TracerProvider: observed.Tracer, MeterProvider: observed.Meter,
		TLS: tls.Server, Scope: service.Scope, Timeout: cfg.Timeout + delivery.SettleBound,
	})
	if err != nil {
		return nil, err
	}
	messagingv1.RegisterMessagingServiceServer(grpcServer, server.New(server.Config{
		Delivery: sending, Archive: db, Sender: cfg.sender(), Now: deps.Now,
	}))
	return grpcServer, grpcServer.CheckPolicy()
}

// carrier is how Twilio is called: through the messaging service if there is one.
func (c *Config) carrier() twilio.Config {
	account := twilio.Config{
		AccountSID: c.AccountSID, AuthToken: c.AuthToken.Reveal(), APIURL: c.APIURL.String(), Timeout: c.Timeout,
		MessagingServiceSID: c.ServiceSID,
	}
	if c.ServiceSID == "" {
		account.FromNumber = c.FromNumber
	}
	return account
}

// Migrations is the schema of the messaging database.
func Migrations() postgres.Migrations { return store.Migrations() }

// Migrate brings the database to the schema that this binary needs. Any number of processes may do so at once.
func Migrate(ctx context.Context, cfg Config) error {
	return Migrations().Up(ctx, cfg.DatabaseURL.Reveal())
}
