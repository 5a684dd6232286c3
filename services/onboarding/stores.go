package onboarding

import (
	"context"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/organisations"
	"paceline.internal/services/onboarding/overview"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/restores"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/tickets"
)

// Stores has the stores of the rooms on one pool.
type Stores struct {
	*peopleStore
	*conversationStore
	*inboundStore

	pool       postgres.DB
	engagement *engagement.Store
	events     *events.Store
	flows      *flows.Store
	tickets    *tickets.Store
}

type (
	peopleStore       = people.Store
	conversationStore = conversation.Store
	inboundStore      = inbound.Store
)

// NewStores wires the stores on an open pool.
func NewStores(pool postgres.DB) *Stores {
	of := people.NewStore(pool)
	of.Opens = []func(context.Context, pgx.Tx, people.Profile, *people.Open) error{conversation.OpenOf, engagement.OpenOf, goals.OpenOf}
	of.Paused = []string{conversation.ChannelAlarms, goals.ChannelAlarms}
	conversations := conversation.NewStore(pool, of)
	return &Stores{
		peopleStore: of, conversationStore: conversations, inboundStore: inbound.NewStore(pool, conversations.Jobs()), pool: pool,
		engagement: engagement.NewStore(pool, conversations.Hot()), events: events.NewStore(pool),
		flows: flows.NewStore(pool), tickets: tickets.NewStore(pool, conversations),
	}
}

// Events returns the store of events.
func (s *Stores) Events() *events.Store { return s.events }

// Flows returns the store of flows.
func (s *Stores) Flows() *flows.Store { return s.flows }

// Tickets returns the store of the inbox.
func (s *Stores) Tickets() *tickets.Store { return s.tickets }

// Runs returns the store of runs.
func (s *Stores) Runs() *runs.Store { return runs.NewStore(s.pool, s.peopleStore) }

// Restores returns the store of restores.
func (s *Stores) Restores() *restores.Store { return restores.NewStore(s.pool) }

// Goals returns the store of goals.
func (s *Stores) Goals() *goals.Store { return goals.NewStore(s.pool) }

// Engagement returns the store of engagement.
func (s *Stores) Engagement() *engagement.Store { return s.engagement }

// Erasures returns the store of erasures.
func (s *Stores) Erasures() *erasure.Store { return erasure.NewStore(s.pool) }

// Organisations returns the store of organisations.
func (s *Stores) Organisations() *organisations.Store {
	of := organisations.NewStore(s.pool)
	of.Paused = s.peopleStore.Paused
	return of
}

// Overviews returns the store of how everything stands.
func (s *Stores) Overviews() *overview.Store {
	return overview.NewStore(s.pool, s.Jobs(), s.engagement.Queue(), s.events.Deliveries())
}

// People returns the store of people.
func (s *Stores) People() *people.Store { return s.peopleStore }

// Conversations returns the store of conversations.
func (s *Stores) Conversations() *conversation.Store { return s.conversationStore }

// Inbound returns the store of what comes in.
func (s *Stores) Inbound() *inbound.Store { return s.inboundStore }
