// Package gateway is the public HTTP surface: it verifies who calls, translates to one RPC and back, and decides
// nothing itself.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// stopTimeout lets the longest call finish. An orchestrator has to wait before it kills, at most: this, 10 s for the ops
// port, 8 s for the devices and the readers of events, 5 s for the last spans, and a second for each.
const stopTimeout = stepTimeout + time.Second

// Run serves until ctx ends, then finishes what is in flight. It returns nil after a clean end.
func Run(ctx context.Context, cfg Config, deps process.Deps) (err error) {
	tel, err := telemetry.New(ctx, telemetry.Options{
		Service: "gateway", Config: cfg.Telemetry, Output: os.Stdout, Registry: telemetry.NewRegistry(),
	})
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	defer func() { err = errors.Join(err, tel.Shutdown(context.WithoutCancel(ctx))) }()
	deps.Fill(tel.Log)
	g, err := open(ctx, cfg, deps, tel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if err := deps.Listen(ctx, "GATEWAY", cfg.Addr, cfg.OpsAddr); err != nil {
		return err
	}
	process.LogPlainText(ctx, deps.Log, cfg.TLS, config.Addr{}, cfg.OnboardingAddr, cfg.MessagingAddr)
	ops := telemetry.OpsHandler(telemetry.OpsConfig{Registry: tel.Registry, Ready: g.ready, Addr: cfg.OpsAddr, Config: cfg})
	public := process.HTTPServer("http", server(g.handler, deps.Log), deps.Listener)
	public.StopTimeout = stopTimeout
	return process.Run(ctx, deps.Log,
		process.HTTPServer("ops", telemetry.OpsServer(ops), deps.OpsListener),
		public,
		process.Component{Name: "streams", Stop: g.drainStreams, StopTimeout: drainTimeout},
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }, Stop: g.drain},
	)
}

// gateway is the wired surface and its connections.
type gateway struct {
	handler   http.Handler
	upstreams []upstream
	devices   *devices
	events    *eventStreams
	limits    *limits
	ofQStash  *places
	ofTwilio  *places
	stopJWKS  context.CancelFunc
	draining  atomic.Bool
	now       func() time.Time // the machine's clock

	asking chan struct{} // has one element while the services are asked, or their answer is read
	asked  time.Time
	answer error
}

// upstream is the one connection to a service.
type upstream struct {
	name string
	*grpc.ClientConn
}

// open wires everything. Only the JWKS is called yet, if there is one.
func open(ctx context.Context, cfg Config, deps process.Deps, tel *telemetry.Telemetry) (*gateway, error) {
	tokens, err := rpc.NewTokens(cfg.keys(), deps.Now)
	if err != nil {
		return nil, err
	}
	verifier, err := qstash.NewVerifier(qstash.VerifierConfig{
		CurrentKey: cfg.QStashCurrentKey.Reveal(), NextKey: cfg.QStashNextKey.Reveal(), Now: deps.Now,
	})
	if err != nil {
		return nil, err
	}
	signatures, err := newTwilioSignatures(cfg.TwilioAuthToken)
	if err != nil {
		return nil, err
	}
	onboarding, messaging, err := dial(cfg, tokens, tel)
	if err != nil {
		return nil, err
	}
	client, err := calling(cfg, tokens, tel)
	if err != nil {
		return nil, errors.Join(err, onboarding.Close(), messaging.Close())
	}
	streams, err := newDevices(client, tel.Meter.Meter("gateway"), deps.Log)
	if err != nil {
		return nil, errors.Join(err, onboarding.Close(), messaging.Close())
	}
	events, err := newEventStreams(client)
	if err != nil {
		return nil, errors.Join(err, streams.close(), onboarding.Close(), messaging.Close())
	}
	g := &gateway{
		devices: streams, events: events,
		upstreams: []upstream{{"onboarding", onboarding}, {"messaging", messaging}},
		ofQStash:  newPlaces(maxAlarms, maxWaitingAlarms), ofTwilio: newPlaces(maxCallbacks/2, maxCallbacks/2),
		now: time.Now, asking: make(chan struct{}, 1),
	}
	// The keys are refreshed until the last request is answered, which is after ctx has ended.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stopJWKS = stop
	auth, err := openAuth(background, cfg, deps)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	api, err := newAPI(ctx, onboarding, messaging)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	g.limits, err = newLimits(cfg.RateOrg, cfg.RateToken, tel.Meter.Meter("gateway"), time.Now)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	if api, err = forClients(cfg.CORSOrigins, auth.require(g.limits.bound(api))); err != nil {
		return nil, errors.Join(err, g.close())
	}
	// Not compressed: an event is not to wait for others.
	followed := forPages(cfg.CORSOrigins, auth.require(g.limits.bound(http.HandlerFunc(events.serve))))
	sources, err := openSources(cfg)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	measured, err := newLateness(tel.Meter.Meter("gateway"), deps.Now)
	pages, consoleErr := g.openConsole(cfg, deps, auth, onboarding, messaging)
	if err := errors.Join(err, consoleErr); err != nil {
		return nil, errors.Join(err, g.close())
	}
	conversations, jobs := onboardingv1.NewOnboardingServiceClient(onboarding), onboardingv1.NewWebhookJobServiceClient(onboarding)
	messages := messagingv1.NewMessagingServiceClient(messaging)
	g.handler = surface{
		alarms: alarms{
			verifier: verifier, onboarding: conversations, goals: onboardingv1.NewGoalServiceClient(onboarding), origin: cfg.PublicBaseURL,
			lateness: measured, places: g.ofQStash, now: deps.Now, log: deps.Log,
		},
		carrier: carrier{
			signatures: signatures, places: g.ofTwilio, origin: cfg.PublicBaseURL, onboarding: conversations, messaging: messages,
		},
		hooks: webhooks{onboarding: conversations, messaging: messages, jobs: jobs}, sources: sources,
		api: api, console: pages, devices: streams, followed: followed, ready: g.ready, proxies: cfg.TrustedProxies,
		log: deps.Log, now: deps.Now, tracer: tel.Tracer, meter: tel.Meter,
	}.handler()
	return g, nil
}

// openSources are the vendors whose webhooks become jobs.
func openSources(cfg Config) ([]source, error) {
	kapsoKeys, err := newWebhookKeys(cfg.KapsoSecret)
	if err != nil {
		return nil, fmt.Errorf("KAPSO_WEBHOOK_SECRET %w", err)
	}
	shopifyKeys, err := newWebhookKeys(cfg.ShopifySecret)
	if err != nil {
		return nil, fmt.Errorf("SHOPIFY_WEBHOOK_SECRET %w", err)
	}
	return []source{newKapso(kapsoKeys, cfg.KapsoPhoneNumberID), newShopify(shopifyKeys)}, nil
}

// The services behind each connection. Their protos say who may call a method, over /v1 and at the service, and which calls the
// connection may repeat.
var (
	onboardingServices = []string{
		onboardingv1.OnboardingService_ServiceDesc.ServiceName, onboardingv1.WebhookJobService_ServiceDesc.ServiceName,
		onboardingv1.EngagementService_ServiceDesc.ServiceName, onboardingv1.GoalService_ServiceDesc.ServiceName,
		onboardingv1.EventService_ServiceDesc.ServiceName,
	}
	messagingServices = []string{
		messagingv1.MessagingService_ServiceDesc.ServiceName, messagingv1.OutboundService_ServiceDesc.ServiceName,
	}
)

// dial connects to the services. What QStash and Twilio say is passed on as the gateway itself; what a person asks for
// on /v1, as that person.
func dial(cfg Config, tokens *rpc.Tokens, tel *telemetry.Telemetry) (onboarding, messaging *grpc.ClientConn, err error) {
	client, err := calling(cfg, tokens, tel)
	if err != nil {
		return nil, nil, err
	}
	client.Services = onboardingServices
	if onboarding, err = rpc.Dial(client); err != nil {
		return nil, nil, fmt.Errorf("onboarding: %w", err)
	}
	client.Target = cfg.MessagingAddr.String()
	client.Services = messagingServices
	if messaging, err = rpc.Dial(client); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("messaging: %w", err), onboarding.Close())
	}
	return onboarding, messaging, nil
}

// service is the gateway itself, where it asks something of its own.
var service = rpc.Principal{Subject: rpc.Gateway, Role: rpc.RoleService}

// calling is how the gateway calls onboarding.
func calling(cfg Config, tokens *rpc.Tokens, tel *telemetry.Telemetry) (rpc.ClientConfig, error) {
	files, err := rpc.LoadTLS(cfg.TLS)
	return rpc.ClientConfig{
		Target: cfg.OnboardingAddr.String(), Tokens: tokens, Caller: service,
		TracerProvider: tel.Tracer, MeterProvider: tel.Meter, TLS: files.Client, Timeout: stepTimeout,
	}, err
}

func openAuth(ctx context.Context, cfg Config, deps process.Deps) (*authenticator, error) {
	auth := authConfig{secret: cfg.JWTSecret, issuer: cfg.JWTIssuer, audience: cfg.JWTAudience, now: deps.Now}
	if cfg.JWKSURL != "" {
		keys, err := newJWKS(ctx, deps.Log, cfg.JWKSURL)
		if err != nil {
			return nil, err
		}
		auth.jwks = keys
	}
	return newAuthenticator(auth)
}

// drain makes readiness false while the requests in flight are being finished.
func (g *gateway) drain(context.Context) error {
	g.draining.Store(true)
	return nil
}

// drainStreams ends the streams of devices and of events at the same time.
func (g *gateway) drainStreams(ctx context.Context) error {
	readers := make(chan error, 1)
	go func() { readers <- g.events.drain(ctx) }()
	return errors.Join(g.devices.drain(ctx), <-readers)
}

// ready reports why there should be no traffic now. It names no address: the answer is public.
func (g *gateway) ready(ctx context.Context) error {
	if g.draining.Load() {
		return errors.New("the gateway is stopping")
	}
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return errors.New("the services do not say in time whether they are ready")
	}
	if g.asked.IsZero() || g.now().Sub(g.asked) > readyTrust {
		problems := make([]error, len(g.upstreams))
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // other callers use the answer, too
		defer cancel()
		var each sync.WaitGroup
		for i, u := range g.upstreams {
			each.Go(func() { problems[i] = u.ready(asking) })
		}
		each.Wait()
		g.answer, g.asked = errors.Join(problems...), g.now()
	}
	return g.answer
}

const (
	// readyTrust is how long an answer is reused: any stranger may ask, and the question goes to the services on the connection that
	// people's messages use. readyTimeout bounds it.
	readyTrust   = time.Second
	readyTimeout = 1500 * time.Millisecond
	readyTries   = 3
)

// ready asks the upstream's own health check: whether it serves, and whether it has its database, without which every request fails. Each
// question goes to another replica, and one that is well is enough.
func (u upstream) ready(ctx context.Context) (err error) {
	for range readyTries {
		trying, cancel := context.WithTimeout(ctx, readyTimeout/readyTries)
		err = u.replicaReady(trying)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// replicaReady asks one replica, in one question, whether it has its database: then it serves, too.
func (u upstream) replicaReady(ctx context.Context) error {
	answer, err := healthpb.NewHealthClient(u).Check(ctx, &healthpb.HealthCheckRequest{Service: rpc.HealthDatabase})
	switch {
	case status.Code(err) == codes.NotFound: // of a server without a database
		return nil
	case err != nil: // it names an address, and the answer is public
		return fmt.Errorf("%s is not serving", u.name)
	case answer.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return fmt.Errorf("%s cannot use its database: it is out of reach, or its schema is behind", u.name)
	}
	return nil
}

// close ends the connections and the look-ups of keys.
func (g *gateway) close() error {
	g.stopJWKS()
	problems := []error{g.devices.close(), g.events.close()}
	for _, u := range g.upstreams {
		problems = append(problems, u.Close())
	}
	return errors.Join(problems...)
}

const (
	idleTimeout = 2 * time.Minute
	maxHeader   = 32 << 10
)

// server is the public HTTP server. Every timeout is set: without one a stranger could hold a connection open.
func server(handler http.Handler, log *slog.Logger) *http.Server {
	now := time.Now // deadlines of connections are on the machine's clock
	clients := &connections{open: map[net.Conn]*connection{}}
	return &http.Server{
		Handler:           timely(now, handler),
		ConnContext:       clients.opened,
		ConnState:         clients.changed,
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       4 * time.Second,             // a body has deadlines of its own, which come earlier
		WriteTimeout:      stepTimeout + 5*time.Second, // counts from the end of the header: reading, one call, writing
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
