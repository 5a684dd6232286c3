package process_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/process"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() }) // closed already when its server was stopped
	return listener
}

// run runs the components until the returned stop is called, which gives Run's result.
func run(t *testing.T, components ...process.Component) (stop func() <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, result := make(chan struct{}), make(chan error, 1)
	components = append(components, process.Component{Name: "ready", Start: func(context.Context) error { close(ready); return nil }})
	go func() { result <- process.Run(ctx, quiet(), components...) }()
	select {
	case <-ready:
	case err := <-result:
		require.NoError(t, err)
	}
	return func() <-chan error { cancel(); return result }
}

func httpServer(handler http.HandlerFunc) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
	}
}

func TestHTTPServer(t *testing.T) {
	t.Parallel()

	t.Run("ServesAndFinishesWhatIsInFlight", func(t *testing.T) {
		t.Parallel()
		entered, release := make(chan struct{}), make(chan struct{})
		listener := listen(t)
		stop := run(t, process.HTTPServer("gateway", httpServer(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-release
			_, _ = io.WriteString(w, "finished")
		}), listener))
		answer := make(chan string, 1)
		go func() { answer <- get(t, "http://"+listener.Addr().String()) }()
		<-entered

		result := stop()
		select {
		case err := <-result:
			t.Fatalf("it did not wait for the request in flight: %v", err)
		default:
		}
		close(release)

		require.Equal(t, "finished", <-answer)
		require.NoError(t, <-result)
	})

	t.Run("AnswersThoseWhoHaveConnected", func(t *testing.T) {
		t.Parallel()
		slow := &slowListener{TCPListener: listen(t).(*net.TCPListener), stopping: make(chan struct{})}
		stop := run(t, process.HTTPServer("gateway", httpServer(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "answered")
		}), slow))
		var waiting []net.Conn
		for range 3 {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", slow.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n")
			require.NoError(t, err)
			waiting = append(waiting, conn)
		}

		result := stop()
		select {
		case <-slow.stopping:
		case err := <-result:
			t.Fatalf("it accepted nobody before it ended: %v", err)
		}
		for _, conn := range waiting {
			_, err := io.WriteString(conn, "\r\n")
			require.NoError(t, err)
		}

		require.NoError(t, <-result)
		for _, conn := range waiting {
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Contains(t, string(answer), "answered")
		}
	})

	t.Run("CutsOffWhatOutlivesTheBound", func(t *testing.T) {
		t.Parallel()
		entered := make(chan struct{})
		listener := listen(t)
		server := process.HTTPServer("gateway", httpServer(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
		}), listener)
		server.StopTimeout = time.Millisecond
		stop := run(t, server)
		answer := make(chan string, 1)
		go func() { answer <- get(t, "http://"+listener.Addr().String()) }()
		<-entered

		require.ErrorIs(t, <-stop(), context.DeadlineExceeded)
		require.Empty(t, <-answer)
	})

	t.Run("AServerWithoutItsTimeoutsIsRefused", func(t *testing.T) {
		t.Parallel()
		server := httpServer(nil)
		server.IdleTimeout = 0
		err := process.Run(t.Context(), quiet(), process.HTTPServer("gateway", server, listen(t)))
		require.ErrorContains(t, err, "gateway: start: ReadHeaderTimeout")
	})

	t.Run("AListenerThatFailsEndsTheGroup", func(t *testing.T) {
		t.Parallel()
		listener := listen(t)
		require.NoError(t, listener.Close())
		err := process.Run(t.Context(), quiet(), process.HTTPServer("gateway", httpServer(nil), listener))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// slowListener accepts nothing until its server stops.
type slowListener struct {
	*net.TCPListener
	stopping chan struct{}
}

func (l *slowListener) Accept() (net.Conn, error) {
	<-l.stopping
	return l.TCPListener.Accept()
}

func (l *slowListener) SetDeadline(at time.Time) error {
	defer close(l.stopping)
	return l.TCPListener.SetDeadline(at)
}

// get is the body of an answer, "" when there was none.
func get(t *testing.T, url string) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// probe is a health service with a Check that waits until it is released or broken off.
type probe struct {
	healthpb.UnimplementedHealthServer

	entered, release chan struct{}
}

func (p probe) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	close(p.entered)
	select {
	case <-p.release:
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func serving(t *testing.T, h *health.Server, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	answer, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
	require.NoError(t, err)
	return answer.GetStatus()
}

func TestGRPCServer(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T, bound time.Duration) (p probe, h *health.Server, stop func() <-chan error, answer chan error) {
		t.Helper()
		p = probe{entered: make(chan struct{}), release: make(chan struct{})}
		h = health.NewServer()
		server, listener := grpc.NewServer(), listen(t)
		healthpb.RegisterHealthServer(server, p)
		component := process.GRPCServer("messaging", server, []net.Listener{listener}, h)
		component.StopTimeout = bound
		stop = run(t, component)
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		answer = make(chan error, 1)
		go func() {
			_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
			answer <- err
		}()
		<-p.entered
		return p, h, stop, answer
	}

	t.Run("AStopThatComesBeforeItServesIsACleanEnd", func(t *testing.T) {
		t.Parallel()
		server := grpc.NewServer()
		server.Stop()
		component := process.GRPCServer("messaging", server, []net.Listener{listen(t)}, health.NewServer())
		require.NoError(t, component.Run(t.Context()))
	})

	t.Run("SaysNotServingAndFinishesWhatIsInFlight", func(t *testing.T) {
		t.Parallel()
		p, h, stop, answer := setup(t, time.Minute)
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, serving(t, h, ""))
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, serving(t, h, "grpc.health.v1.Health"), "every service is listed")

		result := stop()
		require.Eventually(t, func() bool {
			return serving(t, h, "grpc.health.v1.Health") == healthpb.HealthCheckResponse_NOT_SERVING
		}, time.Minute, time.Millisecond)
		require.Empty(t, answer)
		close(p.release)

		require.NoError(t, <-answer)
		require.NoError(t, <-result)
	})

	t.Run("BreaksOffWhatOutlivesTheBound", func(t *testing.T) {
		t.Parallel()
		_, _, stop, answer := setup(t, time.Millisecond)

		require.ErrorIs(t, <-stop(), context.DeadlineExceeded)
		require.Equal(t, codes.Unavailable, status.Code(<-answer))
	})
}
