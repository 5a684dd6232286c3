package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Within takes part in the transaction that opens a session. An error of it refuses the session.
type Within func(ctx context.Context, tx pgx.Tx, sessionID string) error

func isNoSession(err error) bool { return errors.Is(err, ErrNoSession) }

// sqlMayOpen locks the person, so that what may be opened is decided by one activation at a time, and by none during a hold.
const sqlMayOpen = `
select p.hold, p.phone,
    coalesce((select o.require_consent_record from organisation_settings o where o.org_id = p.org_id), false) as consent_required
from profiles p where p.org_id = $1 and p.id = $2 for no key update of p`

// sqlOpen locks the session that is not over, if there is one, so that what it is stays so: one that is being parked at this moment is
// waited for and read again. Of an active one and a parked one, which releases before this have left, it is the active one.
const sqlOpen = sqlSession + `
where s.profile_id = $1 and s.status not in ('stopped', 'closed') order by s.status = 'active' desc, s.id desc limit 1
for no key update of s`

// sqlOpenSession also ends a no that went along to a new phone, of which nothing else is known: who activates has a new consent.
const sqlOpenSession = `
with agreed as (
    update profiles set opted_out_at = null, updated_at = @at
    where id = @profile and opted_out_at is not null and consent_changed_at is null
)
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at,
    flow, flow_version, flow_state)
values (@id, @org_id, @profile, @mode, @token, 'active', @copy, @at, @at, nullif(@flow, ''), nullif(@flow_version, ''), @flow_state)
on conflict (profile_id) where status = 'active' do nothing`

// OpenSession stores a new episode together with the job that sends its opening, or returns the session that the
// profile has open already. Errors: people.ErrNoProfile, people.ErrOnHold, *conversation.SessionParked,
// people.ErrAwaitsOperator, ErrConsentRequired, *conversation.TooManyActivations, and
// people.ErrConflict when their phone was changed or a process of the release before opened one at this moment.
func (s *Store) OpenSession(ctx context.Context, o Opening) (session.Record, error) {
	r := o.Session
	var opened session.Record
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		opened = r
		existing, open, err := s.mayOpen(ctx, tx, o)
		if err != nil {
			return err
		}
		if open {
			opened = existing
			return nil
		}
		var position *flow.State
		if r.Flow != "" {
			position = &r.At
		}
		tag, err := tx.Exec(ctx, sqlOpenSession, postgres.Args{
			"flow": r.Flow, "flow_version": r.FlowVersion, "flow_state": position,
			"id": r.ID, "org_id": r.OrgID, "profile": r.ProfileID, "mode": string(r.Mode), "token": string(r.Token),
			"copy": r.CopyVersion, "at": r.CreatedAt,
		})
		if err != nil {
			return fmt.Errorf("open session: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return people.ErrConflict
		}
		if err := writeTimeline(ctx, tx, r.ID, []session.Entry{{
			At: r.CreatedAt, Kind: session.KindActivated, To: r.Token, Trigger: session.TriggerActivation,
		}}); err != nil {
			return err
		}
		if err := people.SetFields(ctx, tx, r.OrgID, r.ProfileID, o.Fields, r.CreatedAt); err != nil {
			return err
		}
		if o.With != nil {
			if err := o.With(ctx, tx, r.ID); err != nil {
				return err
			}
		}
		_, err = enqueue(ctx, tx, o.Job)
		return err
	})
	return opened, err
}

// mayOpen is nil when a session may be opened, and until the transaction ends; or it is the session that the person has open already.
func (s *Store) mayOpen(ctx context.Context, tx pgx.Tx, o Opening) (existing session.Record, open bool, err error) {
	var hold, consentRequired bool
	var phone string
	err = tx.QueryRow(ctx, sqlMayOpen, o.Session.OrgID, o.Session.ProfileID).Scan(&hold, &phone, &consentRequired)
	if errors.Is(err, pgx.ErrNoRows) {
		return existing, false, people.ErrNoProfile
	}
	if err != nil {
		return existing, false, fmt.Errorf("lock profile: %w", err)
	}
	if hold {
		return existing, false, people.ErrOnHold
	}
	if phone != o.Phone { // it was changed since it was asked whether the person may be written to there
		return existing, false, people.ErrConflict
	}
	if err := erasure.NotBegun(ctx, tx, o.Session.ProfileID); err != nil {
		return existing, false, err
	}
	rows, err := tx.Query(ctx, sqlOpen, o.Session.ProfileID)
	view, err := s.collectView(rows, err)
	switch {
	case err == nil && view.Session.Status == session.Active && view.Session.Mode == session.Interviewing && o.Named:
		if err := closeFor(ctx, tx, view.Session, o.Session); err != nil {
			return existing, false, err
		}
	case err == nil && view.Session.Status == session.Active:
		return view.Session, true, nil
	case err == nil:
		return existing, false, &SessionParked{Session: view.Session}
	case !isNoSession(err):
		return existing, false, err
	}
	if err := noTicket(ctx, tx, o); err != nil {
		return existing, false, err
	}
	var asked bool
	if err := tx.QueryRow(ctx, sqlAwaitsOperator, o.Session.OrgID, o.Phone).Scan(&asked); err != nil {
		return existing, false, fmt.Errorf("read what an operator was asked: %w", err)
	}
	switch {
	case asked || o.Unjudged:
		return existing, false, people.ErrAwaitsOperator
	case consentRequired && !o.Agreed:
		return existing, false, ErrConsentRequired
	}
	return existing, false, mayOpenToday(ctx, tx, o)
}

// closeFor closes a session that the host application holds, for one of a flow.
func closeFor(ctx context.Context, tx pgx.Tx, r, next session.Record) error {
	m := session.Stay(r, next.CreatedAt)
	m.Status, m.Reason = session.Closed, "the flow "+next.Flow+" begins"
	m.Entries = []session.Entry{{
		At: m.At, Kind: session.KindClosed, From: r.Token, To: r.Token, Trigger: session.TriggerActivation, Detail: m.Reason,
	}}
	return move(ctx, tx, m, nil)
}

// sqlEarlierSession selects when the session began after which so many more may begin: ids are UUIDv7.
const sqlEarlierSession = `select created_at from conversation_sessions where profile_id = $1 order by id desc limit 1 offset $2`

// mayOpenToday bounds the sessions of a person within 24 hours. The person is locked, so that none comes between.
func mayOpenToday(ctx context.Context, tx pgx.Tx, o Opening) error {
	if o.PerDay == 0 {
		return nil
	}
	var begun time.Time
	err := tx.QueryRow(ctx, sqlEarlierSession, o.Session.ProfileID, o.PerDay-1).Scan(&begun)
	switch again := begun.Add(24 * time.Hour); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("count the sessions of a day: %w", err)
	case again.After(o.Session.CreatedAt):
		return &TooManyActivations{Most: o.PerDay, RetryAfter: again.Sub(o.Session.CreatedAt)}
	}
	return nil
}

const sqlCloseSession = `
with closed as (
    update conversation_sessions
    set status = 'closed', status_reason = 'reset by an operator', turn = turn + 1, updated_at = @at
    where id = @id and org_id = @org_id and status <> 'closed'
    returning id
), handled as (
    update dead_letters d set handled_at = @at from closed where d.session_id = closed.id and ` + LetterOpen + `
)
select id from closed`

// CloseSession closes a session, whatever its status; closing twice changes nothing. ErrNoSession.
func (s *Store) CloseSession(ctx context.Context, orgID, sessionID string, at time.Time) (session.Record, error) {
	var closed session.Record
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlCloseSession, postgres.Args{"id": sessionID, "org_id": orgID, "at": at})
		if err != nil {
			return fmt.Errorf("close session: %w", err)
		}
		rows, err := tx.Query(ctx, sqlSession+`where s.id = $1 and s.org_id = $2`, sessionID, orgID)
		view, err := s.collectView(rows, err)
		if isNoSession(err) {
			return ErrNoSession
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
