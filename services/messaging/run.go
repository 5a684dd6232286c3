// Package messaging is the messaging service: the only caller of Twilio, and the owner of messages and consent.
package messaging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/delivery"
	store "paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/server"
	"paceline.internal/services/messaging/twilio"
)

// name is what logs, spans and metrics call this service.
const name = "messaging"

// Deps is what a process gives to the service beyond its environment. The zero value is production.
type Deps struct {
	Log         *slog.Logger     // default: as the environment says, to standard output
	Now         func() time.Time // default: the machine's clock
	Listener    net.Listener     // default: on MESSAGING_ADDR
	OpsListener net.Listener     // default: on MESSAGING_OPS_ADDR
	Ready       func()           // called once both ports are served; default: nobody
}

// Run serves until ctx ends, then finishes what is in flight and returns nil. It does not migrate: on a database that
// is behind, /readyz says so.
//
// An orchestrator has to wait before it kills, at most: TWILIO_TIMEOUT and 10 s for sends in flight, 10 s for the ops
// port, 5 s for the last spans, and a second for each.
func Run(ctx context.Context, cfg Config, deps Deps) (err error) {
	deps.fill()
	observed, err := telemetry.New(ctx, telemetry.Options{
		Service: name, Config: cfg.Telemetry, Output: os.Stdout, Registry: telemetry.NewRegistry(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, observed.Shutdown(context.WithoutCancel(ctx))) }()
	if deps.Log != nil {
		observed.Log = deps.Log
	}

	pool, err := postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL.Reveal(), TracerProvider: observed.Tracer})
	if err != nil {
		return err
	}
	defer pool.Close() // everything that uses it ends within bounds of its own
	carrier, err := twilio.New(cfg.carrier())
	if err != nil {
		return err
	}
	defer carrier.Close()

	grpcServer, err := serve(cfg, deps, observed, store.NewStore(pool), carrier)
	if err != nil {
		return err
	}
	migrations := Migrations()
	ops := telemetry.OpsServer(telemetry.OpsHandler(telemetry.OpsConfig{
		Registry: observed.Registry, Config: cfg,
		Ready: func(ctx context.Context) error { return migrations.Ready(ctx, pool) },
	}))
	if err := deps.listen(ctx, cfg); err != nil {
		return err
	}
	grpcComponent := process.GRPCServer("grpc", grpcServer.Server, deps.Listener, grpcServer.Health)
	grpcComponent.StopTimeout = cfg.Timeout + delivery.SettleBound
	return process.Run(ctx, observed.Log,
		process.HTTPServer("ops", ops, deps.OpsListener),
		grpcComponent,
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }},
	)
}

// serve puts the service behind its gRPC server.
func serve(cfg Config, deps Deps, observed *telemetry.Telemetry, db *store.Store, carrier *twilio.Client) (*rpc.Server, error) {
	metrics, err := delivery.NewMetrics(observed.Meter.Meter(name))
	if err != nil {
		return nil, err
	}
	tokens, err := rpc.NewTokens(cfg.AuthSecret, deps.Now)
	if err != nil {
		return nil, err
	}
	tls, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	service := delivery.New(delivery.Config{
		Store: db, Inbox: db, Carrier: carrier, Sender: cfg.sender(), PublicURL: cfg.PublicBaseURL.String(),
		Timeout: cfg.Timeout, Lease: cfg.Lease, Now: deps.Now, Log: observed.Log, Metrics: metrics,
	})
	grpcServer, err := rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Policy: server.Policy(), Log: observed.Log, TracerProvider: observed.Tracer, MeterProvider: observed.Meter,
		TLS: tls.Server, Timeout: cfg.Timeout + delivery.SettleBound,
	})
	if err != nil {
		return nil, err
	}
	messagingv1.RegisterMessagingServiceServer(grpcServer, server.New(server.Config{
		Delivery: service, Archive: db, Sender: cfg.sender(), Now: deps.Now,
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

// fill puts production in the place of what was not given.
func (d *Deps) fill() {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Ready == nil {
		d.Ready = func() {}
	}
}

// listen opens the ports that were not given.
func (d *Deps) listen(ctx context.Context, cfg Config) (err error) {
	if d.OpsListener, err = listen(ctx, d.OpsListener, cfg.OpsAddr); err != nil {
		return fmt.Errorf("MESSAGING_OPS_ADDR: %w", err)
	}
	if d.Listener, err = listen(ctx, d.Listener, cfg.Addr); err != nil {
		return errors.Join(fmt.Errorf("MESSAGING_ADDR: %w", err), d.OpsListener.Close())
	}
	return nil
}

func listen(ctx context.Context, given net.Listener, addr config.Addr) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	var network net.ListenConfig
	return network.Listen(ctx, "tcp", addr.String())
}

// Migrations is the schema of the messaging database.
func Migrations() postgres.Migrations { return store.Migrations() }

// Migrate brings the database to the schema that this binary needs. Any number of processes may do so at once.
func Migrate(ctx context.Context, cfg Config) error {
	return Migrations().Up(ctx, cfg.DatabaseURL.Reveal())
}
