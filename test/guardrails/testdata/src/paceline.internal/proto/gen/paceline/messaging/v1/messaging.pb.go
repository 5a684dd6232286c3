package messagingv1

import "context"

type EnqueueTextRequest struct{}

type OutboundServiceClient interface {
	EnqueueText(ctx context.Context, r *EnqueueTextRequest) error
}

func NewOutboundServiceClient() OutboundServiceClient { return nil }

const OutboundService_EnqueueText_FullMethodName = "/paceline.messaging.v1.OutboundService/EnqueueText"

type MessagingServiceClient interface {
	Send(ctx context.Context) error
}
