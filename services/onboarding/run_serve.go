package onboarding

import (
	"context"
	"errors"
	"time"

	"paceline.internal/platform/alarms"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/apikeys"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/devices"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/organisations"
	"paceline.internal/services/onboarding/overview"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/tickets"
)

// serve puts the service behind gRPC, and sees to it that each of its methods says who may call it.
func (w *wiring) serve(tokens *rpc.Tokens, files rpc.TLS) (err error) {
	w.grpc, err = rpc.NewServer(rpc.ServerConfig{
		Tokens: tokens, Log: w.deps.Log, TracerProvider: w.tel.Tracer, MeterProvider: w.tel.Meter,
		TLS: files.Server, Scope: process.Scope, Timeout: stepTimeout, MaxRequest: maxRequest, Database: w.ready,
		Keep: w.calls.Keep, Answer: Answer,
	})
	if err != nil {
		return err
	}
	now := w.deps.Now
	onboardingv1.RegisterOnboardingServiceServer(w.grpc, NewService(
		&people.RPC{People: w.people, Store: w.store.People(), Erasure: w.store.Erasures(), Now: now},
		&conversation.RPC{Conversations: w.conversations, Store: w.store.Conversations(), Engagement: w.engagement.Texts, Now: now},
		&inbound.RPC{
			Inbound: w.inbound, Conversations: w.store.Conversations(), Failures: w.failures, Notify: w.notifier.Notify, Now: now,
		},
		&erasure.RPC{Erasures: w.erasing, Holds: w.store.Erasures()},
		&Operations{
			Calls: w.calls, Messaging: messaging.New(w.messaging, now), RPC: &overview.RPC{
				Store: w.store.Overviews(), Pauses: w.store.People(), SchedulingDisabled: w.cfg.SchedulingDisabled, Now: now,
			},
		},
	))
	onboardingv1.RegisterWebhookJobServiceServer(w.grpc, &inbound.JobsRPC{
		OrgID: w.cfg.DefaultOrgID, Inbound: w.inbound, Store: w.store.Inbound(), Notify: w.notifier.Notify, Now: w.deps.Now,
	})
	onboardingv1.RegisterEngagementServiceServer(w.grpc, &engagement.RPC{
		People: w.engagement, Store: w.store.Engagement(), Now: w.deps.Now,
	})
	onboardingv1.RegisterEventServiceServer(w.grpc, &events.RPC{
		Store: events.NewStore(w.pool), Hub: w.readers, Courier: w.courier, Wake: w.wakeDeliveries, Now: w.deps.Now,
	})
	onboardingv1.RegisterFlowServiceServer(w.grpc, &flows.RPC{Store: w.store.Flows(), Now: w.deps.Now})
	keys := apikeys.NewStore(w.pool)
	onboardingv1.RegisterAPIKeyServiceServer(w.grpc, &apikeys.RPC{Store: keys, Now: w.deps.Now})
	onboardingv1.RegisterOrganisationServiceServer(w.grpc, &organisations.RPC{Organisations: w.organisations, Keys: keys})
	onboardingv1.RegisterRunServiceServer(w.grpc, &runs.RPC{Runs: w.runs})
	onboardingv1.RegisterTicketServiceServer(w.grpc, &tickets.RPC{
		Tickets: w.tickets, Store: w.store.Tickets(), People: w.store, Now: w.deps.Now,
	})
	onboardingv1.RegisterGoalServiceServer(w.grpc, &devices.RPC{Hub: w.hub, Answer: Answer, RPC: &goals.RPC{
		Goals: w.goals, Devices: &goals.Devices{Store: goals.NewStore(w.pool), Metrics: w.goals.Metrics, Now: w.deps.Now},
		Store: goals.NewStore(w.pool), Pause: w.pauseOf, Now: w.deps.Now,
	}})
	return w.grpc.CheckRules()
}

// ready reports why there should be no traffic now. A Redis that is down is no reason: it refuses failure callbacks, which
// QStash repeats, while every step and every reply is still answered; and all instances would be out of service at once.
func (s *wired) ready(ctx context.Context) error {
	return s.pool.Ready(ctx, Migrations())
}

// queues returns a function that reports the health of webhook_jobs, engagement_outreach and alarm_jobs, in all organisations.
func (s *wired) queues(now func() time.Time) func(ctx context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		health, err := s.conversations.Jobs.Health(postgres.AcrossOrganisations(ctx), s.store.Jobs(), now())
		sending, sendingErr := s.outreach.Health(postgres.AcrossOrganisations(ctx), s.store.Engagement().Queue(), now())
		ringing, ringingErr := s.ringing.Health(postgres.AcrossOrganisations(ctx), alarms.NewQueue(s.pool), now())
		return map[string]queue.Health{conversation.JobsTable: health, engagement.OutreachTable: sending, alarms.Table: ringing},
			errors.Join(err, sendingErr, ringingErr)
	}
}
