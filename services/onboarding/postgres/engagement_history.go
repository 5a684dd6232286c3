package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
)

const sqlHistory = `
select id, coalesce(from_state, ''), to_state, trigger, cause, coalesce(supersedes::text, ''), metadata, created_at
from engagement_state_transitions where org_id = $1 and profile_id = $2 order by id desc limit $3`

// History is the newest transitions of a person, newest first.
func (s *Engagement) History(ctx context.Context, orgID, profileID string, limit int) ([]engagement.Transition, error) {
	rows, err := s.pool.Query(ctx, sqlHistory, orgID, profileID, limit)
	if err != nil {
		return nil, fmt.Errorf("read transitions: %w", err)
	}
	history, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (t engagement.Transition, err error) {
		var metadata []byte
		if err := r.Scan(&t.ID, &t.From, &t.To, &t.Trigger, &t.Cause, &t.Supersedes, &metadata, &t.At); err != nil {
			return t, err
		}
		return t, json.Unmarshal(metadata, &t.Metadata)
	})
	if err != nil {
		return nil, fmt.Errorf("read transitions: %w", err)
	}
	return history, nil
}

const sqlTransitionCounts = `
select trigger, count(*) from engagement_state_transitions where org_id = $1 and created_at >= $2 and created_at < $3 group by trigger`

// Transitions counts the transitions of an organisation from an instant until another, by trigger.
func (s *Engagement) Transitions(ctx context.Context, orgID string, from, until time.Time) (map[rules.Trigger]int, error) {
	rows, err := s.pool.Query(ctx, sqlTransitionCounts, orgID, from, until)
	if err != nil {
		return nil, fmt.Errorf("count transitions: %w", err)
	}
	counts := map[rules.Trigger]int{}
	var trigger string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&trigger, &n}, func() error {
		counts[rules.Trigger(trigger)] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("count transitions: %w", err)
	}
	return counts, nil
}
