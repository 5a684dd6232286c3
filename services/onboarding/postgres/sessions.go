package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

const sqlSessionColumns = `
select s.id, s.org_id, s.profile_id, s.mode, s.state_token, coalesce(s.next_step_id, '') as next_step_id, s.status, s.status_reason,
       s.paused_at is not null as paused, s.turn, s.detours, s.copy_version, s.created_at, s.updated_at,
       p.phone, p.first_name, p.locale, p.hold, p.hold_version, p.time_zone, coalesce(o.time_zone, 'UTC') as usual_zone,
       o.org_id is not null as decided,
       case when o.quiet_hours then o.quiet_until end as quiet_until, case when o.quiet_hours then o.quiet_from end as quiet_from,
       ` + sqlPausedOf + `s.org_id) as scheduling_paused`

const sqlSessionTables = `
from conversation_sessions s join profiles p on p.id = s.profile_id left join organisation_settings o on o.org_id = s.org_id
`

const sqlSession = sqlSessionColumns + sqlSessionTables

// scanView reads the columns of sqlSession, and what stands behind them.
func (s *Store) scanView(r pgx.CollectableRow, further ...any) (conversation.View, error) {
	var v conversation.View
	var zone, usual string
	var decided bool          // whether the organisation has settings
	var opens, closes *string // null when it has no quiet hours
	at := &v.Session
	err := r.Scan(append([]any{
		&at.ID, &at.OrgID, &at.ProfileID, &at.Mode, &at.Token, &at.NextStep, &at.Status, &at.Reason,
		&at.Paused, &at.Turn, &at.Detours, &at.CopyVersion, &at.CreatedAt, &at.UpdatedAt,
		&v.Phone, &v.FirstName, &v.Locale, &v.Hold, &v.HoldVersion, &zone, &usual, &decided, &opens, &closes, &v.SchedulingPaused,
	}, further...)...)
	at.Quiet = s.quietHours(decided, opens, closes, zonesOf(zone, v.Phone, usual))
	return v, err
}

func (s *Store) collectView(rows pgx.Rows, err error) (conversation.View, error) {
	if err != nil {
		return conversation.View{}, fmt.Errorf("load session: %w", err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) (conversation.View, error) { return s.scanView(r) })
	if errors.Is(err, pgx.ErrNoRows) {
		return conversation.View{}, conversation.ErrNoSession
	}
	if err != nil {
		return conversation.View{}, fmt.Errorf("load session: %w", err)
	}
	return v, nil
}

// LoadSession reads a session, its person and the hold in one statement; conversation.ErrNoSession when there is none.
func (s *Store) LoadSession(ctx context.Context, id string) (conversation.View, error) {
	rows, err := s.pool.Query(ctx, sqlSession+`where s.id = $1`, id)
	return s.collectView(rows, err)
}

// sqlDueNow is when the due step of a session, s, comes, by its newest alarm. Alarms that only read a receipt again do not make it due
// later.
const sqlDueNow = `select a.due_at from step_alarms a where a.session_id = s.id and a.step_id = s.next_step_id and a.cause <> 'delivery'
        order by a.generation desc limit 1`

// sqlStep adds when the due step was to be sent: by the step before it, and by its newest alarm.
const sqlStep = `
with loaded as (` + sqlSessionColumns + `,
       (select a.due_at from step_alarms a where a.session_id = s.id and a.step_id = s.next_step_id and a.cause = 'due'
        order by a.generation desc limit 1) as due_first,
       (` + sqlDueNow + `) as due_now` + sqlSessionTables + `where s.id = any(@id::uuid[])
)
select u.n, loaded.* from unnest(@id::uuid[]) with ordinality u (id, n) join loaded using (id)`

// LoadStep is LoadSession, with when the step that is due was to be sent.
func (s *Store) LoadStep(ctx context.Context, id string) (conversation.View, conversation.StepDue, error) {
	var view conversation.View
	var first, now *time.Time
	var found int
	err := s.hot.Do(ctx, id, postgres.Statement{
		SQL: sqlStep, Args: postgres.Args{"id": id}, Rows: &found, Read: func(row pgx.CollectableRow) (err error) {
			view, err = s.scanView(row, &first, &now)
			return err
		},
	})
	switch {
	case err != nil:
		return conversation.View{}, conversation.StepDue{}, fmt.Errorf("load step: %w", err)
	case found == 0:
		return conversation.View{}, conversation.StepDue{}, conversation.ErrNoSession
	}
	return view, conversation.StepDue{First: orZero(first), Now: orZero(now)}, nil
}

const sqlConversation = `
select u.n, v.* from unnest(@org::uuid[], @phone::text[]) with ordinality u (org, phone, n) cross join lateral (` + sqlSession + `
    where p.org_id = u.org and p.phone = u.phone order by s.status = 'active' desc, s.id desc limit 1) v`

// Conversation reads the open session of the person with this phone, or else the newest, whatever its status: one that
// was resumed may be older than another that was closed. Of a person who has none the profile is there, and nothing is for a phone that
// the organisation does not know.
func (s *Store) Conversation(ctx context.Context, orgID, phone string) (conversation.View, error) {
	var view conversation.View
	var found int
	err := s.hot.Do(ctx, phone, postgres.Statement{
		SQL: sqlConversation, Args: postgres.Args{"org": orgID, "phone": phone}, Rows: &found, Read: func(row pgx.CollectableRow) (err error) {
			view, err = s.scanView(row)
			return err
		},
	})
	switch {
	case err != nil:
		return conversation.View{}, fmt.Errorf("load session: %w", err)
	case found > 0:
		return view, nil
	}
	view, err = s.personOnly(ctx, sqlPersonByPhoneOnly, orgID, phone)
	if errors.Is(err, pgx.ErrNoRows) {
		return conversation.View{Session: session.Record{OrgID: orgID}}, nil
	}
	return view, err
}

const sqlConversationOf = sqlSession + `
where p.org_id = $1 and p.id = $2 order by s.status = 'active' desc, s.id desc limit 1`

// ConversationOf is Conversation of a profile; conversation.ErrNoProfile.
func (s *Store) ConversationOf(ctx context.Context, orgID, profileID string) (conversation.View, error) {
	rows, err := s.pool.Query(ctx, sqlConversationOf, orgID, profileID)
	view, err := s.collectView(rows, err)
	if isNoSession(err) {
		view, err = s.personOnly(ctx, sqlPersonByIDOnly, orgID, profileID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return conversation.View{}, conversation.ErrNoProfile
	}
	return view, err
}

const (
	sqlPersonOnly        = `select id, phone, first_name, locale, hold, hold_version from profiles where org_id = $1 and `
	sqlPersonByPhoneOnly = sqlPersonOnly + `phone = $2`
	sqlPersonByIDOnly    = sqlPersonOnly + `id = $2`
)

// personOnly is a person without a session; pgx.ErrNoRows.
func (s *Store) personOnly(ctx context.Context, sqlPerson, orgID, of string) (conversation.View, error) {
	view := conversation.View{Session: session.Record{OrgID: orgID}}
	err := s.pool.QueryRow(ctx, sqlPerson, orgID, of).Scan(
		&view.Session.ProfileID, &view.Phone, &view.FirstName, &view.Locale, &view.Hold, &view.HoldVersion)
	if err != nil {
		return conversation.View{}, fmt.Errorf("read a person: %w", err)
	}
	return view, nil
}

const sqlConversationAt = sqlSession + `
where p.org_id = $1 and p.phone = $2 and s.created_at <= $3 order by s.status = 'active' desc, s.id desc limit 1`

// ConversationAt is LoadConversation of the sessions that there were at an instant.
func (s *Store) ConversationAt(ctx context.Context, orgID, phone string, at time.Time) (conversation.View, error) {
	rows, err := s.pool.Query(ctx, sqlConversationAt, orgID, phone, at)
	return s.collectView(rows, err)
}

const sqlLastStepAt = `
select max(coalesce(asked_at, at)) from session_transitions where session_id = $1 and kind = 'sent' and trigger = 'step'`

// LastStepAt is since when a reply may answer the newest scheduled message of a session; zero when none was taken.
func (s *Store) LastStepAt(ctx context.Context, sessionID string) (time.Time, error) {
	return s.lastSaid(ctx, sqlLastStepAt, sessionID)
}

const sqlLastMessageAt = `select max(coalesce(asked_at, at)) from session_transitions where session_id = $1 and kind = 'sent'`

// LastMessageAt is since when a reply may answer the newest message of a session, of whatever kind; zero when none was taken.
func (s *Store) LastMessageAt(ctx context.Context, sessionID string) (time.Time, error) {
	return s.lastSaid(ctx, sqlLastMessageAt, sessionID)
}

func (s *Store) lastSaid(ctx context.Context, sql, sessionID string) (time.Time, error) {
	var at *time.Time
	if err := s.pool.QueryRow(ctx, sql, sessionID).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("read the last message of a session: %w", err)
	}
	return orZero(at), nil
}

// sqlMove changes sessions that stand where their moves saw them, and only of those adds to the timeline and writes the alarm.
const sqlMove = `
with moved as (` + sqlMoved + `
    returning u.n, s.id, s.next_step_id, s.status, u.entries, u.at
), ` + sqlFollows + `
select n from moved`

// sqlMoveByJob is sqlMove for jobs whose leases are held, and completes them with it. It tells of each job that is, whether it moved.
const sqlMoveByJob = `
with owned as materialized (
    select c.n, j.id from unnest(@cause::uuid[], @cause_lease::uuid[]) with ordinality c (job, lease, n)
    join webhook_jobs j on j.id = c.job and j.lease_token = c.lease where j.id = any(@cause::uuid[]) for update of j
), moved as (` + sqlMoved + `
      and exists (select from owned o where o.n = u.n)
    returning u.n, s.id, s.next_step_id, s.status, u.entries, u.at
), completed as (
    update webhook_jobs j set ` + queue.SetCompleted + `
    from (select o.id, m.at from moved m join owned o on o.n = m.n) done
    where j.id = done.id and j.id = any(@cause::uuid[])
), ` + sqlFollows + `
select o.n, m.n is not null from owned o left join moved m on m.n = o.n`

const sqlMoved = `
    update conversation_sessions s
    set state_token = u.becomes, next_step_id = nullif(u.next, ''), mode = u.mode, status = u.status, status_reason = u.reason,
        paused_at = case when u.paused then coalesce(s.paused_at, u.at) end, turn = s.turn + 1, detours = s.detours + u.detour,
        parked_job_id = case when u.parked then nullif(u.job, '')::uuid end, updated_at = u.at, step_due_at = coalesce(u.due, s.step_due_at)
    from unnest(@id::uuid[], @was::text[], @turn::int[], @from::text[], @step::text[], @to::text[], @next::text[], @mode::text[],
        @status::text[], @reason::text[], @paused::boolean[], @detour::int[], @parked::boolean[], @job::text[], @at::timestamptz[],
        @due::timestamptz[], @entries::jsonb[]) with ordinality
        as u (id, was, turn, came, step, becomes, next, mode, status, reason, paused, detour, parked, job, at, due, entries, n)
    where s.id = u.id and s.id = any(@id::uuid[]) and s.status = u.was and s.turn = u.turn and s.state_token = u.came
      and s.next_step_id is not distinct from nullif(u.step, '')`

// sqlFollows is what follows for those that were moved.
const sqlFollows = `noted as (
    insert into session_transitions
        (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, message_id, detail, asked_at)
    select m.id, e.at, e.kind, e.came, e.becomes, e.trigger, e.step, nullif(e.message, '')::uuid, e.detail, e.asked
    from moved m cross join rows from (jsonb_to_recordset(m.entries) as (at timestamptz, kind text, came text, becomes text, trigger text,
        step text, message text, detail text, asked timestamptz)) with ordinality
        as e (at, kind, came, becomes, trigger, step, message, detail, asked, n)
    order by m.n, e.n
), handled as (
    update dead_letters d set handled_at = m.at from moved m
    where d.session_id = m.id and d.session_id = any(@id::uuid[]) and ` + letterOpen + `
      and (m.next_step_id is distinct from d.step_id or m.status in ('stopped', 'closed'))
), alarmed as (` + sqlAlarmOfMove + `)`

const sqlTimeline = `
insert into session_transitions
    (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, message_id, detail, asked_at)
values (@session, @at, @kind, @from, @to, @trigger, @step, nullif(@message, '')::uuid, @detail, @asked)`

// Move performs a guarded change and everything that follows from it in one transaction. conversation.ErrConflict when the
// session no longer stands where the move saw it, queue.ErrFenced when the job that causes it was taken over; then
// nothing has happened.
func (s *Store) Move(ctx context.Context, m session.Move, cause *conversation.Cause) error {
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
	statements := []postgres.Statement{{SQL: sqlMove, Args: moveArgs(m, nil), Rows: &moved}}
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
		return conversation.ErrConflict
	}
	return nil
}

// moveByJob is Move that completes the job that causes it, in a transaction that others may share.
func (s *Store) moveByJob(ctx context.Context, m session.Move, cause *conversation.Cause) error {
	var owned int
	var moved bool
	args := moveArgs(m, cause)
	args["cause"], args["cause_lease"] = cause.Job.ID, cause.Job.LeaseToken
	statements := []postgres.Statement{{
		SQL: sqlMoveByJob, Args: args, Rows: &owned, Read: func(row pgx.CollectableRow) error { return row.Scan(&moved) },
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
		return conversation.ErrConflict
	}
	return nil
}

// move changes the session, adds to its timeline and writes its alarm.
func move(ctx context.Context, tx pgx.Tx, m session.Move, cause *conversation.Cause) error {
	tag, err := tx.Exec(ctx, sqlMove, moveArgs(m, cause).Each())
	if err != nil {
		return fmt.Errorf("move session: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return conversation.ErrConflict
	}
	return nil
}

// moveArgs are the arguments of sqlMove. Parking and resuming are detours; a parked session keeps the job that was under way, for its
// resume.
func moveArgs(m session.Move, cause *conversation.Cause) postgres.Args {
	detour, job := 0, ""
	if m.From.Status.Parked() != m.Status.Parked() && m.Status != session.Stopped {
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
	alarmArgs(args, m.Alarm, m.At)
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

// Note writes the timeline of a session that still stands where it was read, and ends the job that causes it. conversation.ErrConflict,
// queue.ErrFenced; then nothing has happened.
func (s *Store) Note(ctx context.Context, at session.Record, entries []session.Entry, cause *conversation.Cause, now time.Time) error {
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
func finishCause(ctx context.Context, tx pgx.Tx, cause *conversation.Cause, at time.Time) error {
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
