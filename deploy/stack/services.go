package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"paceline.internal/gateway"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// OrgID is the organisation that owns the sender, unless DEFAULT_ORG_ID says otherwise.
const OrgID = "00000000-0000-7000-8000-000000000001"

// Secrets derive the keys of the processes (see Keys) and sign the tokens of /v1; each at least 32 bytes.
type Secrets struct {
	ServiceAuth string `json:"service_auth_secret"`
	APIJWT      string `json:"api_jwt_secret"`
	Pseudonym   string `json:"pseudonym_key"`      // empty where no person is erased
	Ledger      string `json:"ledger_signing_key"` // of the anchors; a stack with anchors sets both variables
	Senders     string `json:"sender_keyset"`      // empty where no sender is stored
}

// Addresses are the services' listening addresses, host:port. An empty one means a free port on the loopback.
type Addresses struct {
	Gateway, GatewayOps       string
	Onboarding, OnboardingOps string
	Messaging, MessagingOps   string
}

// ServiceConfig sets what the services run on.
type ServiceConfig struct {
	OnboardingDatabaseURL string
	MessagingDatabaseURL  string
	// OnboardingMigrateURL and MessagingMigrateURL are of the owners; empty where the login that serves is the owner, or the schema is
	// there.
	OnboardingMigrateURL, MessagingMigrateURL string

	Secrets      Secrets
	Addresses    Addresses
	Log          *slog.Logger
	Rest         process.Rest      // how their loops wait; default: on the machine's clock
	Environ      map[string]string // on top of what the stack sets itself
	ConsoleLinks bool              // the console takes links that sign in once
}

// Services are the three services, running.
type Services struct {
	Addresses Addresses // as they were bound
	Secrets   Secrets

	vendors *Vendors
	given   map[string]string
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error
}

// StartServices migrates both databases, starts messaging, onboarding and the gateway, and returns once all of them
// serve. Callbacks of the vendors reach them from then on.
func StartServices(ctx context.Context, vendors *Vendors, cfg ServiceConfig) (*Services, error) {
	ports, err := bind(ctx, cfg.Addresses)
	if err != nil {
		return nil, err
	}
	defer ports.close() // those that are served by then are closed by their servers already, or stay theirs
	s := &Services{Addresses: ports.addresses(), Secrets: cfg.Secrets, vendors: vendors, ended: make(chan struct{})}
	components, err := s.components(ctx, cfg, ports)
	if err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	components = append(components, process.Component{Name: "stack", Start: func(context.Context) error {
		vendors.Twilio.SetInboundURL(s.URL() + "/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all")
		close(ready)
		return nil
	}})
	// The services end when Stop says so, not when the context of this call does.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	go func() {
		defer close(s.ended)
		s.err = process.Run(running, cfg.Log, components...)
	}()
	select {
	case <-ready:
		ports.given()
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("the services did not start: %w", s.err)
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), s.Stop(context.WithoutCancel(ctx)))
	}
}

// components are the services in the order in which they depend on each other.
func (s *Services) components(ctx context.Context, cfg ServiceConfig, ports *ports) ([]process.Component, error) {
	environ := s.environ(cfg)
	s.given = environ
	messagingCfg, messagingErr := messaging.LoadConfig(environ)
	onboardingCfg, onboardingErr := onboarding.LoadConfig(environ)
	gatewayCfg, gatewayErr := gateway.LoadConfig(environ)
	if err := errors.Join(messagingErr, onboardingErr, gatewayErr); err != nil {
		return nil, err
	}
	if err := errors.Join(messaging.Migrate(ctx, messagingCfg), onboarding.Migrate(ctx, onboardingCfg)); err != nil {
		return nil, err
	}
	gatewayCfg.ConsoleLinks = cfg.ConsoleLinks
	deps := process.Deps{Now: s.vendors.clock.Now, Rest: cfg.Rest}
	given := func(service string, listener, ops net.Listener, ready func()) process.Deps {
		d := deps
		d.Log, d.Listener, d.OpsListener, d.Ready = cfg.Log.With("service", service), listener, ops, ready
		return d
	}
	return concat(
		serving("messaging", func(ctx context.Context, ready func()) error {
			return messaging.Run(ctx, messagingCfg, given("messaging", ports.messaging, ports.messagingOps, ready))
		}),
		serving("onboarding", func(ctx context.Context, ready func()) error {
			return onboarding.Run(ctx, onboardingCfg, given("onboarding", ports.onboarding, ports.onboardingOps, ready))
		}),
		serving("gateway", func(ctx context.Context, ready func()) error {
			return gateway.Run(ctx, gatewayCfg, given("gateway", ports.gateway, ports.gatewayOps, ready))
		}),
	), nil
}

// serviceStop bounds the end of one service. Its parts have their own bounds.
const serviceStop = time.Minute

// serving is a service as two components: one that runs it, one that is started once it serves.
func serving(name string, run func(ctx context.Context, ready func()) error) []process.Component {
	served := make(chan struct{})
	return []process.Component{
		{Name: name, Run: func(ctx context.Context) error { return run(ctx, func() { close(served) }) }, StopTimeout: serviceStop},
		{Name: name + " serves", Start: func(ctx context.Context) error {
			select {
			case <-served:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
	}
}

func concat(services ...[]process.Component) []process.Component {
	var all []process.Component
	for _, s := range services {
		all = append(all, s...)
	}
	return all
}

// environ is the environment that all three services read.
func (s *Services) environ(cfg ServiceConfig) map[string]string {
	environ := ProcessEnviron(s.vendors, s.Addresses, cfg.Secrets)
	environ["ONBOARDING_DATABASE_URL"], environ["MESSAGING_DATABASE_URL"] = cfg.OnboardingDatabaseURL, cfg.MessagingDatabaseURL
	environ["ONBOARDING_DATABASE_MIGRATE_URL"], environ["MESSAGING_DATABASE_MIGRATE_URL"] = cfg.OnboardingMigrateURL, cfg.MessagingMigrateURL
	maps.Copy(environ, cfg.Environ)
	return environ
}

// Environ is the environment that the services were given, secrets included.
func (s *Services) Environ() map[string]string { return maps.Clone(s.given) }

// URL is the origin of the gateway.
func (s *Services) URL() string { return "http://" + s.Addresses.Gateway }

// Stop ends the services in reverse order; each finishes what is in flight. ctx is only for its values: every part has
// its own bound.
func (s *Services) Stop(context.Context) error {
	s.vendors.HangUp()
	s.cancel()
	<-s.ended
	return s.err
}

// Ended is closed when the services have ended, for whatever reason; Stop tells it.
func (s *Services) Ended() <-chan struct{} { return s.ended }

// APIToken is a bearer token for /v1: an operator of the organisation, or a user when the role says so.
func (s Secrets) APIToken(subject, orgID string, role rpc.Role, now time.Time, ttl time.Duration) (string, error) {
	claims := jwt.MapClaims{
		"sub": subject, "org_id": orgID, "role": string(role), "iat": now.Unix(), "exp": now.Add(ttl).Unix(),
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(s.APIJWT))
	if err != nil {
		return "", fmt.Errorf("sign API token: %w", err)
	}
	return token, nil
}

// ServiceToken is a bearer token for gRPC: of one of our processes, which signs it itself, or of a person, for whom an operator does.
func (s Secrets) ServiceToken(p rpc.Principal, now func() time.Time, ttl time.Duration) (string, error) {
	process := rpc.Operator
	if p.Role == rpc.RoleService {
		process = p.Subject
	}
	tokens, err := rpc.NewTokens(s.keysOf(process), now)
	if err != nil {
		return "", err
	}
	return tokens.Mint(p, ttl)
}

// ports are the six listeners. They are bound before anything starts, so that every service knows every address.
type ports struct {
	gateway, gatewayOps, onboarding, onboardingOps, messaging, messagingOps net.Listener
	owned                                                                   []net.Listener
}

func bind(ctx context.Context, a Addresses) (*ports, error) {
	p := &ports{}
	for _, port := range []struct {
		into *net.Listener
		addr string
	}{
		{&p.gateway, a.Gateway},
		{&p.gatewayOps, a.GatewayOps},
		{&p.onboarding, a.Onboarding},
		{&p.onboardingOps, a.OnboardingOps},
		{&p.messaging, a.Messaging},
		{&p.messagingOps, a.MessagingOps},
	} {
		if port.addr == "" {
			port.addr = "127.0.0.1:0"
		}
		listener, err := listen(ctx, nil, port.addr)
		if err != nil {
			p.close()
			return nil, err
		}
		*port.into = listener
		p.owned = append(p.owned, listener)
	}
	return p, nil
}

func (p *ports) addresses() Addresses {
	return Addresses{
		Gateway: p.gateway.Addr().String(), GatewayOps: p.gatewayOps.Addr().String(),
		Onboarding: p.onboarding.Addr().String(), OnboardingOps: p.onboardingOps.Addr().String(),
		Messaging: p.messaging.Addr().String(), MessagingOps: p.messagingOps.Addr().String(),
	}
}

// given hands the listeners over to the services.
func (p *ports) given() { p.owned = nil }

func (p *ports) close() {
	for _, listener := range p.owned {
		_ = listener.Close() // nothing was served on it, or its server has closed it
	}
}
