package restores

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/services/onboarding/conversation"
)

// StepSent is a message that the timeline says was sent.
type StepSent struct {
	OrgID, Phone string
	MessageID    uuid.UUID
	At           time.Time // when Twilio took it, by our clock
}

const sqlSentSince = `
select s.org_id::text, p.phone, t.message_id, t.at
from session_transitions t join conversation_sessions s on s.id = t.session_id join profiles p on p.id = s.profile_id
where t.kind = 'sent' and t.message_id is not null and t.at >= $1 order by t.at, t.id`

// SentSince lists what the timelines say was sent since an instant, the oldest first.
func (s *Store) SentSince(ctx context.Context, since time.Time) ([]StepSent, error) {
	rows, err := s.pool.Query(ctx, sqlSentSince, since)
	if err != nil {
		return nil, fmt.Errorf("list what was sent: %w", err)
	}
	sent, err := pgx.CollectRows(rows, pgx.RowToStructByPos[StepSent])
	if err != nil {
		return nil, fmt.Errorf("list what was sent: %w", err)
	}
	return sent, nil
}

const sqlNoSession = `
select u.id::text from unnest($1::uuid[]) u (id) where not exists (select from conversation_sessions s where s.id = u.id)`

// NoSession returns those of the ids that are of no session.
func (s *Store) NoSession(ctx context.Context, ids []string) ([]string, error) {
	rows, err := s.pool.Query(ctx, sqlNoSession, ids)
	if err != nil {
		return nil, fmt.Errorf("look for sessions: %w", err)
	}
	lost, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for sessions: %w", err)
	}
	return lost, nil
}

const sqlHeardSince = `select count(*) from webhook_jobs where source = 'twilio' and event_type = $2 and created_at >= $1`

// HeardSince counts the messages of people that became jobs since an instant.
func (s *Store) HeardSince(ctx context.Context, since time.Time) (n int, err error) {
	if err := s.pool.QueryRow(ctx, sqlHeardSince, since, conversation.EventMessage).Scan(&n); err != nil {
		return 0, fmt.Errorf("count messages: %w", err)
	}
	return n, nil
}
