package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/enrolment"
	"paceline.internal/services/onboarding/session"
)

func isNoSession(err error) bool { return errors.Is(err, dispatch.ErrNoSession) }

const sqlOpenSession = `
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
values (@id, @org_id, @profile, @mode, @token, 'active', @copy, @at, @at)
on conflict (profile_id) where status = 'active' do nothing`

// OpenSession stores a new episode together with the job that sends its opening, or returns the session that the
// profile has open already. dispatch.ErrConflict when that one ended just now.
func (s *Store) OpenSession(ctx context.Context, o enrolment.Opening) (session.Record, error) {
	r := o.Session
	opened := r
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlOpenSession, pgx.NamedArgs{
			"id": r.ID, "org_id": r.OrgID, "profile": r.ProfileID, "mode": string(r.Mode), "token": string(r.Token),
			"copy": r.CopyVersion, "at": r.CreatedAt,
		})
		if err != nil {
			return fmt.Errorf("open session: %w", err)
		}
		if tag.RowsAffected() == 0 {
			rows, err := tx.Query(ctx, sqlSession+`where s.profile_id = $1 and s.status = 'active'`, r.ProfileID)
			open, err := collectView(rows, err)
			if isNoSession(err) { // it was open a moment ago
				return dispatch.ErrConflict
			}
			opened = open.Session
			return err
		}
		if err := writeTimeline(ctx, tx, r.ID, []session.Entry{{
			At: r.CreatedAt, Kind: session.KindActivated, To: r.Token, Trigger: session.TriggerActivation,
		}}); err != nil {
			return err
		}
		_, err = enqueue(ctx, tx, o.Job)
		return err
	})
	return opened, err
}

const sqlCloseSession = `
update conversation_sessions
set status = 'closed', status_reason = 'reset by an operator', turn = turn + 1, updated_at = @at
where id = @id and org_id = @org_id and status <> 'closed'`

// CloseSession closes a session, whatever its status; closing twice changes nothing. enrolment.ErrNoSession.
func (s *Store) CloseSession(ctx context.Context, orgID, sessionID string, at time.Time) (session.Record, error) {
	var closed session.Record
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlCloseSession, pgx.NamedArgs{"id": sessionID, "org_id": orgID, "at": at})
		if err != nil {
			return fmt.Errorf("close session: %w", err)
		}
		rows, err := tx.Query(ctx, sqlSession+`where s.id = $1 and s.org_id = $2`, sessionID, orgID)
		view, err := collectView(rows, err)
		if isNoSession(err) {
			return enrolment.ErrNoSession
		}
		if err != nil || tag.RowsAffected() == 0 {
			closed = view.Session
			return err
		}
		closed = view.Session
		return writeTimeline(ctx, tx, sessionID, []session.Entry{{
			At: at, Kind: session.KindClosed, From: closed.Token, To: closed.Token, Trigger: session.TriggerOperator,
		}})
	})
	return closed, err
}
