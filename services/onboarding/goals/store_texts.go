package goals

import (
	"context"
	"time"

	"paceline.internal/platform/postgres"
)

// DoneBy is the goal that a message has scheduled, by its key, or moved or cancelled, by the actor of its timeline. ErrNoGoal.
func (s *Store) DoneBy(ctx context.Context, profileID, messageID string) (Goal, error) {
	return oneGoal(ctx, s.pool, `g.profile_id = @profile and g.source = 'text'
  and (g.idempotency_key = @key or exists (
    select from goal_transitions t where t.goal_id = g.id and t.event in ('cancelled', 'rescheduled') and t.actor = @actor))
limit 1`,
		postgres.Args{"profile": profileID, "key": MessageKey(messageID), "actor": MessageActor(messageID)})
}

// ByText are a person's goals by text that are scheduled, or were said since an instant and have begun or are done. Newest first.
func (s *Store) ByText(ctx context.Context, profileID string, since time.Time) ([]Goal, error) {
	return goalWhere(ctx, s.pool, `g.profile_id = @profile and g.source = 'text'
  and (g.status = 'scheduled' or g.status in ('running', 'completed') and g.created_at > @since) order by g.id desc limit @limit`,
		postgres.Args{"profile": profileID, "since": since, "limit": MaxOpen + MaxTextDaily})
}
