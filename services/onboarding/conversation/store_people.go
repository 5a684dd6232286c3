package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// sqlActive locks the open session of a profile.
const sqlActive = sqlSession + `where s.profile_id = $1 and s.status = 'active' for update of s`

// Held notes a hold in the timeline of the open session.
func (s *Store) Held(ctx context.Context, tx pgx.Tx, profileID, reason string, at time.Time) error {
	return s.inActive(ctx, tx, profileID, func(open session.Record) error {
		return writeTimeline(ctx, tx, open.ID, []session.Entry{{
			At: at, Kind: session.KindHeld, Trigger: session.TriggerOperator, Detail: reason,
		}})
	})
}

// Released lets the open session go on after a hold. The due step of a burst gets its alarm set again; otherwise the last reply held in
// this place is routed.
func (s *Store) Released(ctx context.Context, tx pgx.Tx, profileID string, at time.Time) error {
	return s.inActive(ctx, tx, profileID, func(open session.Record) error {
		entry := session.Entry{At: at, Kind: session.KindReleased, Trigger: session.TriggerOperator, Step: open.NextStep}
		if err := writeTimeline(ctx, tx, open.ID, []session.Entry{entry}); err != nil {
			return err
		}
		if open.NextStep == "" {
			return answerHeld(ctx, tx, open, open.Place(), time.Time{}, at)
		}
		return setAgain(ctx, tx, open, session.CauseReleased, at)
	})
}

// inActive does something in the open session of a person, if there is one.
func (s *Store) inActive(ctx context.Context, tx pgx.Tx, profileID string, do func(open session.Record) error) error {
	rows, err := tx.Query(ctx, sqlActive, profileID)
	open, err := s.collectView(rows, err)
	if isNoSession(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return do(open.Session)
}

// sqlOpenOf counts a silence as work once it was acted on: its text may have been tried, and waits for a cap.
const sqlOpenOf = `
select coalesce(s.id::text, ''), coalesce(s.status, ''), coalesce(s.next_step_id, ''),
       exists (select from webhook_jobs j where j.org_id = @org_id and j.subject = @phone and j.status in ('pending', 'processing'))
           or exists (select from webhook_jobs j
               where j.org_id = @org_id and j.subject in ('opening:' || s.id, 'reply:' || s.id || ':' || (s.turn - s.detours))
                 and j.status in ('pending', 'processing'))
           or exists (select from webhook_jobs j
               where j.org_id = @org_id and j.subject = 'flow:' || s.id || ':' || (s.turn - s.detours)
                 and j.status in ('pending', 'processing') and (j.status = 'processing' or j.idempotency_key like 'waits:%'))
from (select) one left join lateral (
    select s.id, s.status, s.next_step_id, s.turn, s.detours from conversation_sessions s
    where s.profile_id = @id and s.status not in ('stopped', 'closed') order by s.status = 'active' desc, s.id desc limit 1) s on true`

// OpenOf adds what is open of a person who is locked: their session, and jobs.
func OpenOf(ctx context.Context, tx pgx.Tx, p people.Profile, open *people.Open) error {
	err := tx.QueryRow(ctx, sqlOpenOf, postgres.Args{"org_id": p.OrgID, "id": p.ID, "phone": p.Phone}).Scan(
		&open.Session.ID, &open.Session.Status, &open.Session.NextStep, &open.Working)
	if err == nil {
		err = tx.QueryRow(ctx, sqlAwaitsOperator, p.OrgID, p.Phone).Scan(&open.AwaitsOperator)
	}
	if err != nil {
		return fmt.Errorf("read what is open of a person: %w", err)
	}
	return nil
}

const sqlConsentChangedAt = `select consent_changed_at from profiles where org_id = $1 and id = $2`

// ConsentChangedAt returns when a person last stopped or agreed again by their own word; zero for never.
func (s *Store) ConsentChangedAt(ctx context.Context, orgID, profileID string) (at time.Time, err error) {
	var changed *time.Time
	err = s.pool.QueryRow(ctx, sqlConsentChangedAt, orgID, profileID).Scan(&changed)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && changed == nil:
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read when consent changed: %w", err)
	}
	return *changed, nil
}
