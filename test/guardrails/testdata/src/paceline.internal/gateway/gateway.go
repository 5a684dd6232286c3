package gateway

import (
	"context"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

func step(ctx context.Context, c messagingv1.OutboundServiceClient) {
	c.EnqueueText(ctx, nil) // want `burst enqueue detected - use QStash scheduling`
}

func operators() messagingv1.OutboundServiceClient { return messagingv1.NewOutboundServiceClient() }
