package postgres

import (
	"context"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/people"
)

// Short names of what the rooms share.
var (
	orZero, orNull, since = postgres.TimeOf, postgres.NullIfZero, postgres.Age
	notify, notBegun      = postgres.Notify, erasure.NotBegun
	zonesOf               = people.Zones
)

const (
	sqlPlannedNow = postgres.PlanNow
	sqlPausedOf   = people.SQLPaused
	usualZone     = people.SQLUsualZone
)

// The stores of the rooms on the same pool.
type (
	Events     = events.Store
	Goals      = goals.Store
	Engagement = engagement.Store
)

// Events returns the store of events.
func (s *Store) Events() *Events { return events.NewStore(s.pool) }

// Goals returns the store of goals.
func (s *Store) Goals() *Goals { return goals.NewStore(s.pool) }

// Engagement returns the store of engagement.
func (s *Store) Engagement() *Engagement { return engagement.NewStore(s.pool, s.hot) }

// Erasure reads the erasure of a person; erasure.ErrNoErasure.
func (s *Store) Erasure(ctx context.Context, orgID, profileID string) (erasure.Erasure, error) {
	return erasure.NewStore(s.pool).Find(ctx, orgID, profileID)
}
