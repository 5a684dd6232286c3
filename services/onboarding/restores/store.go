// Package restores keeps how far the settling of a restore is, so that it goes on where it was killed, and reads what the sessions have of
// the lost time.
package restores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Restore is one that is being settled.
type Restore struct {
	ID uuid.UUID
	// OnboardingSince and MessagingSince are the last instants that the databases have: what came after them was lost.
	OnboardingSince, MessagingSince time.Time
	// OnboardingHistory and MessagingHistory name the histories of the databases that are settled.
	OnboardingHistory, MessagingHistory string
	BeganAt                             time.Time
	ReleasedAt                          time.Time // since when messages are sent again; zero before
}

// Store keeps restores. The methods work across organisations.
type Store struct{ pool postgres.DB }

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool} }

const sqlOpen = `
select id, onboarding_since, messaging_since, onboarding_history, messaging_history, began_at, released_at
from restores where ended_at is null`

// Open returns the restore that is being settled; false for none.
func (s *Store) Open(ctx context.Context) (r Restore, open bool, err error) {
	var released *time.Time
	err = s.pool.QueryRow(ctx, sqlOpen).Scan(
		&r.ID, &r.OnboardingSince, &r.MessagingSince, &r.OnboardingHistory, &r.MessagingHistory, &r.BeganAt, &released)
	if errors.Is(err, pgx.ErrNoRows) {
		return Restore{}, false, nil
	}
	if err != nil {
		return Restore{}, false, fmt.Errorf("read the restore: %w", err)
	}
	if released != nil {
		r.ReleasedAt = *released
	}
	return r, true, nil
}

const sqlBegin = `
insert into restores (id, onboarding_since, messaging_since, onboarding_history, messaging_history, began_at)
values (@id, @onboarding, @messaging, @onboarding_history, @messaging_history, @at)
on conflict ((true)) where ended_at is null do nothing`

// Begin keeps a restore, unless another one is open.
func (s *Store) Begin(ctx context.Context, r Restore) error {
	return s.exec(ctx, sqlBegin, postgres.Args{
		"id": r.ID, "onboarding": r.OnboardingSince, "messaging": r.MessagingSince, "at": r.BeganAt,
		"onboarding_history": r.OnboardingHistory, "messaging_history": r.MessagingHistory,
	})
}

// Released notes since when messages are sent again.
func (s *Store) Released(ctx context.Context, id uuid.UUID, at time.Time) error {
	return s.exec(ctx, `update restores set released_at = @at where id = @id and released_at is null`, postgres.Args{"id": id, "at": at})
}

// End ends a restore.
func (s *Store) End(ctx context.Context, id uuid.UUID, at time.Time) error {
	return s.exec(ctx, `update restores set ended_at = @at where id = @id and ended_at is null`, postgres.Args{"id": id, "at": at})
}

func (s *Store) exec(ctx context.Context, sql string, args postgres.Args) error {
	if _, err := s.pool.Exec(ctx, sql, args); err != nil {
		return fmt.Errorf("keep the restore: %w", err)
	}
	return nil
}
