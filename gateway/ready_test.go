package gateway

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthOf is a service that only says how it is, and counts who asks.
type healthOf struct {
	healthpb.UnimplementedHealthServer

	asked atomic.Int64
	away  atomic.Bool
	hold  chan struct{} // an answer waits for it; nil for none
}

func (h *healthOf) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h.asked.Add(1)
	if h.hold != nil {
		select {
		case <-h.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if h.away.Load() {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// before is a gateway in front of one service, on a clock of the test's.
func (h *healthOf) before(t *testing.T, clock *atomic.Int64) *gateway {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, h)
	go func() { _ = server.Serve(listener) }() // it ends with Stop
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return &gateway{
		upstreams: []*upstream{{name: "onboarding", ClientConn: conn}}, asking: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler),
		now: func() time.Time { return noon().Add(time.Duration(clock.Load())) },
	}
}

func TestReadinessIsAskedOnceASecond(t *testing.T) {
	t.Parallel()

	t.Run("R_19_AnAnswerIsReusedForASecondAndNoLonger", func(t *testing.T) {
		t.Parallel()
		service, clock := new(healthOf), new(atomic.Int64)
		g := service.before(t, clock)
		var together sync.WaitGroup
		for range 20 {
			together.Go(func() {
				if err := g.ready(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		together.Wait()
		require.EqualValues(t, 1, service.asked.Load())

		service.away.Store(true)
		clock.Store(int64(readyTrust))
		require.NoError(t, g.ready(t.Context()))
		clock.Add(1)
		require.EqualError(t, g.ready(t.Context()), "onboarding cannot use its database: it is out of reach, or its schema is behind")
		require.EqualValues(t, 1+readyTries, service.asked.Load(), "each try may meet another replica")

		service.away.Store(false)
		require.EqualError(t, g.ready(t.Context()), "onboarding cannot use its database: it is out of reach, or its schema is behind", "a bad answer is believed as long")
		clock.Add(int64(readyTrust) + 1)
		require.NoError(t, g.ready(t.Context()))
	})

	t.Run("R_19_ACallerThatGoesAwayDoesNotEndTheCheck", func(t *testing.T) {
		t.Parallel()
		service, clock := &healthOf{hold: make(chan struct{})}, new(atomic.Int64)
		g := service.before(t, clock)
		asking, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- g.ready(asking) }()
		require.Eventually(t, func() bool { return service.asked.Load() == 1 }, 5*time.Second, time.Millisecond)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorContains(t, g.ready(gone), "do not say in time")
		leave() // the caller that asked: others use the answer, too
		close(service.hold)
		require.NoError(t, <-first)
		require.NoError(t, g.ready(t.Context()))
		require.EqualValues(t, 1, service.asked.Load())
	})
}
