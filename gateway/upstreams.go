package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/qstash"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// The services behind each connection. Their protos say who may call a method, over /v1 and at the service, and which calls the
// connection may repeat.
var (
	onboardingServices = []string{
		onboardingv1.OnboardingService_ServiceDesc.ServiceName, onboardingv1.WebhookJobService_ServiceDesc.ServiceName,
		onboardingv1.EngagementService_ServiceDesc.ServiceName, onboardingv1.GoalService_ServiceDesc.ServiceName,
		onboardingv1.EventService_ServiceDesc.ServiceName, onboardingv1.FlowService_ServiceDesc.ServiceName,
		onboardingv1.TicketService_ServiceDesc.ServiceName,
		onboardingv1.RunService_ServiceDesc.ServiceName, onboardingv1.APIKeyService_ServiceDesc.ServiceName,
		onboardingv1.OrganisationService_ServiceDesc.ServiceName,
	}
	messagingServices = []string{
		messagingv1.MessagingService_ServiceDesc.ServiceName, messagingv1.OutboundService_ServiceDesc.ServiceName,
		messagingv1.SenderService_ServiceDesc.ServiceName,
	}
)

// service is the principal of the gateway itself, for its questions.
var service = rpc.Principal{Subject: rpc.Gateway, Role: rpc.RoleService}

// upstream is the one connection to a service.
type upstream struct {
	name string
	*grpc.ClientConn

	believed atomic.Bool // it has answered a call that has our token
}

// dial connects to the services. The callbacks of QStash and Twilio are passed on as the gateway itself; the calls of a person
// on /v1, as that person. client is the configuration of onboarding's connection.
func dial(
	cfg Config, deps process.Deps, tel *telemetry.Telemetry,
) (client rpc.ClientConfig, onboarding, messaging *grpc.ClientConn, err error) {
	tokens, err := rpc.NewTokens(cfg.keys(), deps.Now)
	if err != nil {
		return client, nil, nil, err
	}
	files, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return client, nil, nil, err
	}
	client = rpc.ClientConfig{
		Target: cfg.OnboardingAddr.String(), Tokens: tokens, Caller: service, Services: onboardingServices,
		TracerProvider: tel.Tracer, MeterProvider: tel.Meter, TLS: files.Client, Timeout: qstash.Timeout,
		Dial: deps.DialTo("onboarding"),
	}
	if onboarding, err = rpc.Dial(client); err != nil {
		return client, nil, nil, fmt.Errorf("onboarding: %w", err)
	}
	other := client
	other.Target, other.Services, other.Dial = cfg.MessagingAddr.String(), messagingServices, deps.DialTo("messaging")
	if messaging, err = rpc.Dial(other); err != nil {
		return client, nil, nil, errors.Join(fmt.Errorf("messaging: %w", err), onboarding.Close())
	}
	return client, onboarding, messaging, nil
}

// connect dials the services, and keeps the connections to close and to ask.
func (g *gateway) connect(
	cfg Config, deps process.Deps, tel *telemetry.Telemetry,
) (client rpc.ClientConfig, onboarding, messaging *grpc.ClientConn, err error) {
	client, onboarding, messaging, err = dial(cfg, deps, tel)
	if err == nil {
		g.upstreams = []*upstream{{name: "onboarding", ClientConn: onboarding}, {name: "messaging", ClientConn: messaging}}
		g.closers = append(g.closers, onboarding.Close, messaging.Close)
	}
	return client, onboarding, messaging, err
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
		for i, problem := range problems {
			if errors.Is(problem, errNotBelieved) {
				g.log.ErrorContext(ctx, "gateway.not_believed", "service", g.upstreams[i].name,
					"mend", "add the public key of GATEWAY_SIGNING_KEY to SERVICE_PUBLIC_KEYS there, and keep the clocks by NTP")
			}
		}
		g.answer, g.asked = errors.Join(problems...), g.now()
	}
	return g.answer
}

const (
	// readyTrust is the time for which an answer is reused: any stranger may ask, and the question goes to the services on the connection
	// that people's messages use. readyTimeout bounds it.
	readyTrust   = time.Second
	readyTimeout = 1500 * time.Millisecond
	readyTries   = 3
)

// ready asks the upstream's own health check: whether it serves, and whether it has its database, without which every request fails. Each
// question goes to another replica, and one that is well is enough.
func (u *upstream) ready(ctx context.Context) (err error) {
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
func (u *upstream) replicaReady(ctx context.Context) error {
	answer, err := healthpb.NewHealthClient(u).Check(ctx, &healthpb.HealthCheckRequest{Service: rpc.HealthDatabase})
	switch {
	case status.Code(err) == codes.NotFound: // of a server without a database
	case err != nil: // it names an address, and the answer is public
		return fmt.Errorf("%s is not serving", u.name)
	case answer.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return fmt.Errorf("%s cannot use its database: it is out of reach, or its schema is behind", u.name)
	}
	return u.believes(ctx)
}

// errNotBelieved is a service that takes none of our tokens, without which nothing can be asked of it.
var errNotBelieved = errors.New("does not believe this gateway's key")

// believes makes calls until one was answered other than by Unauthenticated: health asks for no token. A key that is believed stays so.
func (u *upstream) believes(ctx context.Context) error {
	if u.believed.Load() {
		return nil
	}
	switch status.Code(probe(ctx, u.name, u)) {
	case codes.Unauthenticated:
		return fmt.Errorf("%s %w", u.name, errNotBelieved)
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("%s is not serving", u.name)
	default:
		u.believed.Store(true)
		return nil
	}
}

// probe makes a call to a service that changes nothing. The right answer to its empty request is that it is invalid.
func probe(ctx context.Context, name string, conn grpc.ClientConnInterface) (err error) {
	if name == "onboarding" {
		_, err = onboardingv1.NewOnboardingServiceClient(conn).GetSession(ctx, &onboardingv1.GetSessionRequest{})
	} else {
		_, err = messagingv1.NewMessagingServiceClient(conn).GetMessage(ctx, &messagingv1.GetMessageRequest{})
	}
	return err
}
