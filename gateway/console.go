package gateway

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/grpc"

	"paceline.internal/gateway/console"
	"paceline.internal/gateway/console/signin"
	"paceline.internal/gateway/route"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// signInRate bounds the attempts of one address to sign in to the console.
var signInRate = Rate{perSecond: 1, burst: 20}

// openConsole wires the console, over connections that hold its calls to the rules of /v1; nil when it is off.
func (g *gateway) openConsole(
	cfg Config, deps process.Deps, auth *authenticator, onboarding, messaging grpc.ClientConnInterface,
) (http.Handler, error) {
	if cfg.Console != "on" {
		return nil, nil //nolint:nilnil // off is no error
	}
	rules, err := rulesOf(append(onboardingServices, messagingServices...))
	if err != nil {
		return nil, err
	}
	ours := counted{guarded{conn: onboarding, rules: rules}, g.limits}
	theirs := counted{guarded{conn: messaging, rules: rules}, g.limits}
	attempts, err := g.networkLimits("sign-in", signInRate)
	if err != nil {
		return nil, err
	}
	var links *signin.Links
	if cfg.ConsoleLinks {
		links = signin.NewLinks(deps.Now)
	}
	return console.New(console.Config{
		Services: console.Services{
			Onboarding: onboardingv1.NewOnboardingServiceClient(ours), Jobs: onboardingv1.NewWebhookJobServiceClient(ours),
			Engagement: onboardingv1.NewEngagementServiceClient(ours), Goals: onboardingv1.NewGoalServiceClient(ours),
			Events: onboardingv1.NewEventServiceClient(ours), Messaging: messagingv1.NewMessagingServiceClient(theirs),
			Outbound: messagingv1.NewOutboundServiceClient(theirs), Tickets: onboardingv1.NewTicketServiceClient(ours),
			Flows: onboardingv1.NewFlowServiceClient(ours), Runs: onboardingv1.NewRunServiceClient(ours),
			Keys: onboardingv1.NewAPIKeyServiceClient(ours), Senders: messagingv1.NewSenderServiceClient(theirs),
			Organisations: onboardingv1.NewOrganisationServiceClient(ours),
		},
		Authenticate: func(ctx context.Context, token string) (rpc.Principal, time.Time, error) {
			who, err := auth.caller(ctx, "Bearer "+token)
			return who.Principal, who.expires, err
		},
		Still: auth.still,
		Wait: func(ctx context.Context) time.Duration {
			tooMany := attempts.take(ctx, http.Header{}, rpc.Principal{Client: route.ClientFrom(ctx)})
			if tooMany == nil {
				return 0
			}
			return tooMany.RetryAfter
		},
		Client: route.ClientFrom, Health: g.health, Follow: g.events.Follow,
		Named: func(r *http.Request, path string) { route.EventFrom(r.Context()).At(r, path) },
		Key:   cfg.ConsoleKey, OIDC: cfg.provider(), Origin: cfg.PublicBaseURL, Links: links,
		Handsets: cfg.HandsetsURL, PhonesOf: strings.ToLower(cfg.DefaultOrgID),
		Log: deps.Log, Now: deps.Now,
	})
}

// networkLimits count attempts by the network that they come from.
func (g *gateway) networkLimits(name string, rate Rate) (*limits, error) {
	callers, err := simplelru.NewLRU[[sha256.Size]byte, time.Time](maxCallers, nil)
	return &limits{
		limits: []*limit{{Rate: rate, name: name, key: networkOf, callers: callers}}, now: g.now, refused: g.limits.refused,
	}, err
}

// networkOf returns the network of a caller: an address of IPv4, or the /64 that a host of IPv6 has to itself.
func networkOf(p rpc.Principal) string {
	address, err := netip.ParseAddr(p.Client)
	if err != nil || address.Unmap().Is4() {
		return p.Client
	}
	network, _ := address.Prefix(64) // an address of IPv6 has one
	return network.String()
}

// health returns the state of this process and of each service, for the console.
func (g *gateway) health(ctx context.Context) []console.Health {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	all := []console.Health{{Name: "gateway"}}
	for _, u := range g.upstreams {
		all = append(all, console.Health{Name: u.name, Err: u.ready(ctx)})
	}
	return all
}
