package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/people"
)

const sqlCircumstances = `
select s.paused_at,
    coalesce((select o.require_consent_record from organisation_settings o where o.org_id = p.org_id), false),
    exists (select from webhook_jobs j where j.org_id = p.org_id and j.status = 'failed' and j.subject = p.phone
        and j.error_message like '` + NeedsOperator + `%'),
    coalesce(z.suspended, false), z.paused_at, coalesce(z.paused_by ->> 'subject', ''), coalesce(z.reason, ''),
    (select count(*) from held_replies h where h.session_id = s.id and h.turn = s.turn - s.detours),
    coalesce((select d.id::text from dead_letters d where d.session_id = s.id and d.step_id = s.next_step_id and ` + LetterOpen + `
        order by d.id desc limit 1), ''),
    coalesce(t.id::text, ''), t.opened_at
from profiles p left join tickets t on t.profile_id = p.id and t.status <> 'closed'
left join lateral (
    select z.suspended, z.paused_at, z.paused_by, z.reason from (` + people.SQLPauses + `) z where z.org_id = p.org_id
    order by z.suspended desc limit 1
) z on true
left join lateral (
    select s.id, s.paused_at, s.turn, s.detours, s.next_step_id from conversation_sessions s where s.profile_id = p.id
    order by s.status = 'active' desc, s.id desc limit 1
) s on true
where p.org_id = $1 and p.id = $2`

// Circumstances returns what an explanation needs apart from the session; people.ErrNoProfile.
func (s *Store) Circumstances(ctx context.Context, orgID, profileID string) (c Circumstances, err error) {
	var paused, since, opened *time.Time
	var pause Pause
	err = s.pool.QueryRow(ctx, sqlCircumstances, orgID, profileID).Scan(
		&paused, &c.ConsentRequired, &c.AwaitsOperator, &pause.Suspended, &since, &pause.By, &pause.Reason, &c.HeldReplies, &c.DeadLetter,
		&c.Ticket.ID, &opened)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, people.ErrNoProfile
	}
	if err != nil {
		return c, fmt.Errorf("read the circumstances of a person: %w", err)
	}
	c.PausedAt, c.Ticket.Since = postgres.TimeOf(paused), postgres.TimeOf(opened)
	if since != nil {
		pause.Since = *since
		c.Pause = &pause
	}
	return c, nil
}
