package attack_test

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"paceline.internal/gateway"
	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/test/attack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "a service secret of at least 32 bytes"
	token  = "c0ffee0123456789c0ffee0123456789"
	number = "+551130000000"
)

// listener is on a free port of this machine.
func listener(t *testing.T) net.Listener {
	t.Helper()
	made, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return made
}

// texts accepts what people write, and discards it.
type texts struct {
	onboardingv1.UnimplementedOnboardingServiceServer
}

func (texts) ReceiveMessage(context.Context, *onboardingv1.ReceiveMessageRequest) (*onboardingv1.ReceiveMessageResponse, error) {
	return &onboardingv1.ReceiveMessageResponse{}, nil
}

// upstream is a service with our server chain, as onboarding has it.
func upstream(t *testing.T) (addr string) {
	t.Helper()
	now := time.Now
	tokens, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret(secret)}, now)
	require.NoError(t, err)
	server, err := rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Log: slog.New(slog.DiscardHandler), TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(), MaxRequest: 3 << 20,
	})
	require.NoError(t, err)
	onboardingv1.RegisterOnboardingServiceServer(server, texts{})
	listening := listener(t)
	go func() { _ = server.Serve(listening) }() // it ends with Stop
	t.Cleanup(server.Stop)
	return listening.Addr().String()
}

// front is a gateway as its process runs it.
func front(t *testing.T) (origin string) {
	t.Helper()
	addr, public, ops := upstream(t), listener(t), listener(t)
	origin = "http://" + public.Addr().String()
	cfg, err := gateway.LoadConfig(map[string]string{
		"PUBLIC_BASE_URL": origin, "QSTASH_CURRENT_SIGNING_KEY": "sig_a", "QSTASH_NEXT_SIGNING_KEY": "sig_b", "TWILIO_AUTH_TOKEN": token,
		"SERVICE_AUTH_SECRET": secret, "API_JWT_SECRET": secret, "ONBOARDING_ADDR": addr, "MESSAGING_ADDR": addr,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- gateway.Run(ctx, cfg, process.Deps{
			Log: slog.New(slog.DiscardHandler), Listener: public, OpsListener: ops, Ready: func() { close(ready) },
		})
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return origin
}

// No figure is asserted, because the machine runs all other tests meanwhile: the command asserts them. A STOP that is refused
// because no place is free fails the test under any load.
func TestDribble(t *testing.T) { //nolint:paralleltest // it has thousands of connections
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Run("R_15_NoSTOPIsRefusedWhileStrangersDribble", func(t *testing.T) {
		origin := front(t)
		report, err := attack.Dribble{
			Target: origin, PublicURL: origin, AuthToken: token, To: number, Connections: 1500, Duration: 4 * time.Second, Genuine: 20, Now: time.Now,
		}.Run(t.Context())
		require.NoError(t, err)
		require.Zero(t, report.Other["429"], "%+v", report)
		require.Positive(t, report.Strangers["408"], "%+v", report)
		require.Zero(t, report.Strangers["429"], "a stranger has no place to lose")
	})

	for name, change := range map[string]func(*attack.Dribble){
		"AnotherMachine": func(d *attack.Dribble) { d.Target = "http://198.51.100.7:8080" },
		"AName":          func(d *attack.Dribble) { d.Target = "http://paceline.example:8080" },
		"NoURL":          func(d *attack.Dribble) { d.Target = "127.0.0.1:8080" },
		"NoConnections":  func(d *attack.Dribble) { d.Connections = 0 },
	} {
		t.Run("R_15_Refuses"+name, func(t *testing.T) {
			t.Parallel()
			d := attack.Dribble{Target: "http://127.0.0.1:1", Connections: 1, Genuine: 1, Duration: time.Millisecond, Now: time.Now}
			change(&d)
			_, err := d.Run(t.Context())
			require.ErrorContains(t, err, "--")
		})
	}
}

func TestStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	const mb = 1 << 20
	live := func(context.Context) (float64, error) {
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc), nil
	}
	for _, tc := range []struct { //nolint:paralleltest // it measures memory
		name, method, ended string
		most                float64 // MB
	}{
		{"NothingIsHeldOfACallWithoutAToken", onboardingv1.OnboardingService_ReceiveMessage_FullMethodName, "Unauthenticated", 40},
		{"OfHealthCheckFewAreHeld", healthpb.Health_Check_FullMethodName, "Canceled", 100},
	} {
		t.Run("R_18_"+tc.name, func(t *testing.T) {
			report, err := attack.Streams{
				Target: upstream(t), Method: tc.method, Streams: 80, Bytes: 3*mb - 100, Duration: 6 * time.Second, Memory: live,
			}.Run(t.Context())
			require.NoError(t, err)
			require.Less(t, report.MostMB-report.BeforeMB, tc.most, "%+v", report)
			require.GreaterOrEqual(t, report.Ended[tc.ended], 72, "%+v", report)
		})
	}

	t.Run("R_18_RefusesAnotherMachine", func(t *testing.T) {
		t.Parallel()
		_, err := attack.Streams{Target: "198.51.100.7:9001", Streams: 1, Bytes: 1, Duration: time.Second}.Run(t.Context())
		require.ErrorContains(t, err, "not this machine")
	})
}
