package tickets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

const answerColumns = `
select id::text, org_id::text, ticket_id::text, profile_id::text, idempotency_key, body,
    coalesce(saved_reply_id::text, '') as saved_reply_id, author, status, reason, explanation,
    retry_at, coalesce(message_id::text, '') as message_id, created_at, settled_at
from ticket_answers `

const (
	sqlAnswer      = answerColumns + `where org_id = $1 and id = $2`
	sqlAnswerByKey = answerColumns + `where org_id = $1 and idempotency_key = $2`
)

// Answer reads an answer; ErrNotFound.
func (s *Store) Answer(ctx context.Context, orgID, id string) (Answer, error) {
	return answer(ctx, s.pool, sqlAnswer, orgID, id)
}

// AnswerByKey reads the answer of a key; ErrNotFound.
func (s *Store) AnswerByKey(ctx context.Context, orgID, key string) (Answer, error) {
	return answer(ctx, s.pool, sqlAnswerByKey, orgID, key)
}

func answer(ctx context.Context, in querier, sql, orgID, of string) (Answer, error) {
	rows, err := in.Query(ctx, sql, orgID, of)
	if err != nil {
		return Answer{}, fmt.Errorf("read an answer: %w", err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Answer])
	if errors.Is(err, pgx.ErrNoRows) {
		return Answer{}, ErrNotFound
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read an answer: %w", err)
	}
	return a, nil
}

const sqlAnswersOf = `select count(*)::int from ticket_answers where profile_id = $1 and created_at > $2`

const sqlKeepAnswer = `
insert into ticket_answers (id, org_id, profile_id, ticket_id, idempotency_key, body, saved_reply_id, author, status, created_at)
values (@id, @org, @profile, @ticket, @key, @body, nullif(@reply, '')::uuid, @author, 'sending', @at)
on conflict (org_id, idempotency_key) do nothing`

// sqlTakeOver assigns a ticket that nobody has to the author of an answer.
const sqlTakeOver = `
update tickets set assignee = @author, status = 'assigned', assigned_at = @at where id = @ticket and status = 'open'`

// KeepAnswer stores an answer with the job that sends it, and the ticket that it belongs to, or returns the answer that its key has.
// people.ErrNoProfile, people.ErrConflict, erasure.ErrBegun, ErrKeyReused, ErrManyAnswers.
func (s *Store) KeepAnswer(ctx context.Context, a Answer, job queue.New) (kept Answer, duplicate bool, err error) {
	err = s.unlessOvertaken(ctx, func(tx pgx.Tx) error {
		duplicate = false
		kept, err = answer(ctx, tx, sqlAnswerByKey, a.OrgID, a.Key)
		switch {
		case err == nil:
			duplicate = true
			return sameAnswer(kept, a)
		case !errors.Is(err, ErrNotFound):
			return err
		}
		t, _, err := s.openIn(ctx, tx, Opening{ // which locks the person
			ID: newID(), OrgID: a.OrgID, ProfileID: a.ProfileID, Reason: session.ByOperator, Author: a.Author, At: a.CreatedAt,
		})
		if err != nil {
			return err
		}
		var written int
		if err := tx.QueryRow(ctx, sqlAnswersOf, a.ProfileID, a.CreatedAt.Add(-time.Hour)).Scan(&written); err != nil {
			return fmt.Errorf("count answers: %w", err)
		}
		if written >= MaxAnswersPerHour {
			return ErrManyAnswers
		}
		args := postgres.Args{
			"id": a.ID, "org": a.OrgID, "profile": a.ProfileID, "ticket": t.ID, "key": a.Key, "body": a.Body, "reply": a.SavedReplyID,
			"author": a.Author, "at": a.CreatedAt,
		}
		tag, err := tx.Exec(ctx, sqlKeepAnswer, args)
		if err != nil {
			return fmt.Errorf("keep an answer: %w", err)
		}
		if tag.RowsAffected() == 0 { // another call with the key has committed meanwhile
			duplicate = true
			if kept, err = answer(ctx, tx, sqlAnswerByKey, a.OrgID, a.Key); err != nil {
				return err
			}
			return sameAnswer(kept, a)
		}
		if _, err := tx.Exec(ctx, sqlTakeOver, args); err != nil {
			return fmt.Errorf("assign a ticket: %w", err)
		}
		kept = a
		kept.TicketID = t.ID
		return s.sessions.EnqueueIn(ctx, tx, job)
	})
	return kept, duplicate, err
}

// sameAnswer returns ErrKeyReused for an answer that is another one under the same key.
func sameAnswer(kept, a Answer) error {
	if kept.ProfileID != a.ProfileID || kept.SavedReplyID != a.SavedReplyID || a.SavedReplyID == "" && kept.Body != a.Body {
		return ErrKeyReused
	}
	return nil
}

const sqlRecipient = `
select p.phone, p.hold, p.hold_version, greatest(t.person_wrote_at, (
    select max(x.at) from conversation_sessions s join session_transitions x on x.session_id = s.id
    where s.profile_id = p.id and x.kind = 'replied' and x.message_id is not null)) as wrote_at, a.status <> 'sending' as settled
from ticket_answers a join profiles p on p.id = a.profile_id join tickets t on t.id = a.ticket_id where a.id = $1`

// Recipient reads the person of an answer as they are now; people.ErrNoProfile.
func (s *Store) Recipient(ctx context.Context, a Answer) (Recipient, error) {
	rows, err := s.pool.Query(ctx, sqlRecipient, a.ID)
	if err != nil {
		return Recipient{}, fmt.Errorf("read a recipient: %w", err)
	}
	to, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Recipient])
	if errors.Is(err, pgx.ErrNoRows) {
		return Recipient{}, people.ErrNoProfile
	}
	if err != nil {
		return Recipient{}, fmt.Errorf("read a recipient: %w", err)
	}
	return to, nil
}

// sqlSettle records what became known of an answer, once: only one that is still being sent changes. An answer that went out ends the
// person's wait, unless they have written since.
const sqlSettle = `
with settled as (
    update ticket_answers set status = @status, reason = @reason, explanation = @explanation, retry_at = @retry_at,
        message_id = coalesce(nullif(@message, '')::uuid, message_id), settled_at = case when @status <> 'sending' then @at::timestamptz end
    where id = @id and status = 'sending'
    returning ticket_id, message_id
), before as materialized (
    select t.id, t.first_answered_at, t.opened_at from tickets t join settled on settled.ticket_id = t.id
    where @status = 'sent' for update of t
), told as (
    update tickets t set first_answered_at = coalesce(t.first_answered_at, @at), answers = t.answers + 1, last_answer_at = @at,
        last_answer_message_id = settled.message_id,
        waits_since = case when t.status <> 'closed' and t.person_wrote_at > @written::timestamptz
            then coalesce(case when t.waits_since > @written then t.waits_since end, t.person_wrote_at) end
    from settled, before where t.id = before.id and settled.ticket_id = t.id
)
select b.first_answered_at is null, b.opened_at from before b`

// Settle records what became known of an answer, and returns whether it is the first that went out for its ticket, and since when that is
// open.
func (s *Store) Settle(ctx context.Context, e Settlement) (first bool, opened time.Time, err error) {
	err = s.pool.QueryRow(ctx, sqlSettle, postgres.Args{
		"id": e.Answer.ID, "status": string(e.Status), "reason": string(e.Reason), "explanation": e.Explanation,
		"retry_at": postgres.NullIfZero(e.RetryAt), "message": e.MessageID, "at": e.At, "written": e.Answer.CreatedAt,
	}).Scan(&first, &opened)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, time.Time{}, nil
	}
	if err != nil {
		return false, time.Time{}, fmt.Errorf("settle an answer: %w", err)
	}
	return first, opened, nil
}

// Answers lists the answers to a person, or of one of their tickets, newest first.
func (s *Store) Answers(ctx context.Context, orgID, profileID, ticketID, before string, limit int) ([]Answer, error) {
	sql := answerColumns + `where org_id = @org and profile_id = @profile`
	args := postgres.Args{"org": orgID, "profile": profileID, "limit": limit}
	if ticketID != "" {
		sql, args["ticket"] = sql+` and ticket_id = @ticket`, ticketID
	}
	if before != "" {
		sql, args["before"] = sql+` and id < @before`, before
	}
	rows, err := s.pool.Query(ctx, sql+` order by id desc limit @limit`, args)
	if err != nil {
		return nil, fmt.Errorf("list answers: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Answer])
	if err != nil {
		return nil, fmt.Errorf("list answers: %w", err)
	}
	return found, nil
}
