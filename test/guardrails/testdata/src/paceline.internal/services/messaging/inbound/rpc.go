package inbound

import (
	"context"

	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/outbound"
)

type enqueuer interface {
	Add(ctx context.Context, r outbound.Request) error
}

type RPC struct {
	intake *outbound.Intake
	store  *outbound.Store
	jobs   *queue.Queue
	queue  enqueuer
}

func (s *RPC) Send(ctx context.Context) {
	s.intake.Enqueue(ctx, outbound.Request{}) // want `burst enqueue detected`
	s.store.Enqueue(ctx, outbound.Request{})  // want `burst enqueue detected`
	s.jobs.Enqueue(ctx, queue.New{})          // want `burst enqueue detected`
	s.queue.Add(ctx, outbound.Request{})      // want `Add is handed a text for the queue`
}
