package conversation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// sqlMove changes sessions that stand where their moves saw them, and only of those adds to the timeline and writes the alarm.
func sqlMove(rare bool) string {
	return `
with moved as (` + sqlMoved + `
    ` + sqlMovedRows + `
), ` + sqlFollows(rare) + `
select n from moved`
}

// sqlMoveByJob is sqlMove for jobs with held leases, and completes them with it. It tells for each such job whether its session moved.
func sqlMoveByJob(rare bool) string {
	return `
with owned as materialized (
    select c.n, j.id from unnest(@cause::uuid[], @cause_lease::uuid[]) with ordinality c (job, lease, n)
    join webhook_jobs j on j.id = c.job and j.lease_token = c.lease where j.id = any(@cause::uuid[]) for update of j
), moved as (` + sqlMoved + `
      and exists (select from owned o where o.n = u.n)
    ` + sqlMovedRows + `
), completed as (
    update webhook_jobs j set ` + queue.SetCompleted + `
    from (select (@cause::uuid[])[m.n] as id, m.at from moved m) done
    where j.id = done.id and j.id = any(@cause::uuid[])
), ` + sqlFollows(rare) + `
select o.n, m.n is not null from owned o left join moved m on m.n = o.n`
}

// The statements of a move: each step runs one, so they are put together once.
var (
	sqlMoves      = map[bool]string{false: sqlMove(false), true: sqlMove(true)}
	sqlMovesByJob = map[bool]string{false: sqlMoveByJob(false), true: sqlMoveByJob(true)}
)

const sqlMoved = `
    update conversation_sessions s
    set state_token = (@to::text[])[u.n], next_step_id = nullif((@next::text[])[u.n], ''), mode = (@mode::text[])[u.n],
        status = (@status::text[])[u.n], status_reason = (@reason::text[])[u.n],
        paused_at = case when (@paused::boolean[])[u.n] then coalesce(s.paused_at, (@at::timestamptz[])[u.n]) end, turn = s.turn + 1,
        detours = s.detours + (@detour::int[])[u.n],
        parked_job_id = case when (@parked::boolean[])[u.n] then nullif((@job::text[])[u.n], '')::uuid end,
        updated_at = (@at::timestamptz[])[u.n], step_due_at = coalesce((@due::timestamptz[])[u.n], s.step_due_at),
        flow_state = coalesce((@position::jsonb[])[u.n], s.flow_state)
    from unnest(@id::uuid[]) with ordinality as u (id, n)
    where s.id = u.id and s.id = any(@id::uuid[]) and s.status = (@was::text[])[u.n] and s.turn = (@turn::int[])[u.n]
      and s.state_token = (@from::text[])[u.n] and s.next_step_id is not distinct from nullif((@step::text[])[u.n], '')`

const sqlMovedRows = `returning u.n, s.id, s.org_id, s.profile_id, s.next_step_id, s.status, s.updated_at as at`

// sqlFollows writes what follows from the moves that were made. Each part of a statement costs time, so the rare ones have their own text.
func sqlFollows(rare bool) string {
	follows := []string{sqlNotesOfMove, sqlLettersOfMove, `alarmed as (` + sqlAlarmOfMove + `)`, `rang as (` + sqlRangOfMove + `)`}
	if rare {
		follows = append(follows, sqlFieldsOfMove, sqlFollowOfMove, `ticketed as (`+sqlTicketOfMove+`)`)
	}
	return strings.Join(follows, ", ")
}

// rare reports whether a move needs the rare parts: it learnt fields, starts another flow, or opens a ticket.
func rare(m session.Move) bool { return len(m.Learnt) > 0 || !m.FollowAt().IsZero() || m.Ticket != nil }

// The parts of what follows.
const (
	sqlNotesOfMove = `noted as (
    insert into session_transitions
        (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, message_id, detail, asked_at)
    select m.id, e.at, e.kind, e.came, e.becomes, e.trigger, e.step, nullif(e.message, '')::uuid, e.detail, e.asked
    from moved m cross join rows from (jsonb_to_recordset((@entries::jsonb[])[m.n]) as (at timestamptz, kind text, came text, becomes text,
        trigger text, step text, message text, detail text, asked timestamptz)) with ordinality
        as e (at, kind, came, becomes, trigger, step, message, detail, asked, n)
    order by m.n, e.n
)`
	// sqlLettersOfMove says LetterOpen in other words, so that the planner takes the index by session and does not read all open dead letters.
	sqlLettersOfMove = `handled as (
    update dead_letters d set handled_at = m.at from moved m
    where d.session_id = m.id and d.session_id = any(@id::uuid[]) and coalesce(d.replayed_at, d.handled_at) is null
      and (m.next_step_id is distinct from d.step_id or m.status in ('stopped', 'closed'))
)`
	sqlFieldsOfMove = `kept as (
    insert into profile_fields (profile_id, org_id, name, value, private, updated_at)
    select m.profile_id, m.org_id, f.name, f.value, f.private, m.at
    from moved m cross join jsonb_to_recordset((@learnt::jsonb[])[m.n]) as f (name text, value jsonb, private boolean)
    on conflict (profile_id, name) do update set value = excluded.value, private = excluded.private, updated_at = excluded.updated_at
)`
	sqlFollowOfMove = `queued as (
    insert into webhook_jobs
        (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
    select (@follow::uuid[])[m.n], m.org_id, (@follow_key::text[])[m.n], '` + SourceInternal + `', '` + EventFlow + `',
        (@follow_key::text[])[m.n], (@follow_payload::jsonb[])[m.n], 'pending', (@follow_due::timestamptz[])[m.n], m.at, m.at
    from moved m where (@follow::uuid[])[m.n] is not null
    returning pg_notify('` + ChannelJobs + `', '')
)`
)

const sqlTimeline = `
insert into session_transitions
    (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, message_id, detail, asked_at)
values (@session, @at, @kind, @from, @to, @trigger, @step, nullif(@message, '')::uuid, @detail, @asked)`

// Move performs a guarded change and everything that follows from it in one transaction. people.ErrConflict when the
// session no longer stands where the move saw it, queue.ErrFenced when the job that causes it was taken over; then
// nothing has happened.
func (s *Store) Move(ctx context.Context, m session.Move, cause *Cause) error {
	switch {
	case cause == nil:
		return s.step(ctx, m)
	case !cause.Cancelled && cause.Failure == "":
		return s.moveByJob(ctx, m, cause)
	}
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := move(ctx, tx, m, cause); err != nil {
			return err
		}
		if !m.AnswerHeldSince.IsZero() {
			if err := answerHeld(ctx, tx, m.From, m.From.Place()+1, m.AnswerHeldSince, m.At); err != nil {
				return err
			}
		}
		return finishCause(ctx, tx, cause, m.At)
	})
}

// step is Move without a job that causes it, as every step moves its session: in a transaction that those of other sessions may share.
func (s *Store) step(ctx context.Context, m session.Move) error {
	var moved int
	statements := []postgres.Statement{{SQL: sqlMoves[rare(m)], Args: moveArgs(m, nil), Rows: &moved}}
	if !m.AnswerHeldSince.IsZero() {
		held, err := answerHeldArgs(m.From, m.From.Place()+1, m.AnswerHeldSince, m.At)
		if err != nil {
			return err
		}
		statements = append(statements, postgres.Statement{SQL: sqlAnswerMoved, Args: held})
	}
	switch err := s.hot.Do(ctx, m.From.ID, statements...); {
	case err != nil:
		return fmt.Errorf("move session: %w", err)
	case moved == 0:
		return people.ErrConflict
	}
	return nil
}

// moveByJob is Move that completes the job that causes it, in a transaction that others may share.
func (s *Store) moveByJob(ctx context.Context, m session.Move, cause *Cause) error {
	var owned int
	var moved bool
	args := moveArgs(m, cause)
	args["cause"], args["cause_lease"] = cause.Job.ID, cause.Job.LeaseToken
	statements := []postgres.Statement{{
		SQL: sqlMovesByJob[rare(m)], Args: args, Rows: &owned, Read: func(row pgx.CollectableRow) error { return row.Scan(&moved) },
	}}
	if !m.AnswerHeldSince.IsZero() {
		held, err := answerHeldArgs(m.From, m.From.Place()+1, m.AnswerHeldSince, m.At)
		if err != nil {
			return err
		}
		held["cause"] = cause.Job.ID
		statements = append(statements, postgres.Statement{SQL: sqlAnswerMovedByJob, Args: held})
	}
	switch err := s.hot.Do(ctx, m.From.ID, statements...); {
	case err != nil:
		return fmt.Errorf("move session: %w", err)
	case owned == 0:
		return queue.ErrFenced
	case !moved:
		return people.ErrConflict
	}
	return nil
}

// move changes the session, adds to its timeline and writes its alarm.
func move(ctx context.Context, tx pgx.Tx, m session.Move, cause *Cause) error {
	tag, err := tx.Exec(ctx, sqlMoves[rare(m)], moveArgs(m, cause).Each())
	if err != nil {
		return fmt.Errorf("move session: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return people.ErrConflict
	}
	return nil
}

// moveArgs are the arguments of sqlMove. Parking, parking again and resuming are detours, but not a flow that hands over; a parked session
// keeps the job that was under way, for its resume.
func moveArgs(m session.Move, cause *Cause) postgres.Args {
	detour, job := 0, ""
	parks := m.From.Status.Parked() || m.Status.Parked() // or is resumed, or waits for something else by now
	if parks && m.Status != session.Stopped && m.Position.Phase == m.From.At.Phase && !m.Anew {
		detour = 1
	}
	if cause != nil && !m.Settled {
		job = cause.Job.ID
	}
	args := postgres.Args{
		"id": m.From.ID, "was": string(m.From.Status), "turn": m.From.Turn, "from": string(m.From.Token), "step": string(m.From.NextStep),
		"to": string(m.Token), "next": string(m.NextStep), "mode": string(m.Mode), "status": string(m.Status),
		"reason": m.Reason, "paused": m.Paused, "detour": detour, "parked": m.Status.Parked(), "job": job, "at": m.At,
	}
	alarmArgs(args, m)
	flowArgs(args, m)
	ticketArgs(args, m, cause)
	entries := make([]noted, len(m.Entries))
	for i, e := range m.Entries {
		entries[i] = noted{
			At: e.At, Kind: string(e.Kind), Came: string(e.From), Becomes: string(e.To), Trigger: string(e.Trigger), Step: string(e.Step),
			Message: e.MessageID, Detail: e.Detail,
		}
		if !e.AskedAt.IsZero() {
			entries[i].Asked = &e.AskedAt
		}
	}
	args["entries"] = entries
	return args
}

// flowArgs adds the arguments of what a flow does. The deployment's own conversation keeps its place by its token, and learns nothing.
func flowArgs(args postgres.Args, m session.Move) {
	for _, name := range []string{"position", "learnt", "follow", "follow_key", "follow_payload", "follow_due"} {
		args[name] = nil
	}
	if m.From.Flow != "" {
		args["position"] = m.Position
	}
	if len(m.Learnt) > 0 {
		args["learnt"] = m.Learnt
	}
	if due := m.FollowAt(); !due.IsZero() {
		place := m.From.Place() + 1
		args["follow"], args["follow_key"], args["follow_due"] = uuid.Must(uuid.NewV7()).String(), flowSubject(m.From.ID, place), due
		args["follow_payload"] = flowPayload{SessionID: m.From.ID, Place: place, Flow: m.Starts}
	}
}

// noted is a line of the timeline as sqlMove reads it.
type noted struct {
	At      time.Time  `json:"at"`
	Kind    string     `json:"kind"`
	Came    string     `json:"came"`
	Becomes string     `json:"becomes"`
	Trigger string     `json:"trigger"`
	Step    string     `json:"step"`
	Message string     `json:"message"`
	Detail  string     `json:"detail"`
	Asked   *time.Time `json:"asked"`
}

// Note writes the timeline of a session that still stands where it was read, and ends the job that causes it. people.ErrConflict,
// queue.ErrFenced; then nothing has happened.
func (s *Store) Note(ctx context.Context, at session.Record, entries []session.Entry, cause *Cause, now time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := still(ctx, tx, at); err != nil {
			return err
		}
		if err := writeTimeline(ctx, tx, at.ID, entries); err != nil {
			return err
		}
		return finishCause(ctx, tx, cause, now)
	})
}

// finishCause ends the job that a change answers, inside the change's transaction.
func finishCause(ctx context.Context, tx pgx.Tx, cause *Cause, at time.Time) error {
	if cause == nil {
		return nil
	}
	if cause.Cancelled {
		_, err := inTransactions.Cancel(ctx, tx, cause.Job.OrgID, cause.Job.ID, at)
		return err
	}
	end := queue.Finish{Job: cause.Job, Status: queue.StatusCompleted, Attempts: cause.Job.Attempts, At: at}
	if cause.Failure != "" {
		end.Status, end.Attempts, end.Message = queue.StatusFailed, cause.Job.Attempts+1, cause.Failure
	}
	return finishJob(ctx, tx, end)
}

func writeTimeline(ctx context.Context, tx pgx.Tx, sessionID string, entries []session.Entry) error {
	var batch pgx.Batch
	for _, e := range entries {
		var asked *time.Time
		if !e.AskedAt.IsZero() {
			asked = &e.AskedAt
		}
		batch.Queue(sqlTimeline, postgres.Args{
			"session": sessionID, "at": e.At, "kind": string(e.Kind), "from": string(e.From), "to": string(e.To),
			"trigger": string(e.Trigger), "step": string(e.Step), "message": e.MessageID, "detail": e.Detail, "asked": asked,
		})
	}
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("write timeline: %w", err)
	}
	return nil
}
