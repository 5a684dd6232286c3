package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestMain(m *testing.M) {
	// Many tests wait for a deadline, so more of them run at once than there are cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	origin        = "https://paceline.example"
	currentKey    = "sig_current_7kYjw48mhY7kAjqNGcy6cr29"
	nextKey       = "sig_next_5ZB6DVzB1wjE8S6rZ7eenA8Pdnh"
	twilioToken   = "c0ffee0123456789c0ffee0123456789"
	serviceSecret = "a service secret of at least 32 bytes"
	jwtSecret     = "a secret for /v1 of at least 32 bytes"
	orgID         = "01900000-0000-7000-8000-00000000000a"
	ownProfile    = "01900000-0000-7000-8000-000000000001"
	otherProfile  = "01900000-0000-7000-8000-000000000002"
	phone         = "+5511999998888"
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func environ() map[string]string {
	return map[string]string{
		"PUBLIC_BASE_URL": origin, "QSTASH_CURRENT_SIGNING_KEY": currentKey, "QSTASH_NEXT_SIGNING_KEY": nextKey,
		"TWILIO_AUTH_TOKEN": twilioToken, "SERVICE_AUTH_SECRET": serviceSecret, "API_JWT_SECRET": jwtSecret,
		"KAPSO_WEBHOOK_SECRET": "before-the-change," + kapsoSecret, "KAPSO_PHONE_NUMBER_ID": "123456789012345", "SHOPIFY_WEBHOOK_SECRET": shopifySecret,
		"GATEWAY_ADDR": "127.0.0.1:0", "GATEWAY_OPS_ADDR": "127.0.0.1:0",
	}
}

// bench is a gateway in front of services that record their calls and give the answers that a test sets.
type bench struct {
	url      string
	handler  http.Handler
	gateway  *gateway
	stop     func() // waits for the requests in flight: their log line is written after their answer
	services *services
	log      *lines
	logger   *slog.Logger
	spans    *tracetest.InMemoryExporter
	measured *sdkmetric.ManualReader
}

// setup builds the gateway of environ, changed by the pairs of names and values that follow.
func setup(t *testing.T, changes ...string) *bench {
	t.Helper()
	services := startServices(t)
	env := environ()
	env["ONBOARDING_ADDR"], env["MESSAGING_ADDR"] = services.addr, services.addr
	for i := 0; i < len(changes); i += 2 {
		env[changes[i]] = changes[i+1]
	}
	cfg, err := LoadConfig(env)
	require.NoError(t, err)
	b := &bench{services: services, log: new(lines), spans: tracetest.NewInMemoryExporter(), measured: sdkmetric.NewManualReader()}
	tel := &telemetry.Telemetry{
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.spans)), Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.measured)),
	}
	deps := process.Deps{Log: telemetry.NewLogger(b.log, telemetry.Config{LogLevel: slog.LevelDebug}, "gateway"), Now: noon}
	b.logger = deps.Log
	g, err := open(t.Context(), cfg, deps, tel)
	require.NoError(t, err)
	web := httptest.NewUnstartedServer(nil)
	web.Config = server(g.handler, deps.Log)
	web.Start()
	t.Cleanup(func() {
		web.Close()
		require.NoError(t, g.devices.Drain(context.Background())) // they outlive the server
		require.NoError(t, g.close())
	})
	b.url, b.handler, b.gateway, b.stop = web.URL, g.handler, g, web.Close
	return b
}

// call is one RPC as a service saw it.
type call struct {
	Method    string // Service/Method
	Principal rpc.Principal
	RequestID string
	Request   proto.Message
}

// services are both services on one port: real gRPC behind the real server chain, with every method of the protos.
type services struct {
	addr string

	mu      sync.Mutex
	calls   []call
	kept    map[string][]rpc.Call                                         // by the id of the request
	answers map[string]func(ctx context.Context) (json.RawMessage, error) // by Service/Method; none means an empty answer
	away    atomic.Bool                                                   // their database
	connect func(deviceStreamServer) error                                // onboarding's side of a device's stream
	tell    func(*onboardingv1.StreamEventsRequest, eventStreamServer) error
}

func startServices(t *testing.T) *services {
	t.Helper()
	return startServicesAt(t, noon)
}

// startServicesAt has them check tokens by a clock.
func startServicesAt(t *testing.T, now func() time.Time) *services {
	t.Helper()
	s := &services{answers: map[string]func(context.Context) (json.RawMessage, error){}, kept: map[string][]rpc.Call{}}
	tokens, err := rpc.NewTokens(rpc.Keys{Shared: mustConfig(t).ServiceAuthSecret}, now)
	require.NoError(t, err)
	descriptions := []*grpc.ServiceDesc{&onboardingv1.OnboardingService_ServiceDesc, &onboardingv1.WebhookJobService_ServiceDesc, &onboardingv1.EngagementService_ServiceDesc, &onboardingv1.GoalService_ServiceDesc, &onboardingv1.EventService_ServiceDesc, &onboardingv1.FlowService_ServiceDesc, &onboardingv1.TicketService_ServiceDesc, &onboardingv1.RunService_ServiceDesc, &onboardingv1.APIKeyService_ServiceDesc, &onboardingv1.OrganisationService_ServiceDesc, &messagingv1.MessagingService_ServiceDesc, &messagingv1.OutboundService_ServiceDesc, &messagingv1.SenderService_ServiceDesc}
	server, err := rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Log: slog.New(slog.DiscardHandler), Keep: s.keep,
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(),
		Database: func(context.Context) error {
			if s.away.Load() {
				return errors.New("the database at 10.0.0.7 refuses connections")
			}
			return nil
		},
	})
	require.NoError(t, err)
	for _, d := range descriptions {
		server.RegisterService(s.recording(t, d), s)
	}
	require.NoError(t, server.CheckRules())
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- process.Run(ctx, slog.New(slog.DiscardHandler), process.GRPCServer("services", server.Server, []net.Listener{listener}, server.Health))
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		server.Stop() // a test may end before the server was started: it has workers already
	})
	return s
}

// recording is a service with the methods of d, each of which records its call and gives the answer that was set.
func (s *services) recording(t *testing.T, d *grpc.ServiceDesc) *grpc.ServiceDesc {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(d.ServiceName))
	require.NoError(t, err)
	described, ok := found.(protoreflect.ServiceDescriptor)
	require.True(t, ok)
	out := &grpc.ServiceDesc{ServiceName: d.ServiceName, HandlerType: (*any)(nil), Metadata: d.Metadata}
	for _, m := range d.Methods {
		about := described.Methods().ByName(protoreflect.Name(m.MethodName))
		name := string(described.Name()) + "/" + m.MethodName
		out.Methods = append(out.Methods, grpc.MethodDesc{
			MethodName: m.MethodName,
			Handler: func(_ any, ctx context.Context, decode func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
				request := newMessage(about.Input())
				if err := decode(request); err != nil {
					return nil, err
				}
				info := &grpc.UnaryServerInfo{Server: s, FullMethod: "/" + d.ServiceName + "/" + m.MethodName}
				return chain(ctx, request, info, func(ctx context.Context, _ any) (any, error) {
					return s.answer(ctx, name, request, newMessage(about.Output()))
				})
			},
		})
	}
	for _, m := range d.Streams {
		if m.StreamName == "StreamEvents" {
			m.Handler = s.tellEvents
			out.Streams = append(out.Streams, m)
			continue
		}
		require.Equal(t, "ConnectDevice", m.StreamName)
		m.Handler = func(_ any, stream grpc.ServerStream) error {
			s.mu.Lock()
			connect := s.connect
			s.mu.Unlock()
			return connect(&grpc.GenericServerStream[onboardingv1.ConnectDeviceRequest, onboardingv1.ConnectDeviceResponse]{ServerStream: stream})
		}
		out.Streams = append(out.Streams, m)
	}
	return out
}

func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}

func (s *services) answer(ctx context.Context, name string, request, response proto.Message) (proto.Message, error) {
	principal, _ := rpc.PrincipalFrom(ctx)
	s.mu.Lock()
	if account, ok := response.(*messagingv1.GetCallbackAccountResponse); ok && s.answers[name] == nil { // every account is the environment's
		s.mu.Unlock()
		account.Known, account.Environment = true, true
		account.Senders = []*messagingv1.CallbackSender{{OrgId: orgID, Environment: true}}
		return account, nil
	}
	if name != "OrganisationService/GetOrganisationStatus" { // of every caller
		s.calls = append(s.calls, call{Method: name, Principal: principal, RequestID: telemetry.RequestID(ctx), Request: request})
	}
	answer := s.answers[name]
	s.mu.Unlock()
	if answer == nil {
		return response, nil
	}
	body, err := answer(ctx)
	if err != nil {
		return nil, err
	}
	// Not with an error: a client does not try again once it has a header.
	header := metadata.Pairs("secret", "x")
	return response, errors.Join(protojson.Unmarshal(body, response), grpc.SetHeader(ctx, header), grpc.SetTrailer(ctx, header))
}

// keep is rpc.Keep.
func (s *services) keep(ctx context.Context, made rpc.Call) (func(context.Context, codes.Code, rpc.About) error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := telemetry.RequestID(ctx)
	s.kept[id] = append(s.kept[id], made)
	return func(context.Context, codes.Code, rpc.About) error { return nil }, nil
}

// keptOf are the calls of a request that were kept.
func (s *services) keptOf(requestID string) []rpc.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[requestID]
}

// on sets the answer of a method.
func (s *services) on(method string, answer func(context.Context) (json.RawMessage, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[method] = answer
}

// seen are the calls so far.
func (s *services) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]call(nil), s.calls...)
}

// lines are the log of a gateway.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func mustConfig(t *testing.T) Config {
	t.Helper()
	cfg, err := LoadConfig(environ())
	require.NoError(t, err)
	return cfg
}

// bearer is the Authorization header of one caller: "operator", "app" or "user" (who owns ownProfile). It is empty for any other.
func bearer(t *testing.T, who string) string {
	t.Helper()
	subject := map[string]string{"operator": "ada", "app": "shop", "user": ownProfile, "platform": "root"}[who]
	if subject == "" {
		return ""
	}
	claims := jwt.MapClaims{"sub": subject, "org_id": orgID, "role": who, "exp": noon().Add(time.Hour).Unix()}
	if who == "platform" {
		delete(claims, "org_id")
	}
	return "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(jwtSecret), claims)
}

func sign(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(t, err)
	return token
}

func (c call) String() string {
	return fmt.Sprintf("%s as %s %s", c.Method, c.Principal.Role, c.Principal.Subject)
}
