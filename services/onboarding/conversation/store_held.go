package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// sqlStill locks a session that still stands where a decision saw it, so that a reply is held either before the burst
// ends or not at all.
const sqlStill = `select id from conversation_sessions where id = $1 and status = $2 and turn = $3 for update`

// still locks a session that stands where a decision saw it; else people.ErrConflict.
func still(ctx context.Context, tx pgx.Tx, r session.Record) error {
	tag, err := tx.Exec(ctx, sqlStill, r.ID, string(r.Status), r.Turn)
	if err != nil {
		return fmt.Errorf("lock session: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return people.ErrConflict
	}
	return nil
}

// sqlHeldProfile keeps a hold from being lifted until the transaction ends. Like a release it comes before the session's
// lock, so that the two never wait for each other.
const sqlHeldProfile = `select id from profiles where id = $1 and hold for share`

// sqlHold keeps when the message reached us, and not when a job that takes it up was made.
const sqlHold = `
insert into held_replies (job_id, session_id, turn, received_at)
select j.id, @session, @turn, coalesce((j.payload ->> 'received_at')::timestamptz, j.created_at)
from webhook_jobs j where j.id = @job
on conflict (job_id) do nothing`

// keeps reports whether a session of a published flow keeps replies in a phase: until its first text was sent, the host application has
// answered, or the person who has them is done.
func keeps(phase flow.Phase) bool {
	return phase == flow.Due || phase == flow.Calling || phase == flow.Handed
}

// DeferReply keeps a reply that may not be answered now, and ends its job. people.ErrConflict when the session has moved on
// since the decision to hold, or an active one outside the burst is not held any more: nothing would take up the reply again.
func (s *Store) DeferReply(ctx context.Context, at session.Record, cause Cause, entry session.Entry) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if at.Status == session.Active && at.NextStep == "" && !keeps(at.At.Phase) {
			tag, err := tx.Exec(ctx, sqlHeldProfile, at.ProfileID)
			if err != nil {
				return fmt.Errorf("lock profile: %w", err)
			}
			if tag.RowsAffected() == 0 {
				return people.ErrConflict
			}
		}
		if err := still(ctx, tx, at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlHold, postgres.Args{
			"job": cause.Job.ID, "session": at.ID, "turn": at.Place(),
		}); err != nil {
			return fmt.Errorf("hold reply: %w", err)
		}
		if err := writeTimeline(ctx, tx, at.ID, []session.Entry{entry}); err != nil {
			return err
		}
		return finishCause(ctx, tx, &cause, entry.At)
	})
}

// PutOff has a job go on with a reply later, and ends that of the reply. people.ErrConflict when the session has moved on, queue.ErrFenced;
// then nothing has happened.
func (s *Store) PutOff(ctx context.Context, at session.Record, later queue.New, entries []session.Entry, cause Cause) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := still(ctx, tx, at); err != nil {
			return err
		}
		if _, err := enqueue(ctx, tx, later); err != nil {
			return err
		}
		if err := writeTimeline(ctx, tx, at.ID, entries); err != nil {
			return err
		}
		return finishCause(ctx, tx, &cause, later.At)
	})
}

// sqlAnswerHeld enqueues the last reply held in this place since an instant, as an answer to what is asked in a place. Earlier
// ones stay in the timeline and answer nothing. Its key makes it one job for that place however often this runs, and it is
// wrapped with that place: if another reply is answered there first, it is overtaken. A reply can count in two places: one that
// was held while the message before it was in doubt first brings that message to its end, and then answers it. The payload of a message
// that came late has its own received_at, which is the carrier's, in whole seconds: it counts from the second of that instant.
const sqlAnswerHeld = sqlAnswers + sqlAnswerLast

const sqlAnswers = `
with asked as (
    select u.id, u.session, u.turn, u.answers, u.since, u.at
    from unnest(@id::uuid[], @session::uuid[], @turn::int[], @answers::int[], @since::timestamptz[], @at::timestamptz[], @cause::uuid[])
        as u (id, session, turn, answers, since, at, cause)`

const sqlAnswerLast = sqlLast + `h.turn = u.turn` + sqlOfLast + sqlAnswer

// sqlAnswerLastSince also answers one held before an earlier step, if it came after the text that is answered: a database that lost the
// moves of a burst has texts delivered again that were answers to its last one. One that was used for a place since then is none.
const sqlAnswerLastSince = sqlLast + `(h.turn = u.turn or h.turn < u.turn and u.since > timestamptz 'epoch')` + sqlOfLast + `
where turn = place or not exists (
    select from webhook_jobs a where a.org_id = last.org_id
        and a.idempotency_key in (select 'held:' || last.id || ':' || n from generate_series(last.turn + 1, place) n)
)` + sqlAnswer

const (
	sqlLast = `
), last as (
    select u.id as job, u.turn as place, u.answers, u.at, l.* from asked u cross join lateral (
        select j.id, j.org_id, j.subject, h.turn, h.received_at, m.message
        from held_replies h join webhook_jobs j on j.id = h.job_id
        cross join lateral (
            select case j.event_type when '` + EventResumedReply + `' then j.payload -> 'message' else j.payload end as message
        ) m
        where h.session_id = u.session and `
	sqlOfLast = `
          and (h.received_at > u.since or m.message ? 'received_at' and h.received_at >= date_trunc('second', u.since))
        order by h.received_at desc, h.job_id desc limit 1
    ) l
)
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select job, org_id, 'held:' || id || ':' || answers, 'internal', '` + EventResumedReply + `', subject,
       jsonb_build_object('place', answers, 'message', message, 'received_at', received_at),
       'pending', at as due, at as created, at as updated
from last`
	sqlAnswer = `
on conflict (org_id, idempotency_key) do nothing
returning pg_notify('` + ChannelJobs + `', '')`
)

// sqlAnswerMoved is sqlAnswerHeld of sessions after this very transaction has ended their burst: it follows sqlMove in one round trip, and
// one that was overtaken answers nothing. That the transaction has moved the session is not enough: it may have parked it, for another
// execution of the same step.
const sqlAnswerMoved = sqlAnswers + `
    join conversation_sessions s on s.id = u.session and s.id = any(@session::uuid[]) and s.xmin = pg_current_xact_id_if_assigned()::xid
        and s.status = 'active' and s.next_step_id is null` + sqlAnswerLastSince

// sqlAnswerMovedByJob is the same behind sqlMoveByJob, of sessions with jobs that this very transaction has completed.
const sqlAnswerMovedByJob = sqlAnswers + `
    join webhook_jobs c on c.id = u.cause and c.id = any(@cause::uuid[]) and c.xmin = pg_current_xact_id_if_assigned()::xid
        and c.status || '' = 'completed'` + sqlAnswerLast

func answerHeld(ctx context.Context, tx pgx.Tx, r session.Record, answers int, since, at time.Time) error {
	args, err := answerHeldArgs(r, answers, since, at)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sqlAnswerHeld, args.Each()); err != nil {
		return fmt.Errorf("route held reply: %w", err)
	}
	return nil
}

func answerHeldArgs(r session.Record, answers int, since, at time.Time) (postgres.Args, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("job id: %w", err)
	}
	return postgres.Args{
		"id": id.String(), "session": r.ID, "turn": r.Place(), "answers": answers, "since": since, "at": at, "cause": nil,
	}, nil
}
