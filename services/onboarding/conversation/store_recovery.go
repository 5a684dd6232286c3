package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// sqlParkedSessions goes by when a session was last moved: a parked one is not, until it is resumed. Who has a ticket that is open is left
// to those who answer it.
const sqlParkedSessions = `
with chosen as materialized (
    select id from conversation_sessions
    where org_id = @org_id and status in ('stuck', 'undeliverable') and strpos(lower(status_reason), lower(@contains)) > 0
      and not (@leave_unjudged and starts_with(status_reason, @unjudged))
      and not exists (select from tickets t where t.profile_id = conversation_sessions.profile_id and t.status <> 'closed')
      and (@since::timestamptz is null or updated_at >= @since) and (@until::timestamptz is null or updated_at < @until)
      and (@before = '' or id < nullif(@before, '')::uuid)
    order by id desc limit 10000
)
select (select count(*) from chosen)::int, array(select id::text from chosen order by id desc limit @limit)`

// ParkedFilter selects the parked sessions to resume together. Zero times choose all.
type ParkedFilter struct {
	OrgID    string
	Contains string // what their reasons have in common
	Judged   bool   // none that waits for a judgement of words
	Since    time.Time
	Until    time.Time
	Before   string // only sessions older than this id
	Limit    int
}

// ParkedSessions lists the ids of parked sessions, newest first, and counts them regardless of the limit, up to 10,000.
func (s *Store) ParkedSessions(ctx context.Context, c ParkedFilter) (ids []string, matched int, err error) {
	err = s.pool.QueryRow(ctx, sqlParkedSessions, postgres.Args{
		"org_id": c.OrgID, "contains": c.Contains, "since": postgres.NullIfZero(c.Since), "until": postgres.NullIfZero(c.Until),
		"before": c.Before, "limit": c.Limit,
		"leave_unjudged": c.Judged, "unjudged": AmbiguousReason,
	}).Scan(&matched, &ids)
	if err != nil {
		return nil, 0, fmt.Errorf("list parked sessions: %w", err)
	}
	return ids, matched, nil
}

// sqlLockPersonOf comes before the session's lock, as in every transaction of both. No ticket is opened for the person meanwhile.
const sqlLockPersonOf = `
select p.id from profiles p join conversation_sessions s on s.profile_id = p.id where s.org_id = $1 and s.id = $2 for no key update of p`

func lockPersonOf(ctx context.Context, tx pgx.Tx, orgID, sessionID string) error {
	if _, err := tx.Exec(ctx, sqlLockPersonOf, orgID, sessionID); err != nil {
		return fmt.Errorf("lock profile: %w", err)
	}
	return nil
}

const sqlLockSession = sqlSession + `where s.id = $1 and s.org_id = $2 for update of s`

// Resume makes a parked session active again, with all that it needs to go on, in one transaction. The alarm of a due step
// is set again. The ticket that it waits for is closed if the caller says so, else ErrTicketOpen. Any other ticket of the person that is
// open keeps it parked: it waits for that one from now on. Errors: ErrNoSession, ErrEnded, ErrOtherOpen.
func (s *Store) Resume(
	ctx context.Context, orgID, sessionID string, by session.Trigger, closesTicket bool, at time.Time,
) (session.Record, error) {
	var resumed session.Record
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := lockPersonOf(ctx, tx, orgID, sessionID); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sqlLockSession, sessionID, orgID)
		view, err := s.collectView(rows, err)
		if isNoSession(err) {
			return ErrNoSession
		}
		if err != nil {
			return err
		}
		switch resumed = view.Session; {
		case resumed.Status.Parked():
			resumed, err = resume(ctx, tx, resumed, resuming{Cause: session.CauseResumed, By: by, At: at, ClosesTicket: closesTicket})
			return err
		case resumed.Status != session.Active:
			return ErrEnded
		}
		return nil
	})
	return resumed, err
}

// resuming describes the resumption of a session.
type resuming struct {
	Cause        session.AlarmCause
	By           session.Trigger
	At           time.Time
	ClosesTicket bool // that it waits for
	// Anew begins the silence of the question anew that the session waits at, until SilentAt; zero for none.
	Anew     bool
	SilentAt time.Time
}

// resume moves a session that is locked and parked, with its person locked. What was under way comes first: replies that were held
// meanwhile are considered after it, by the move that it makes.
func resume(ctx context.Context, tx pgx.Tx, r session.Record, how resuming) (session.Record, error) {
	at := how.At
	waiting, waits, err := awaitOther(ctx, tx, r, how)
	if waits || err != nil {
		return waiting, err
	}
	if err := openAgain(ctx, tx, r, at); err != nil {
		return r, err
	}
	found, err := takeUp(ctx, tx, r, at)
	if err != nil {
		return r, err
	}
	if err := closeTicketOf(ctx, tx, r.ID, at); err != nil {
		return r, err
	}
	m := session.Resume(r, how.By, at)
	if err := move(ctx, tx, m, nil); err != nil {
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.ConstraintName == "conversation_sessions_one_active" {
			return r, ErrOtherOpen
		}
		return r, err
	}
	r.Status, r.Reason, r.Turn, r.Detours, r.UpdatedAt = m.Status, m.Reason, r.Turn+1, r.Detours+1, at
	switch {
	case r.At.Phase == flow.Handed: // what the person wrote meanwhile was answered by the person who had them
		return r, goOn(ctx, tx, r, at)
	case r.NextStep != "":
		return r, setAgain(ctx, tx, r, how.Cause, at)
	case how.Anew:
		if err := silenceAnew(ctx, tx, r, how.SilentAt, at); err != nil {
			return r, err
		}
	}
	if found {
		return r, nil
	}
	if err := answerHeld(ctx, tx, r, r.Place(), time.Time{}, at); err != nil || r.Flow == "" || how.Anew {
		return r, err
	}
	return r, goOn(ctx, tx, r, at) // behind the reply that was held, if one was
}

// sqlGoOn enqueues what the flow of a session does by itself where it stands, unless that is waited for already.
const sqlGoOn = `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select @id, s.org_id, @subject || ':resumed:' || s.turn, 'internal', @flow, @subject, @payload::jsonb, 'pending', @at, @at, @at
from conversation_sessions s join profiles p on p.id = s.profile_id
where s.id = @session and not exists (
    select from webhook_jobs j
    where j.org_id = s.org_id and j.subject in (p.phone, @subject) and j.status in ('pending', 'processing')
      and j.event_type = @flow and j.payload ->> 'session_id' = s.id::text and (j.payload ->> 'place')::int = @place::int)
on conflict (org_id, idempotency_key) do nothing`

func goOn(ctx context.Context, tx pgx.Tx, r session.Record, at time.Time) error {
	if _, err := tx.Exec(ctx, sqlGoOn, postgres.Args{
		"id": uuid.Must(uuid.NewV7()).String(), "session": r.ID, "flow": EventFlow, "place": r.Place(), "at": at,
		"subject": flowSubject(r.ID, r.Place()),
		"payload": flowPayload{SessionID: r.ID, Place: r.Place()},
	}); err != nil {
		return fmt.Errorf("go on with a flow: %w", err)
	}
	return postgres.Notify(ctx, tx, ChannelJobs)
}

// sqlOpenAgain enqueues the opening of a session that stands where it was opened, after its own job for it came to an end while the
// session was parked; unless that is the work that is taken up. It carries what the first one did, which may tell how the person agreed.
// If the message was taken after all, its key keeps it single.
const sqlOpenAgain = `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select @id, s.org_id, 'opened:' || s.id || ':' || s.turn, 'internal', @opening, p.phone,
       coalesce((select j.payload from webhook_jobs j where j.org_id = s.org_id and j.idempotency_key = @called),
                jsonb_build_object('session_id', s.id)),
       'pending', @at, @at, @at
from conversation_sessions s join profiles p on p.id = s.profile_id
where s.id = @session and s.turn = s.detours
  and not exists (select from webhook_jobs j where j.id = s.parked_job_id and j.event_type = @opening)
  and not exists (
      select from webhook_jobs j
      where j.org_id = s.org_id and j.subject in (p.phone, @called) and j.status in ('pending', 'processing')
        and j.event_type = @opening and j.payload ->> 'session_id' = s.id::text)
on conflict (org_id, idempotency_key) do nothing`

func openAgain(ctx context.Context, tx pgx.Tx, r session.Record, at time.Time) error {
	if r.Place() > 0 {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("job id: %w", err)
	}
	tag, err := tx.Exec(ctx, sqlOpenAgain, postgres.Args{
		"id": id.String(), "session": r.ID, "opening": EventOpening, "called": OpeningJob(r.ID), "at": at,
	})
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	return postgres.Notify(ctx, tx, ChannelJobs)
}

// sqlTakeUp enqueues the work of the job that was under way when the session was parked, once more and as a new job; its
// limit begins anew. A reply is wrapped with the place that it was for, and when it reached us; only the opening needs
// neither, for a session has one. What the flow does by itself, and a question that was to be asked again, come from the resume itself.
const sqlTakeUp = `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select @id, j.org_id, 'resumed:' || s.id || ':' || s.turn, 'internal',
       case when j.event_type in (@opening, @again) then j.event_type else @again end, j.subject,
       case j.event_type
            when @opening then j.payload
            when @again then jsonb_build_object('received_at', j.created_at) || j.payload
            else jsonb_build_object('place', @place::int, 'message', j.payload,
                                    'received_at', coalesce((j.payload ->> 'received_at')::timestamptz, j.created_at)) end,
       'pending', @at, @at, @at
from conversation_sessions s join webhook_jobs j on j.id = s.parked_job_id
where s.id = @session and j.event_type not in (@flow, @ticket)`

// sqlSilenceAnew enqueues the silence of a session that waits, from now on: one that was to come earlier is cancelled. The turn makes
// its key, for the place has had one.
const sqlSilenceAnew = `
with before as (
    update webhook_jobs j set status = 'cancelled', next_retry_at = null, processed_at = @at, updated_at = @at
    from conversation_sessions s join profiles p on p.id = s.profile_id
    where s.id = @session and j.org_id = s.org_id and j.subject in (p.phone, @subject) and j.status = 'pending' and j.event_type = @flow
      and j.payload ->> 'session_id' = s.id::text and (j.payload ->> 'place')::int = @place::int
)
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select @id, s.org_id, @subject || ':resumed:' || s.turn, 'internal', @flow, @subject, @payload::jsonb, 'pending', @due, @at, @at
from conversation_sessions s where s.id = @session and @due::timestamptz is not null
on conflict (org_id, idempotency_key) do nothing`

func silenceAnew(ctx context.Context, tx pgx.Tx, r session.Record, due, at time.Time) error {
	if _, err := tx.Exec(ctx, sqlSilenceAnew, postgres.Args{
		"id": uuid.Must(uuid.NewV7()).String(), "session": r.ID, "flow": EventFlow, "place": r.Place(), "at": at, "due": postgres.NullIfZero(due),
		"subject": flowSubject(r.ID, r.Place()), "payload": flowPayload{SessionID: r.ID, Place: r.Place()},
	}); err != nil {
		return fmt.Errorf("begin a silence anew: %w", err)
	}
	return postgres.Notify(ctx, tx, ChannelJobs)
}

func takeUp(ctx context.Context, tx pgx.Tx, r session.Record, at time.Time) (found bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return false, fmt.Errorf("job id: %w", err)
	}
	tag, err := tx.Exec(ctx, sqlTakeUp, postgres.Args{
		"id": id.String(), "session": r.ID, "place": r.Place(), "at": at,
		"opening": EventOpening, "flow": EventFlow, "ticket": EventTicket, "again": EventResumedReply,
	})
	if err != nil {
		return false, fmt.Errorf("take up parked work: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	return true, postgres.Notify(ctx, tx, ChannelJobs)
}
