package onboarding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

const (
	// messagingGrace sets how long a process that has just started waits for messaging before it is ready. After that it is ready without:
	// what vendors post is stored as jobs, and a STOP must not be lost because messaging is away for long.
	messagingGrace = 30 * time.Second
	// messagingTimeout bounds one question.
	messagingTimeout = time.Second
)

// addKey names the mend where messaging refuses our tokens.
const addKey = "add the public key of ONBOARDING_SIGNING_KEY to SERVICE_PUBLIC_KEYS there, and keep the clocks by NTP"

// beginning is the readiness of a process that has just started: messaging has to be reached and believe our key once, or its first
// steps would be refused. That messaging goes away later changes nothing: restarting it must not take onboarding out of service.
type beginning struct {
	messaging *grpc.ClientConn
	since     time.Time
	now       func() time.Time
	log       *slog.Logger

	over    atomic.Bool
	refused atomic.Bool // messaging refuses our tokens, which does not end by waiting
}

func (b *beginning) ready(ctx context.Context) error {
	if b.over.Load() {
		return nil
	}
	left := messagingGrace - b.now().Sub(b.since)
	if left <= 0 && !b.refused.Load() {
		b.over.Store(true)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, messagingTimeout)
	defer cancel()
	answer, err := healthpb.NewHealthClient(b.messaging).Check(ctx, &healthpb.HealthCheckRequest{})
	if err == nil && answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = errors.New(answer.GetStatus().String())
	}
	if err == nil { // health asks for no token; to this empty request the right answer is that it is invalid
		_, asked := messagingv1.NewMessagingServiceClient(b.messaging).GetMessage(ctx, &messagingv1.GetMessageRequest{})
		code := status.Code(asked)
		if b.refused.Store(code == codes.Unauthenticated); code == codes.Unauthenticated {
			b.log.ErrorContext(ctx, "onboarding.not_believed", "service", "messaging", "mend", addKey)
			return errors.New("messaging does not believe our key: " + addKey)
		}
		if code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled {
			err = asked
		}
	}
	if err != nil {
		return fmt.Errorf("messaging was not reached yet: check MESSAGING_ADDR and that it runs; onboarding is ready without it in %s: %w",
			left.Round(time.Second), err)
	}
	b.over.Store(true)
	return nil
}
