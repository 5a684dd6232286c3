package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// HealthDatabase is the name under which a server's health says whether it can do what needs its database. The name "" says that the
// process serves, as probes expect it: a process is not to be restarted because its database is away.
const HealthDatabase = "database"

const (
	// databaseTimeout bounds one question of the database.
	databaseTimeout = time.Second
	// databaseTrust is the time for which its answer is believed: health is open to every caller, and must not be a way to ask the
	// database.
	databaseTrust = time.Second
)

// healthServer is the health service of the library, and asks for HealthDatabase when it is asked.
type healthServer struct {
	*health.Server

	database func(context.Context) error
	now      func() time.Time

	asking chan struct{} // holds one while the database is asked, or its answer read
	asked  time.Time
	state  healthpb.HealthCheckResponse_ServingStatus
}

// Check implements the health service.
func (h *healthServer) Check(ctx context.Context, in *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if in.GetService() != HealthDatabase || h.database == nil {
		return h.Server.Check(ctx, in)
	}
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if now := h.now(); h.asked.IsZero() || now.Sub(h.asked) > databaseTrust {
		// Not under the caller's context: others believe the answer too.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
		defer cancel()
		h.state = healthpb.HealthCheckResponse_SERVING
		if err := h.database(asking); err != nil {
			h.state = healthpb.HealthCheckResponse_NOT_SERVING
		}
		h.asked = h.now()
	}
	return &healthpb.HealthCheckResponse{Status: h.state}, nil
}
