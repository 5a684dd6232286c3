package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/session"
)

// row is a session joined with its person.
type row struct {
	ID          string
	OrgID       string
	ProfileID   string
	Mode        string
	StateToken  string
	NextStepID  *string
	Status      string
	Reason      string
	Paused      bool
	Turn        int
	Detours     int
	CopyVersion string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Phone       string
	FirstName   string
	Locale      string
	Hold        bool
	HoldVersion int64
	TimeZone    string
	QuietUntil  *string // null when the organisation has no quiet hours
	QuietFrom   *string
}

const sqlSessionColumns = `
select s.id, s.org_id, s.profile_id, s.mode, s.state_token, s.next_step_id, s.status, s.status_reason as reason,
       s.paused_at is not null as paused, s.turn, s.detours, s.copy_version, s.created_at, s.updated_at,
       p.phone, p.first_name, p.locale, p.hold, p.hold_version, p.time_zone,
       case when o.quiet_hours then o.quiet_until end as quiet_until, case when o.quiet_hours then o.quiet_from end as quiet_from`

const sqlSessionTables = `
from conversation_sessions s join profiles p on p.id = s.profile_id left join organisation_settings o on o.org_id = s.org_id
`

const sqlSession = sqlSessionColumns + sqlSessionTables

func (r row) view() dispatch.View {
	v := dispatch.View{
		Session: session.Record{
			ID: r.ID, OrgID: r.OrgID, ProfileID: r.ProfileID, Mode: session.Mode(r.Mode), Token: session.Token(r.StateToken),
			Status: session.Status(r.Status), Reason: r.Reason, Paused: r.Paused, Turn: r.Turn, Detours: r.Detours,
			CopyVersion: r.CopyVersion, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Quiet: r.quiet(),
		},
		Phone: r.Phone, FirstName: r.FirstName, Locale: r.Locale, Hold: r.Hold, HoldVersion: r.HoldVersion,
	}
	if r.NextStepID != nil {
		v.Session.NextStep = session.StepID(*r.NextStepID)
	}
	return v
}

func collectView(rows pgx.Rows, err error) (dispatch.View, error) {
	if err != nil {
		return dispatch.View{}, fmt.Errorf("load session: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[row])
	if errors.Is(err, pgx.ErrNoRows) {
		return dispatch.View{}, dispatch.ErrNoSession
	}
	if err != nil {
		return dispatch.View{}, fmt.Errorf("load session: %w", err)
	}
	return r.view(), nil
}

// LoadSession reads a session, its person and the hold in one statement; dispatch.ErrNoSession when there is none.
func (s *Store) LoadSession(ctx context.Context, id string) (dispatch.View, error) {
	rows, err := s.pool.Query(ctx, sqlSession+`where s.id = $1`, id)
	return collectView(rows, err)
}

const sqlStepDueAt = `
select due_at from step_alarms where session_id = $1 and step_id = $2 and cause = 'due' order by generation desc limit 1`

// StepDueAt is when a step was due by the step before, which is the flow's delay after Twilio took that one's text; zero when no alarm
// was set for that.
func (s *Store) StepDueAt(ctx context.Context, sessionID string, step session.StepID) (time.Time, error) {
	return s.dueAt(ctx, sqlStepDueAt, sessionID, step)
}

func (s *Store) dueAt(ctx context.Context, sql, sessionID string, step session.StepID) (due time.Time, err error) {
	err = s.pool.QueryRow(ctx, sql, sessionID, string(step)).Scan(&due)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read when a step was due: %w", err)
	}
	return due, nil
}

const sqlNextDueAt = `
select due_at from step_alarms where session_id = $1 and step_id = $2 and cause <> 'delivery' order by generation desc limit 1`

// NextDueAt is when a step is due by now, by its newest alarm; zero when it has none. Alarms that only look again at a receipt do not
// make it due later.
func (s *Store) NextDueAt(ctx context.Context, sessionID string, step session.StepID) (time.Time, error) {
	return s.dueAt(ctx, sqlNextDueAt, sessionID, step)
}

const sqlConversation = sqlSession + `
where p.org_id = $1 and p.phone = $2 order by s.status = 'active' desc, s.id desc limit 1`

// LoadConversation reads the open session of the person with this phone, or else the newest, whatever its status: one that
// was resumed may be older than another that was closed. dispatch.ErrNoSession when the organisation does not know the
// person or they have no session.
func (s *Store) LoadConversation(ctx context.Context, orgID, phone string) (dispatch.View, error) {
	rows, err := s.pool.Query(ctx, sqlConversation, orgID, phone)
	return collectView(rows, err)
}

const sqlConversationAt = sqlSession + `
where p.org_id = $1 and p.phone = $2 and s.created_at <= $3 order by s.status = 'active' desc, s.id desc limit 1`

// ConversationAt is LoadConversation of the sessions that there were at an instant.
func (s *Store) ConversationAt(ctx context.Context, orgID, phone string, at time.Time) (dispatch.View, error) {
	rows, err := s.pool.Query(ctx, sqlConversationAt, orgID, phone, at)
	return collectView(rows, err)
}

const sqlLastStepAt = `
select max(coalesce(asked_at, at)) from session_transitions where session_id = $1 and kind = 'sent' and trigger = 'step'`

// LastStepAt is since when a reply may answer the newest scheduled message of a session; zero when none was taken.
func (s *Store) LastStepAt(ctx context.Context, sessionID string) (time.Time, error) {
	return s.lastSaid(ctx, sqlLastStepAt, sessionID)
}

const sqlLastTextAt = `select max(coalesce(asked_at, at)) from session_transitions where session_id = $1 and kind = 'sent'`

// LastTextAt is since when a reply may answer the newest text of a session, of whatever kind; zero when none was taken.
func (s *Store) LastTextAt(ctx context.Context, sessionID string) (time.Time, error) {
	return s.lastSaid(ctx, sqlLastTextAt, sessionID)
}

func (s *Store) lastSaid(ctx context.Context, sql, sessionID string) (time.Time, error) {
	var at *time.Time
	if err := s.pool.QueryRow(ctx, sql, sessionID).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("read the last text of a session: %w", err)
	}
	if at == nil {
		return time.Time{}, nil
	}
	return *at, nil
}

const sqlMove = `
update conversation_sessions
set state_token = @to, next_step_id = nullif(@next, ''), mode = @mode, status = @status, status_reason = @reason,
    paused_at = case when @paused then coalesce(paused_at, @at::timestamptz) end, turn = turn + 1,
    detours = detours + @detour::int, parked_job_id = case when @parked then nullif(@job, '')::uuid end, updated_at = @at,
    step_due_at = coalesce(@due, step_due_at)
where id = @id and status = @was and turn = @turn and state_token = @from and next_step_id is not distinct from nullif(@step, '')`

const sqlTimeline = `
insert into session_transitions
    (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, message_id, detail, asked_at)
values (@session, @at, @kind, @from, @to, @trigger, @step, nullif(@message, '')::uuid, @detail, @asked)`

// Move performs a guarded change and everything that follows from it in one transaction. dispatch.ErrConflict when the
// session no longer stands where the move saw it, jobs.ErrFenced when the job that causes it was taken over; then
// nothing has happened.
func (s *Store) Move(ctx context.Context, m session.Move, cause *dispatch.Cause) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := move(ctx, tx, m, cause); err != nil {
			return err
		}
		if m.Alarm != nil {
			if err := insertAlarm(ctx, tx, *m.Alarm, m.At); err != nil {
				return err
			}
		}
		if !m.AnswerHeldSince.IsZero() {
			if err := answerHeld(ctx, tx, m.From, m.From.Place()+1, m.AnswerHeldSince, m.At); err != nil {
				return err
			}
		}
		return finishCause(ctx, tx, cause, m.At)
	})
}

// move changes the session and tells its timeline. Parking and resuming are detours; a parked session keeps the job that was
// under way, for whoever resumes it.
func move(ctx context.Context, tx pgx.Tx, m session.Move, cause *dispatch.Cause) error {
	detour, job := 0, ""
	var due *time.Time // written here, so that the alarm's trigger has nothing left to do
	if m.Alarm != nil {
		due = &m.Alarm.DueAt
	}
	if m.From.Status.Parked() != m.Status.Parked() && m.Status != session.Stopped {
		detour = 1
	}
	if cause != nil && !m.Settled {
		job = cause.Job.ID
	}
	tag, err := tx.Exec(ctx, sqlMove, pgx.NamedArgs{
		"id": m.From.ID, "was": string(m.From.Status), "turn": m.From.Turn, "from": string(m.From.Token), "step": string(m.From.NextStep),
		"to": string(m.Token), "next": string(m.NextStep), "mode": string(m.Mode), "status": string(m.Status),
		"reason": m.Reason, "paused": m.Paused, "detour": detour, "parked": m.Status.Parked(), "job": job, "at": m.At, "due": due,
	})
	if err != nil {
		return fmt.Errorf("move session: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return dispatch.ErrConflict
	}
	return writeTimeline(ctx, tx, m.From.ID, m.Entries)
}

// Note writes timeline entries without changing the session, and completes the job that caused them; jobs.ErrFenced.
func (s *Store) Note(ctx context.Context, sessionID string, entries []session.Entry, cause *dispatch.Cause, at time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := writeTimeline(ctx, tx, sessionID, entries); err != nil {
			return err
		}
		return finishCause(ctx, tx, cause, at)
	})
}

// finishCause ends the job that a change answers, inside the change's transaction.
func finishCause(ctx context.Context, tx pgx.Tx, cause *dispatch.Cause, at time.Time) error {
	if cause == nil {
		return nil
	}
	if cause.Cancelled {
		_, err := inTransactions.Cancel(ctx, tx, cause.Job.OrgID, cause.Job.ID, at)
		return err
	}
	end := jobs.Finish{Job: cause.Job, Status: jobs.StatusCompleted, Attempts: cause.Job.Attempts, At: at}
	if cause.Failure != "" {
		end.Status, end.Attempts, end.Message = jobs.StatusFailed, cause.Job.Attempts+1, cause.Failure
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
		batch.Queue(sqlTimeline, pgx.NamedArgs{
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
