package rpc_test

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

func TestClient(t *testing.T) {
	t.Parallel()

	whoami := func(ctx context.Context, _ string) (string, error) {
		p, ok := rpc.PrincipalFrom(ctx)
		if !ok {
			return "no principal", nil
		}
		return string(p.Role) + " " + p.Subject, nil
	}

	t.Run("CallsAsItselfOrOnBehalfOfAUser", func(t *testing.T) {
		t.Parallel()
		conn := setup(t, whoami).dial()

		itself, err := call(t.Context(), conn, echo, "")
		require.NoError(t, err)
		require.Equal(t, "service onboarding", itself)

		forwarded, err := call(rpc.WithPrincipal(t.Context(), user()), conn, echo, "")
		require.NoError(t, err)
		require.Equal(t, "user "+user().Subject, forwarded)
	})

	t.Run("AServiceCallsItsNeighbourAsItselfAndNotAsItsCaller", func(t *testing.T) {
		t.Parallel()
		neighbour := setup(t, whoami).dial()
		b := setup(t, func(ctx context.Context, _ string) (string, error) {
			return call(ctx, neighbour, echo, "")
		})

		answer, err := call(rpc.WithPrincipal(t.Context(), user()), b.dial(), echo, "")

		require.NoError(t, err)
		require.Equal(t, "service onboarding", answer)
	})

	t.Run("TheTokenIsKeptUntilItNearsItsEnd", func(t *testing.T) {
		t.Parallel()
		seen := make(chan string, 1)
		b := setup(t, func(ctx context.Context, _ string) (string, error) {
			seen <- metadata.ValueFromIncomingContext(ctx, "authorization")[0]
			return "", nil
		})
		var late atomic.Int64
		now := time.Now
		begin := now()
		minting, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret("0123456789abcdef0123456789abcdef")}, func() time.Time {
			return begin.Add(-5*time.Minute + time.Duration(late.Load())) // in the past, so that the server accepts it
		})
		require.NoError(t, err)
		conn := b.dial(func(cfg *rpc.ClientConfig) { cfg.Tokens = minting })
		token := func(after time.Duration) string {
			late.Store(int64(after))
			_, err := call(t.Context(), conn, echo, "")
			require.NoError(t, err)
			return <-seen
		}

		first := token(time.Minute)
		require.Equal(t, first, token(2*time.Minute))
		require.Equal(t, first, token(5*time.Minute-time.Millisecond))
		require.NotEqual(t, first, token(5*time.Minute))
	})

	t.Run("TraceTravelsWithTheCall", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(ctx context.Context, _ string) (string, error) {
			return trace.SpanContextFromContext(ctx).TraceID().String(), nil
		})
		ctx, span := b.tel.Tracer.Tracer("test").Start(t.Context(), "work")
		defer span.End()

		answer, err := call(ctx, b.dial(), echo, "")

		require.NoError(t, err)
		require.Equal(t, span.SpanContext().TraceID().String(), answer)
	})

	t.Run("AServiceOfTheSameProcessIsCalledAsOneOverTheNetwork", func(t *testing.T) {
		t.Parallel()
		b := setup(t, whoami)
		inside := bufconn.Listen(1 << 16)
		go func() { _ = b.Serve(inside) }() // until the server of the test ends
		conn := b.dial(func(cfg *rpc.ClientConfig) { cfg.Target, cfg.Dial = "passthrough:///inside", inside.DialContext })
		itself, err := call(t.Context(), conn, echo, "")
		require.NoError(t, err)
		require.Equal(t, "service onboarding", itself)
	})

	t.Run("TheFirstCallAfterAnOutageIsAnswered", func(t *testing.T) {
		t.Parallel()
		addr := filepath.Join(t.TempDir(), "service") // a port that nothing listens on could be taken meanwhile
		b := setup(t, whoami)
		conn := b.dial(func(cfg *rpc.ClientConfig) { cfg.Target = "unix:" + addr })
		for range 8 { // gRPC's own pause is then longer than a call waits
			_, err := call(t.Context(), conn, once, "")
			require.Equal(t, codes.Unavailable, status.Code(err))
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", addr)
		require.NoError(t, err)
		go func() { _ = b.Serve(listener) }()

		_, err = call(t.Context(), conn, once, "")
		require.NoError(t, err)
	})

	t.Run("EveryCallIsBounded", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		_, err := call(t.Context(), b.dial(func(cfg *rpc.ClientConfig) { cfg.Timeout = 20 * time.Millisecond }), echo, "")
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	services := func(cfg *rpc.ClientConfig) { cfg.Services = []string{"paceline.test.v1.EchoService"} }

	t.Run("OnlyMethodsThatSaySoAreRetriedAndOnlyWhenUnavailable", func(t *testing.T) {
		t.Parallel()
		for _, tc := range []struct {
			name   string
			method string
			dial   []func(*rpc.ClientConfig)
			code   codes.Code
			want   int64
		}{
			{name: "Retry", method: echo, dial: []func(*rpc.ClientConfig){services}, code: codes.Unavailable, want: 3},
			{name: "NoRetry", method: once, dial: []func(*rpc.ClientConfig){services}, code: codes.Unavailable, want: 1},
			{name: "ServiceThatIsNotNamed", method: echo, code: codes.Unavailable, want: 1},
			{name: "AnotherCode", method: echo, dial: []func(*rpc.ClientConfig){services}, code: codes.Aborted, want: 1},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				b := setup(t, func(context.Context, string) (string, error) {
					calls.Add(1)
					return "", &rpc.Error{Code: tc.code, Message: "no"}
				})
				_, err := call(t.Context(), b.dial(tc.dial...), tc.method, "")
				require.Equal(t, tc.code, status.Code(err))
				require.Equal(t, tc.want, calls.Load())
			})
		}
	})

	t.Run("ARetryCanSucceed", func(t *testing.T) {
		t.Parallel()
		var calls atomic.Int64
		b := setup(t, func(context.Context, string) (string, error) {
			if calls.Add(1) == 1 {
				return "", &rpc.Error{Code: codes.Unavailable, Message: "restarting"}
			}
			return "back", nil
		})
		answer, err := call(t.Context(), b.dial(services), echo, "")
		require.NoError(t, err)
		require.Equal(t, "back", answer)
	})
}

func TestDial(t *testing.T) {
	t.Parallel()
	b := setup(t, repeat)
	valid := rpc.ClientConfig{
		Target: b.addr, Tokens: b.tokens, Caller: service(), TracerProvider: b.tel.Tracer, MeterProvider: b.tel.Meter,
	}
	for _, tc := range []struct {
		name   string
		change func(*rpc.ClientConfig)
		want   string
	}{
		{name: "WithoutTokens", change: func(c *rpc.ClientConfig) { c.Tokens = nil }, want: "required"},
		{name: "WithoutCaller", change: func(c *rpc.ClientConfig) { c.Caller = rpc.Principal{} }, want: "caller: subject is empty"},
		{
			name: "WithAServiceWhoseMethodsHaveNoRules", want: closed + " has no option",
			change: func(c *rpc.ClientConfig) { c.Services = []string{"paceline.test.v1.ClosedService"} },
		},
		{
			name: "WithAServiceThatIsNotLinkedIn", want: "service paceline.test.v1.Gone: ",
			change: func(c *rpc.ClientConfig) { c.Services = []string{"paceline.test.v1.Gone"} },
		},
		{
			name: "WithWhatIsNoService", want: "is no service",
			change: func(c *rpc.ClientConfig) { c.Services = []string{"google.protobuf.StringValue"} },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := valid
			tc.change(&cfg)
			_, err := rpc.Dial(cfg)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
