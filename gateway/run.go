// Package gateway is the public HTTP surface: it verifies who calls, translates to one RPC and back, and decides
// nothing itself.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"paceline.internal/gateway/kapso"
	"paceline.internal/gateway/qstash"
	"paceline.internal/gateway/route"
	"paceline.internal/gateway/shopify"
	"paceline.internal/gateway/stream"
	"paceline.internal/gateway/twilio"
	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// stopTimeout lets the longest call finish. An orchestrator has to wait before it kills, at most: this, 10 s for the ops
// port, 8 s for the devices and the readers of events, 5 s for the last spans, and a second for each.
const stopTimeout = qstash.Timeout + time.Second

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
		process.Component{Name: "streams", Stop: g.drainStreams, StopTimeout: stream.DrainTimeout},
		process.Component{Name: "ready", Start: func(context.Context) error { deps.Ready(); return nil }, Stop: g.drain},
	)
}

// gateway is the wired surface and its connections.
type gateway struct {
	handler   http.Handler
	upstreams []*upstream
	devices   *stream.Devices
	events    *stream.Events
	limits    *limits
	keys      *keyring
	tenants   *tenants
	closers   []func() error
	draining  atomic.Bool
	log       *slog.Logger
	now       func() time.Time // the machine's clock

	asking chan struct{} // has one element while the services are asked, or their answer is read
	asked  time.Time
	answer error
}

// open wires everything. Only the JWKS is called yet, if there is one.
func open(ctx context.Context, cfg Config, deps process.Deps, tel *telemetry.Telemetry) (*gateway, error) {
	g := &gateway{log: deps.Log, now: time.Now, asking: make(chan struct{}, 1)}
	if err := g.wire(ctx, cfg, deps, tel); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *gateway) wire(ctx context.Context, cfg Config, deps process.Deps, tel *telemetry.Telemetry) error {
	client, onboarding, messaging, err := g.connect(cfg, deps, tel)
	if err != nil {
		return err
	}
	meter := tel.Meter.Meter("gateway")
	if err := g.openStreams(client, meter, deps.Log); err != nil {
		return err
	}
	// The keys are refreshed until the last request is answered, which is after ctx has ended.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.closers = append(g.closers, func() error { stop(); return nil })
	if g.limits, err = newLimits(cfg.RateOrg, cfg.RateToken, meter, time.Now); err != nil {
		return err
	}
	auth, err := g.openAuth(background, cfg, deps, onboarding)
	if err != nil {
		return err
	}
	api, err := newAPI(ctx, onboarding, messaging)
	if err != nil {
		return err
	}
	if api, err = forClients(cfg.CORSOrigins, auth.require(g.limits.bound(api))); err != nil {
		return err
	}
	conversations, messages := onboardingv1.NewOnboardingServiceClient(onboarding), messagingv1.NewMessagingServiceClient(messaging)
	var alarms *qstash.Alarms
	if cfg.takesQStash() {
		alarms, err = qstash.New(qstash.Config{
			CurrentKey: cfg.QStashCurrentKey, NextKey: cfg.QStashNextKey, Origin: cfg.PublicBaseURL,
			Onboarding: conversations, Goals: onboardingv1.NewGoalServiceClient(onboarding), Meter: meter, Now: deps.Now, Log: deps.Log,
		})
	}
	accounts, accountsErr := g.networkLimits("account", lookupRate)
	carrier, carrierErr := twilio.New(twilio.Config{
		AuthTokens: cfg.TwilioAuthToken, Origin: cfg.PublicBaseURL, Onboarding: conversations, Messaging: messages,
		Senders: messagingv1.NewSenderServiceClient(messaging), Moved: g.tenants.moved, Now: deps.Now,
		Admit: func(ctx context.Context) error {
			if tooMany := accounts.take(ctx, http.Header{}, rpc.Principal{Client: route.ClientFrom(ctx)}); tooMany != nil {
				return tooMany
			}
			return nil
		},
	})
	sources, sourcesErr := openSources(cfg)
	pages, consoleErr := g.openConsole(cfg, deps, auth, onboarding, messaging)
	if err := errors.Join(err, accountsErr, carrierErr, sourcesErr, consoleErr); err != nil {
		return err
	}
	g.handler = surface{
		alarms: alarms, carrier: carrier, sources: sources,
		hooks: route.Webhooks{
			Onboarding: conversations, Messaging: messages, Jobs: onboardingv1.NewWebhookJobServiceClient(onboarding),
			DefaultOrgID: cfg.DefaultOrgID,
		},
		api: api, console: pages, devices: g.devices, ready: g.ready, proxies: cfg.TrustedProxies,
		// Not compressed: an event is not to wait for others.
		followed: forPages(cfg.CORSOrigins, auth.require(g.limits.bound(auth.whileValid(g.events.Serve)))),
		log:      deps.Log, now: deps.Now, tracer: tel.Tracer, meter: tel.Meter,
	}.handler()
	return nil
}

// openStreams opens the connections of long streams.
func (g *gateway) openStreams(client rpc.ClientConfig, meter metric.Meter, log *slog.Logger) (err error) {
	g.devices, err = stream.NewDevices(client, meter, log, func(ctx context.Context) stream.Client {
		if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
			return c
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.closers = append(g.closers, g.devices.Close)
	rules, err := rulesOf([]string{onboardingv1.EventService_ServiceDesc.ServiceName})
	if err != nil {
		return err
	}
	rule := rules[onboardingv1.EventService_StreamEvents_FullMethodName]
	g.events, err = stream.NewEvents(client, func(ctx context.Context, in *onboardingv1.StreamEventsRequest) error {
		principal, _ := rpc.PrincipalFrom(ctx)
		return permit(rule, principal, in)
	})
	if err == nil {
		g.closers = append(g.closers, g.events.Close)
	}
	return err
}

// openSources opens the vendors of webhooks.
func openSources(cfg Config) ([]route.Source, error) {
	kapsoKeys, err := route.NewKeys(cfg.KapsoSecret)
	if err != nil {
		return nil, fmt.Errorf("KAPSO_WEBHOOK_SECRET %w", err)
	}
	shopifyKeys, err := route.NewKeys(cfg.ShopifySecret)
	if err != nil {
		return nil, fmt.Errorf("SHOPIFY_WEBHOOK_SECRET %w", err)
	}
	served, err := route.ReadOwners(cfg.KapsoPhoneNumberID)
	if err != nil {
		return nil, fmt.Errorf("KAPSO_PHONE_NUMBER_ID %w", err)
	}
	shops, err := route.ReadOwners(strings.ToLower(cfg.ShopifyShops)) // as Shopify names its shops
	if err != nil {
		return nil, fmt.Errorf("SHOPIFY_SHOPS %w", err)
	}
	return []route.Source{kapso.New(kapsoKeys, served), shopify.New(shopifyKeys, shops)}, nil
}

func (g *gateway) openAuth(
	ctx context.Context, cfg Config, deps process.Deps, onboarding grpc.ClientConnInterface,
) (*authenticator, error) {
	attempts, err := g.networkLimits("key", lookupRate)
	if err != nil {
		return nil, err
	}
	if g.keys, err = newKeyring(onboardingv1.NewAPIKeyServiceClient(onboarding), attempts, g.now, deps.Now); err != nil {
		return nil, err
	}
	if g.tenants, err = newTenants(onboardingv1.NewOrganisationServiceClient(onboarding), g.now); err != nil {
		return nil, err
	}
	auth := authConfig{
		secret: cfg.JWTSecret, issuer: cfg.JWTIssuer, audience: cfg.JWTAudience, keys: g.keys, tenants: g.tenants,
		jwksPlatform: cfg.JWKSPlatform == "on", now: deps.Now,
	}
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
	go func() { readers <- g.events.Drain(ctx) }()
	return errors.Join(g.devices.Drain(ctx), <-readers)
}

// close ends the connections and the look-ups of keys.
func (g *gateway) close() error {
	var problems []error
	for _, end := range g.closers {
		problems = append(problems, end())
	}
	return errors.Join(problems...)
}
