// Package stream keeps the long connections of the gateway: the WebSockets of devices, and the server-sent events.
package stream

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
)

// gate counts the streams that run, and lets none in once the process stops.
type gate struct {
	stopping context.Context //nolint:containedctx // a stream outlives its request
	stop     context.CancelFunc

	mu      sync.Mutex
	running sync.WaitGroup
}

func newGate() *gate {
	g := new(gate)
	g.stopping, g.stop = context.WithCancel(context.Background())
	return g
}

// enter counts a stream, unless the process stops. The stream calls running.Done at its end.
func (g *gate) enter() *rpc.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping.Err() != nil {
		return route.Refuse(codes.Unavailable, route.ReasonUnavailable, "the gateway is stopping; connect again")
	}
	g.running.Add(1)
	return nil
}

// drain tells every stream to end, and waits until they have ended or ctx ends.
func (g *gate) drain(ctx context.Context) error {
	g.mu.Lock()
	g.stop()
	g.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		g.running.Wait()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
