package messagingtest

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// Secret is the SERVICE_AUTH_SECRET of tests.
const Secret = "a secret for tests of thirty-two bytes or more"

// Tokens are service tokens on a clock that every process of a test shares.
func Tokens(tb testing.TB, now func() time.Time) *rpc.Tokens {
	tb.Helper()
	tokens, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret(Secret)}, now)
	check(tb, err)
	return tokens
}

// Serve puts the service behind the chain of a real server, on this machine, and returns its address.
func (s *Service) Serve(tb testing.TB, tokens *rpc.Tokens) string {
	tb.Helper()
	server, err := rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Log: slog.New(slog.DiscardHandler),
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(),
	})
	check(tb, err)
	messagingv1.RegisterMessagingServiceServer(server, s)
	messagingv1.RegisterSenderServiceServer(server, s)
	var network net.ListenConfig
	listener, err := network.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	check(tb, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // a test that is skipped ends before it serves
			tb.Error(err)
		}
	})
	return listener.Addr().String()
}

// Dial connects to an address as the onboarding service does, but repeats nothing, and closes the connection after the test.
func Dial(tb testing.TB, addr string, tokens *rpc.Tokens, caller rpc.Principal) *grpc.ClientConn {
	tb.Helper()
	conn, err := rpc.Dial(rpc.ClientConfig{
		Target: addr, Tokens: tokens, Caller: caller,
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(),
	})
	check(tb, err)
	tb.Cleanup(func() { check(tb, conn.Close()) })
	return conn
}

// Client is a connection to the service over the loopback. Its tokens never expire, whatever a test does to its clock.
func (s *Service) Client(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	tokens := Tokens(tb, func() time.Time { return time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) })
	return Dial(tb, s.Serve(tb, tokens), tokens, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService})
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
