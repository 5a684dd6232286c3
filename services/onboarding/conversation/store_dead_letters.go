package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

// DeadLetter is an alarm that QStash gave up.
type DeadLetter struct {
	ID              string // UUIDv7; set when it is kept
	SourceMessageID string
	DLQID           string
	SessionID       string // empty when the payload cannot be read, or names no known session
	StepID          string
	Payload         []byte
	Status          int
	Response        []byte
	Retried         int
	At              time.Time
	ReplayedAt      time.Time // zero when it never was
	HandledAt       time.Time // when its step was over without a replay; zero when it was not
}

// LetterOpen is the condition of a dead letter, d, that still asks for an operator; as the index dead_letters_unhandled says it.
// The move of a session that leaves the step behind, or ends, handles what is open of it. Who marks a dead letter has locked its session
// before.
const LetterOpen = `d.replayed_at is null and d.handled_at is null`

// sqlDeadLetter locks the session, so that a move at the same moment either finds the dead letter or is found here.
const sqlDeadLetter = `
with named as materialized (
    select id, org_id, next_step_id, status from conversation_sessions where id = nullif(@session, '')::uuid for share
)
insert into dead_letters
    (id, org_id, source_message_id, dlq_id, session_id, step_id, payload, status, response, retried, created_at, handled_at)
select @id, s.org_id, @source, @dlq, s.id, @step, coalesce(@payload::bytea, ''), @status, coalesce(@response::bytea, ''), @retried, @at,
       case when s.next_step_id is distinct from @step and s.id is not null or s.status in ('stopped', 'closed') then @at::timestamptz end
from (values (1)) always left join named s on true
on conflict (source_message_id) do nothing
returning session_id::text`

// AddDeadLetter keeps a dead letter, with an entry in its session's timeline; the same one twice changes nothing.
func (s *Store) AddDeadLetter(ctx context.Context, d DeadLetter) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("dead letter id: %w", err)
	}
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var sessionID *string
		err := tx.QueryRow(ctx, sqlDeadLetter, postgres.Args{
			"id": id.String(), "source": d.SourceMessageID, "dlq": d.DLQID, "session": d.SessionID, "step": d.StepID,
			"payload": d.Payload, "status": d.Status, "response": d.Response, "retried": d.Retried, "at": d.At,
		}).Scan(&sessionID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("keep dead letter: %w", err)
		}
		if sessionID == nil {
			return nil
		}
		return writeTimeline(ctx, tx, *sessionID, []session.Entry{{
			At: d.At, Kind: session.KindFailed, Trigger: session.TriggerQStash, Step: session.StepID(d.StepID),
			Detail: fmt.Sprintf("QStash gave the alarm up after %d retries; the last answer was %d; see dead letter %s", d.Retried, d.Status, id),
		}})
	})
}

// DeadLetterFilter narrows a list of dead letters. Empty fields do not.
type DeadLetterFilter struct {
	Scope     Scope
	SessionID string
	Open      bool   // only those that were neither replayed nor handled
	Before    string // only dead letters older than this id
	Limit     int
}

const whereScope = `(d.org_id = @org_id or @unowned and d.org_id is null)`

const sqlDeadLetters = `
select d.id, d.source_message_id, d.dlq_id, coalesce(d.session_id::text, '') as session_id, d.step_id, d.payload, d.status,
       d.response, d.retried, d.created_at, d.replayed_at, d.handled_at
from dead_letters d
where ` + whereScope

const (
	sqlListDeadLetters = sqlDeadLetters + `
  and (@session = '' or d.session_id = nullif(@session, '')::uuid)
  and (@before = '' or d.id < nullif(@before, '')::uuid)`
	sqlOnlyOpen          = ` and ` + LetterOpen
	sqlNewestDeadLetters = ` order by d.id desc limit @limit`
)

// DeadLetters lists dead letters, newest first.
func (s *Store) DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetter, error) {
	sql := sqlListDeadLetters
	if f.Open {
		sql += sqlOnlyOpen
	}
	found, err := postgres.AllInOrder(ctx, s.pool, sql+sqlNewestDeadLetters, postgres.Args{
		"org_id": f.Scope.OrgID, "unowned": f.Scope.Unowned, "session": f.SessionID, "before": f.Before, "limit": f.Limit,
	}, readDeadLetter)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return found, nil
}

func readDeadLetter(r pgx.CollectableRow) (DeadLetter, error) {
	found, err := pgx.RowToStructByName[struct {
		ID              string
		SourceMessageID string
		DlqID           string
		SessionID       string
		StepID          string
		Payload         []byte
		Status          int
		Response        []byte
		Retried         int
		CreatedAt       time.Time
		ReplayedAt      *time.Time
		HandledAt       *time.Time
	}](r)
	d := DeadLetter{
		ID: found.ID, SourceMessageID: found.SourceMessageID, DLQID: found.DlqID, SessionID: found.SessionID, StepID: found.StepID,
		Payload: found.Payload, Status: found.Status, Response: found.Response, Retried: found.Retried, At: found.CreatedAt,
		ReplayedAt: postgres.TimeOf(found.ReplayedAt), HandledAt: postgres.TimeOf(found.HandledAt),
	}
	return d, err
}

const (
	sqlOneDeadLetter      = sqlDeadLetters + ` and d.id = @id`
	sqlDeadLetterReplayed = `update dead_letters set replayed_at = @at, replays = replays + 1 where id = @id`
)

// sqlDeadLetterHandled marks a dead letter that no replay can do anything for: it names no known session, or its step is over.
const sqlDeadLetterHandled = `
update dead_letters d set handled_at = @at
where d.id = @id and ` + LetterOpen + ` and not exists (
    select from conversation_sessions s
    where s.id = d.session_id and s.next_step_id = d.step_id and s.status not in ('stopped', 'closed'))`

// ReplayDeadLetter sets the alarm of a step again that QStash gave up, if its session still waits for that step, and makes
// the session active again if it is stuck there; in one transaction. A letter of a step that is over is handled. Errors:
// ErrNoDeadLetter, ErrOtherOpen.
func (s *Store) ReplayDeadLetter(ctx context.Context, within Scope, id string, at time.Time) (Replayed, error) {
	var out Replayed
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlOneDeadLetter, postgres.Args{"org_id": within.OrgID, "unowned": within.Unowned, "id": id})
		if err != nil {
			return fmt.Errorf("read dead letter: %w", err)
		}
		d, err := pgx.CollectExactlyOneRow(rows, readDeadLetter)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoDeadLetter
		}
		if err != nil {
			return fmt.Errorf("read dead letter: %w", err)
		}
		if d.SessionID == "" { // its payload could not be read, or names no known session
			out = Replayed{Skip: session.SkipSessionNotFound}
			_, err = tx.Exec(ctx, sqlDeadLetterHandled, postgres.Args{"id": id, "at": at})
			return err
		}
		var payload session.StepPayload // which was read when the letter was kept: else it had no session
		if err := json.Unmarshal(d.Payload, &payload); err != nil {
			return fmt.Errorf("dead letter %s has a session but no payload: %w", id, err)
		}
		if err := lockPersonOf(ctx, tx, within.OrgID, d.SessionID); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, sqlLockSession, d.SessionID, within.OrgID)
		view, err := s.collectView(rows, err)
		if err != nil {
			return err
		}
		if out, err = replay(ctx, tx, view.Session, view.Hold, payload, at); err != nil {
			return err
		}
		outcome := sqlDeadLetterHandled
		if out.AlarmSet {
			outcome = sqlDeadLetterReplayed
		}
		_, err = tx.Exec(ctx, outcome, postgres.Args{"id": id, "at": at})
		return err
	})
	return out, err
}

// replay sets the alarm of the step of a payload in a session that is locked, if it may.
func replay(ctx context.Context, tx pgx.Tx, r session.Record, held bool, p session.StepPayload, at time.Time) (Replayed, error) {
	ok, parked, reason := session.MayReplay(r.ProfileID, r.Snapshot(held), p)
	if ok && parked && session.WaitsForTicket(r, "") { // who answers the person has it go on
		ok, reason = false, session.SkipSessionInactive
	}
	if !ok {
		return Replayed{Skip: reason, Session: r}, nil
	}
	if err := writeTimeline(ctx, tx, r.ID, []session.Entry{{
		At: at, Kind: session.KindReplayed, Trigger: session.TriggerOperator, Step: r.NextStep,
	}}); err != nil {
		return Replayed{}, err
	}
	if !parked {
		return Replayed{AlarmSet: true, Session: r}, setAgain(ctx, tx, r, session.CauseReplayed, at)
	}
	r, err := resume(ctx, tx, r, resuming{Cause: session.CauseReplayed, By: session.TriggerOperator, At: at})
	if err == nil && r.Status != session.Active { // the person has a ticket
		return Replayed{Skip: session.SkipSessionInactive, Session: r}, nil
	}
	return Replayed{AlarmSet: true, Session: r}, err
}
