// Package messaging is the messaging service: the only caller of Twilio, and the owner of messages and consent.
package messaging

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/anchor"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// name is the name of this service in logs, spans and metrics.
const name = "messaging"

// stopReconciler bounds the end of the reconciler, which breaks off the check it is at: the row is checked again later. Other
// loops have the same.
const stopReconciler = 5 * time.Second

// Run serves until ctx ends, then finishes what is in flight and returns nil. It does not migrate: on a database that
// is behind, /readyz says so.
//
// An orchestrator has to wait before it kills, at most: TWILIO_TIMEOUT and 10 s for sends in flight, 10 s for the ops
// port, 5 s for the reconciler, 5 s for the counter, as long as for sends for the responder, 5 s more than that for the outbound queue, 5 s
// for its retention, 5 s for the anchors of the ledgers, 5 s for the history of the database, 5 s for reading back, 5 s for the last spans,
// and a second for each.
func Run(ctx context.Context, cfg Config, deps process.Deps) (err error) {
	ctx = postgres.AcrossOrganisations(ctx) // what works without being called works for all; a call has its own scope
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
	database.TracerProvider, database.Watch = observed.Tracer, observed.Log
	pool, err := postgres.OpenFor(ctx, name, database)
	if err != nil {
		return err
	}
	defer pool.Close() // everything that uses it ends within its own bounds
	carrier, known, err := openSenders(ctx, cfg, pool, deps)
	if err != nil {
		return err
	}
	defer carrier.Close()

	loops, err := process.NewLoops(observed.Meter.Meter(name), observed.Log, deps.PassBound)
	if err != nil {
		return err
	}
	w := &wiring{
		cfg: cfg, deps: deps, observed: observed, meter: observed.Meter.Meter(name), loops: loops, pool: pool, carrier: carrier,
		senders: known,
		tally:   new(outbound.Tally), calls: audit.New(pool, deps.Now), stores: newStores(pool, consent.NewPseudonyms(cfg.PseudonymKey.Reveal())),
	}
	if err := errors.Join(postgres.Observe(w.meter, pool), postgres.ObserveWrites(w.meter, pool)); err != nil {
		return err
	}
	sending, reconcile, err := w.send(ctx)
	if err != nil {
		return err
	}
	received, respond, err := w.inbound(sending)
	if err != nil {
		return err
	}
	queued, err := w.outbound(ctx, sending)
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return pool.Ready(ctx, Migrations()) }
	grpcServer, err := w.serve(sending, received, queued, ready)
	if err != nil {
		return err
	}
	working := func(ctx context.Context) error { return errors.Join(loops.Ready(), ready(ctx)) }
	process.LogPlainText(ctx, observed.Log, cfg.TLS, cfg.Addr)
	if err := working(ctx); errors.Is(err, postgres.ErrOtherService) {
		return err
	} else if err != nil { // it may be migrated while we wait; until then /readyz says the same
		observed.Log.ErrorContext(ctx, "messaging.not_ready", "error", err)
	}
	ops := telemetry.OpsServer(telemetry.OpsHandler(telemetry.OpsConfig{
		Registry: observed.Registry, Addr: cfg.OpsAddr, Config: cfg, Ready: working, Queues: queued.health,
	}))
	if err := deps.Listen(ctx, "MESSAGING", cfg.Addr, cfg.OpsAddr); err != nil {
		return err
	}
	watching, err := w.watch(ctx, received)
	if err != nil {
		return err
	}
	return process.Run(ctx, observed.Log, append(watching,
		reconcile,
		w.count(),
		respond,
		queued.send,
		queued.clear,
		process.HTTPServer("ops", ops, deps.OpsListener),
		bounded(process.GRPCServer("grpc", grpcServer.Server, deps.Listeners(), grpcServer.Health), cfg.Timeout+send.SettleBound),
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }},
	)...)
}

func bounded(c process.Component, stop time.Duration) process.Component {
	c.StopTimeout = stop
	return c
}

// wiring holds the parts from which every feature is made. Each has one function below.
type wiring struct {
	cfg      Config
	deps     process.Deps
	observed *telemetry.Telemetry
	meter    metric.Meter
	loops    *process.Loops
	pool     postgres.DB
	carrier  *twilio.Client // of the environment's account
	senders  *senders.Directory
	tally    *outbound.Tally // of what is sent outside the queue
	calls    *audit.Log
	stores   stores
}

// newStores makes the stores of the rooms, on one database.
func newStores(pool postgres.DB, pseudonyms consent.Pseudonyms) stores {
	consents, queued := ledger.NewStore(pool, pseudonyms), outbound.NewStore(pool)
	queued.Pseudonyms = pseudonyms
	return stores{
		ledger: consents, send: send.NewStore(pool, consents), inbound: inbound.NewStore(pool, consents), outbound: queued,
	}
}

type stores struct {
	ledger   *ledger.Store
	send     *send.Store
	inbound  *inbound.Store
	outbound *outbound.Store
}

// send returns what sends, and the loop that settles sends in doubt.
func (w *wiring) send(ctx context.Context) (*send.Service, process.Component, error) {
	db := w.stores.send
	metrics, err := send.NewMetrics(w.meter)
	err = errors.Join(err, send.Observe(ctx, w.meter, db.Gauges, w.deps.Now), send.ObserveOrganisations(ctx, w.meter, db.Busy, w.deps.Now),
		outbound.Observe(ctx, w.meter, w.stores.outbound))
	if err != nil {
		return nil, process.Component{}, err
	}
	limiter := &outbound.Outreach{
		Store: w.stores.outbound, Senders: w.senders, Tally: w.tally, Interval: w.cfg.OutreachInterval,
	}
	phone.Allow(w.cfg.ExtraPrefixes)
	sending := send.New(send.Config{
		Store: db, Evidence: db, Carrier: w.carrier, Limiter: limiter, Senders: w.senders, Numbers: w.cfg.Numbers,
		Caps: w.cfg.Caps, PublicURL: w.cfg.PublicBaseURL.String(),
		Timeout: w.cfg.Timeout, Lease: w.cfg.Lease, StopWait: send.DefaultStopWait, Now: w.deps.Now, Log: w.observed.Log, Metrics: metrics,
		Conversations: telemetry.Conversations{Tracer: w.observed.Tracer.Tracer("paceline.internal/services/" + name)},
	})
	reconciler := send.NewReconciler(send.ReconcilerConfig{
		Store: db, Carrier: w.carrier, Senders: w.senders, Interval: w.cfg.ReconcileInterval, Timeout: w.cfg.Timeout, Now: w.deps.Now,
		Log: w.observed.Log, Metrics: metrics,
	})
	reconcile := w.loops.Loop("reconciler", reconciler.Loop(w.deps.Rest).Run)
	reconcile.StopTimeout = stopReconciler
	return sending, reconcile, nil
}

// count is the loop that counts messages for the overview. A count that is broken off is made again.
func (w *wiring) count() process.Component {
	counter := &send.Counter{Store: w.stores.send, Now: w.deps.Now, Log: w.observed.Log}
	loop := w.loops.Loop("counter", counter.Loop(w.deps.Rest).Run)
	loop.StopTimeout = stopReconciler
	return loop
}

// inbound returns what takes in what people write, and the loop that answers words about consent.
func (w *wiring) inbound(sending *send.Service) (*inbound.Service, process.Component, error) {
	metrics, err := inbound.NewMetrics(w.meter)
	if err != nil {
		return nil, process.Component{}, err
	}
	received := inbound.New(inbound.Config{
		Store: w.stores.inbound, Twilio: w.carrier, Send: sending, Copy: w.cfg.replyCopy(), Now: w.deps.Now, Log: w.observed.Log,
		Metrics: metrics,
	})
	respond := w.loops.Loop("responder", received.Loop(w.deps.Rest).Run)
	respond.StopTimeout = w.cfg.Timeout + send.SettleBound
	return received, respond, nil
}

func (w *wiring) serve(
	sending *send.Service, received *inbound.Service, queued outboundQueue, ready func(ctx context.Context) error,
) (*rpc.Server, error) {
	tokens, err := rpc.NewTokens(w.cfg.keys(), w.deps.Now)
	if err != nil {
		return nil, err
	}
	tls, err := rpc.LoadTLS(w.cfg.TLS)
	if err != nil {
		return nil, err
	}
	grpcServer, err := rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Log: w.observed.Log, TracerProvider: w.observed.Tracer, MeterProvider: w.observed.Meter,
		TLS: tls.Server, Scope: process.Scope, Timeout: w.cfg.Timeout + send.SettleBound, Database: ready, Keep: w.calls.Keep,
		MaxRequest: maxRequest,
	})
	if err != nil {
		return nil, err
	}
	register(grpcServer, newService(rooms{
		stores: w.stores, sending: sending, received: received, intake: queued.intake, sent: w.tally.Add, calls: w.calls,
		log: w.observed.Log,
	}))
	return grpcServer, grpcServer.CheckRules()
}

// outboundQueue is the outbound queue: its intake, its runner, and the sweep that deletes old messages.
type outboundQueue struct {
	intake      *outbound.Intake
	send, clear process.Component
	health      func(ctx context.Context) (any, error)
}

func (w *wiring) outbound(ctx context.Context, sending *send.Service) (outboundQueue, error) {
	db, log, now := w.stores.outbound, w.observed.Log, w.deps.Now
	wake := make(chan struct{}, 1)
	metrics, err := queue.NewMetrics(w.meter)
	deleted, deletedErr := retention.NewMetrics(w.meter)
	if err := errors.Join(err, deletedErr, queue.Observe(ctx, w.meter, outbound.Queue, db.Jobs(), now)); err != nil {
		return outboundQueue{}, err
	}
	runner := outbound.NewRunner(outbound.Config{
		Store: db, Send: sending, Senders: w.senders, Tally: w.tally, Timeout: w.cfg.Timeout, Poll: w.cfg.OutboundPoll, Wake: wake,
		Log: log, Now: now, Metrics: metrics,
		Transient: func(err error) bool { return errors.Is(err, sms.ErrUnavailable) || postgres.Outage(err) },
	})
	w.cfg.logShortConsent(ctx, log)
	queued := outboundQueue{
		intake: &outbound.Intake{Store: db, Senders: w.senders, Send: sending, Wake: wake, Log: log, Now: now},
		send:   w.loops.Loop("outbound", runner.Loop(w.deps.Rest).Run),
		clear:  w.loops.Loop("outbound-retention", w.clear(deleted).Run),
	}
	queued.health = func(ctx context.Context) (any, error) {
		health, err := runner.Health(postgres.AcrossOrganisations(ctx))
		return map[string]queue.Health{outbound.Queue: health}, err
	}
	queued.send.StopTimeout, queued.clear.StopTimeout = runner.Bound(), stopReconciler
	return queued, nil
}

// anchors is the loop that writes signed anchors of the consent ledgers outside the database, if it is to.
func (w *wiring) anchors(ctx context.Context) ([]process.Component, error) {
	if w.cfg.LedgerKey.IsZero() {
		return nil, nil
	}
	key, err := anchor.ParseKey(w.cfg.LedgerKey.Reveal())
	if err != nil {
		return nil, err
	}
	db := &anchor.Store{Pool: w.pool}
	if err := anchor.Observe(ctx, w.meter, db.UnanchoredSince, w.deps.Now); err != nil {
		return nil, err
	}
	writer := &anchor.Writer{
		Due: db.AnchorLedgers, Dir: w.cfg.AnchorDir, Key: key, Now: w.deps.Now, Log: w.observed.Log,
	}
	loop := w.loops.Loop("ledger anchors", process.Repetition{
		Once: writer.Once, Rest: w.deps.Rest, Every: w.cfg.AnchorInterval,
		Failed: func(ctx context.Context, err error) {
			w.observed.Log.ErrorContext(ctx, "ledger.not_anchored", "error", err)
		},
	}.Run)
	loop.StopTimeout = stopReconciler
	return []process.Component{loop}, nil
}

// ownRetention reads how long organisations have decided to keep something.
func (w *wiring) ownRetention(ctx context.Context) (retention.Own, error) {
	return ownRetention(ctx, w.pool, w.cfg.kept(), w.observed.Log)
}

// clear repeats the deletion of what is old: messages of the queue, events that onboarding has not fetched within a week (it does not run,
// or is of a release that fetches none), the words of one-time codes once they have been at their end for as long as they are valid, and
// the rows that the rules of retention say are over.
func (w *wiring) clear(deleted *retention.Metrics) process.Repetition {
	const keptEvents, batch = 7 * 24 * time.Hour, 1000
	ended := (&queue.Retention{
		Queue: w.stores.outbound.Jobs(), For: w.cfg.OutboundRetention, Setting: retention.Outbound, Own: w.ownRetention,
		Log: w.observed.Log, Now: w.deps.Now,
	}).Loop(w.deps.Rest)
	sweep := &retention.Sweep{
		DB: w.pool, Rules: retentionRules(w.cfg.kept()), Own: w.ownRetention, Metrics: deleted, Log: w.observed.Log, Now: w.deps.Now,
	}
	ofQueue := ended.Once
	ended.Once = func(ctx context.Context) (bool, error) {
		more, err := ofQueue(ctx)
		events, eventsErr := w.stores.send.DropEvents(ctx, w.deps.Now().Add(-keptEvents), batch)
		if events > 0 {
			w.observed.Log.WarnContext(ctx, "events.dropped", "events", events)
		}
		sweepErr := sweep.Pass(ctx)
		codes, codesErr := w.stores.outbound.ForgetCodes(ctx, w.deps.Now().Add(-outbound.CodeValidity), batch)
		return more || events == batch || codes == batch, errors.Join(err, eventsErr, sweepErr, codesErr)
	}
	return ended
}

// carrier returns how Twilio is called: through the messaging service if there is one.
func (c *Config) carrier() twilio.Config {
	account := twilio.Config{
		AccountSID: c.AccountSID, AuthToken: c.AuthToken.First(), APIURL: c.APIURL.String(), Timeout: c.Timeout,
		MessagingServiceSID: c.ServiceSID,
	}
	if c.APIKeySID != "" {
		account.APIKeySID, account.AuthToken = c.APIKeySID, c.APIKeySecret.Reveal()
	}
	if c.ServiceSID == "" {
		account.FromNumber = c.FromNumber
	}
	return account
}

// maxRequest is more than any callback of 64 KiB makes, with the names of its fields: one too large for us would come again for ever.
const maxRequest = 256 << 10

// Migrations is the schema of the messaging database.
func Migrations() postgres.Migrations { return schema.Migrations() }

// Migrate brings the database to the schema that this binary needs. Any number of processes may do so at once.
func Migrate(ctx context.Context, cfg Config) error {
	schema := Migrations()
	schema.Log = telemetry.NewLogger(os.Stdout, cfg.Telemetry, name)
	return schema.Up(ctx, cmp.Or(cfg.MigrateURL.Reveal(), cfg.DirectURL.Reveal(), cfg.DatabaseURL.Reveal()))
}
