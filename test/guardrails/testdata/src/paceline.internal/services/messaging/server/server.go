package server

import (
	"context"

	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/postgres"
)

type Outbound struct{ Intake *outbound.Intake }

func (o *Outbound) EnqueueText(ctx context.Context) error {
	return o.Intake.Enqueue(ctx, outbound.Request{})
}

type enqueuer interface {
	Add(ctx context.Context, r outbound.Request) error
}

type Server struct {
	intake *outbound.Intake
	store  *postgres.Outbound
	jobs   *queue.Queue
	queue  enqueuer
}

func (s *Server) Send(ctx context.Context) {
	s.intake.Enqueue(ctx, outbound.Request{}) // want `burst enqueue detected`
	s.store.Enqueue(ctx, outbound.Request{})  // want `burst enqueue detected`
	s.jobs.Enqueue(ctx, queue.New{})          // want `burst enqueue detected`
	s.queue.Add(ctx, outbound.Request{})      // want `Add is handed a text for the queue`
}
