package onboarding

import (
	"context"
	"errors"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/tickets"
)

// receiving wires what comes in, and the queue of its jobs.
func (w *wiring) receiving(
	ctx context.Context, c *conversation.Service, carrier *messaging.Client, texts *goals.Texts, counted *queue.Metrics,
) error {
	measured, err := inbound.NewMetrics(w.meter)
	if err := errors.Join(err, queue.Observe(ctx, w.meter, conversation.JobsTable, w.store.Jobs(), w.deps.Now)); err != nil {
		return err
	}
	answers, err := tickets.NewMetrics(w.meter)
	if err := errors.Join(err, tickets.Observe(ctx, w.meter, w.store.Tickets(), w.deps.Now)); err != nil {
		return err
	}
	w.tickets = tickets.New(tickets.Config{
		Store: w.store.Tickets(), Carrier: carrier, Holds: w.people, Quiet: w.store.People(), Sessions: c, Metrics: answers,
		Log: w.deps.Log, Now: w.deps.Now,
	})
	w.inbound = inbound.New(inbound.Config{
		Inbox: w.tickets,
		OrgID: w.cfg.DefaultOrgID, Store: w.store, Carrier: carrier, Engagement: w.engagement, Goals: texts, Conversations: c,
		Flows: w.store.Flows(), People: w.people,
		Erasures: w.erasing, Metrics: measured, Log: w.deps.Log, Now: w.deps.Now,
	})
	w.runs = runs.New(runs.Config{
		Store: w.store.Runs(), People: w.store.Runs(), Flows: w.store.Flows(), Conversations: c, Carrier: carrier,
		Notify: func() { w.notifier.Notify() }, Rest: w.deps.Rest, Log: w.deps.Log, Now: w.deps.Now,
	})
	handlers, giveUp := w.runs.Handle(w.inbound.Handlers(), w.inbound.GiveUp)
	w.inbound.Jobs = queue.NewRunner(queue.Config{
		Name: conversation.JobsTable, Store: w.store.Jobs(), Handlers: handlers, GiveUp: giveUp, Workers: jobWorkers,
		Transient: transient, Wake: w.wakeJobs, Metrics: counted, Log: w.deps.Log, Now: w.deps.Now,
	})
	w.tickets.Jobs = w.inbound.Jobs
	c.Jobs, w.notifier = w.inbound.Jobs, queue.NewNotifier(w.pool, conversation.ChannelJobs, w.wakeJobs, w.deps.Log)
	return nil
}
