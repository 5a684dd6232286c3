package onboarding

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// messagingGrace sets how long a process that has just started waits for messaging before it is ready. After that it is ready without:
	// what vendors post is stored as jobs, and a STOP must not be lost because messaging is away for long.
	messagingGrace = 30 * time.Second
	// messagingTimeout bounds one question.
	messagingTimeout = time.Second
)

// beginning is the readiness of a process that has just started: messaging has to be reached once, or its first steps would be refused.
// That messaging goes away later changes nothing: restarting it must not take onboarding out of service.
type beginning struct {
	messaging *grpc.ClientConn
	since     time.Time
	now       func() time.Time

	over atomic.Bool
}

func (b *beginning) ready(ctx context.Context) error {
	if b.over.Load() {
		return nil
	}
	left := messagingGrace - b.now().Sub(b.since)
	if left <= 0 {
		b.over.Store(true)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, messagingTimeout)
	defer cancel()
	answer, err := healthpb.NewHealthClient(b.messaging).Check(ctx, &healthpb.HealthCheckRequest{})
	if err == nil && answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = errors.New(answer.GetStatus().String())
	}
	if err != nil {
		return fmt.Errorf("messaging was not reached yet: check MESSAGING_ADDR and that it runs; onboarding is ready without it in %s: %w",
			left.Round(time.Second), err)
	}
	b.over.Store(true)
	return nil
}
