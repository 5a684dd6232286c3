package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// HTTPServer serves on the listener, which belongs to the caller until the component has started. Stopping first accepts
// the clients that have connected already, then lets the requests in flight finish, and closes their connections when the bound
// is reached. A server without all of its timeouts is refused: one slow client after the other would hold its connections for ever.
func HTTPServer(name string, server *http.Server, listener net.Listener) Component {
	var arriving arrivals
	listener = arriving.watch(server, listener)
	return Component{
		Name: name,
		Start: func(context.Context) error {
			if server.ReadHeaderTimeout <= 0 || server.ReadTimeout <= 0 || server.WriteTimeout <= 0 || server.IdleTimeout <= 0 {
				return errors.New("ReadHeaderTimeout, ReadTimeout, WriteTimeout and IdleTimeout must all be set")
			}
			return nil
		},
		Run: func(context.Context) error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		Stop: func(ctx context.Context) error {
			cutOff := arriving.settle(ctx)
			if err := server.Shutdown(ctx); err != nil {
				return errors.Join(cutOff, fmt.Errorf("requests in flight were cut off: %w", err), server.Close())
			}
			return cutOff
		},
	}
}

// GRPCServer serves on the listeners, which belong to the caller until the component has started. From the start health
// says SERVING for the server and for each of its services; stopping says NOT_SERVING first, so that balancers look
// elsewhere, lets the calls in flight finish, and breaks them off when the bound is reached.
func GRPCServer(name string, server *grpc.Server, listeners []net.Listener, status *health.Server) Component {
	return Component{
		Name: name,
		Start: func(context.Context) error {
			status.Resume()
			status.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
			for service := range server.GetServiceInfo() {
				status.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
			}
			return nil
		},
		Run: func(context.Context) error {
			var each errgroup.Group
			for _, listener := range listeners {
				each.Go(func() error {
					err := server.Serve(listener)
					if err == nil || errors.Is(err, grpc.ErrServerStopped) { // stopped before it came to serve
						return nil
					}
					server.Stop() // the others are nothing without it
					return err
				})
			}
			return each.Wait()
		},
		Stop: func(ctx context.Context) error {
			status.Shutdown()
			done := make(chan struct{})
			go func() {
				defer close(done)
				server.GracefulStop()
			}()
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				server.Stop() // ends GracefulStop too
				<-done
				return fmt.Errorf("calls in flight were cut off: %w", ctx.Err())
			}
		},
	}
}
