package pacing

import (
	"context"

	"paceline.internal/platform/queue"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/outbound"
)

type outboundClient = messagingv1.OutboundServiceClient // want `onboarding knows of OutboundServiceClient`

func begin(ctx context.Context, m messagingv1.MessagingServiceClient, q outboundClient, jobs *queue.Queue) {
	_ = m.Send(ctx)
	_ = jobs.Enqueue(ctx, queue.New{}) // webhook_jobs
	q.EnqueueText(ctx, nil)            // want `burst enqueue detected - use QStash scheduling`
}

var texts []outbound.Request // want `onboarding knows of Request`

const (
	method = "/paceline.messaging.v1.OutboundService/EnqueueText" // want `a call of OutboundService`
	table  = "sms_" + "outbound_jobs"                             // want `sms_outbound_jobs outside of its store`
)
