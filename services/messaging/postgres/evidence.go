package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/delivery"
)

const sqlLooks = `select at, finding, detail, candidates from sms_looks where message_id = @id order by id`

const sqlReceipts = `
select twilio_sid, status, error_code, received_at from sms_receipts where message_id = @id order by id`

// Evidence is everything known about a message of an organisation; delivery.ErrMessageNotFound when it has no such message.
func (s *Store) Evidence(ctx context.Context, orgID, id uuid.UUID) (evidence delivery.Evidence, err error) {
	defer mark(&err)
	if evidence.Message, err = s.Message(ctx, orgID, id); err != nil {
		return delivery.Evidence{}, err
	}
	args := pgx.NamedArgs{"id": id}
	if evidence.Looks, err = collect(ctx, s.pool, sqlLooks, args, look); err != nil {
		return delivery.Evidence{}, err
	}
	evidence.Receipts, err = collect(ctx, s.pool, sqlReceipts, args, func(row pgx.CollectableRow) (delivery.Receipt, error) {
		r := delivery.Receipt{MessageID: id}
		err := row.Scan(&r.SID, &r.Status, &r.ErrorCode, &r.At)
		r.At = r.At.UTC()
		return r, err
	})
	return evidence, err
}

func look(row pgx.CollectableRow) (delivery.Look, error) {
	var l delivery.Look
	var finding string
	var at time.Time
	err := row.Scan(&at, &finding, &l.Detail, &l.Candidates)
	l.At, l.Finding = at.UTC(), delivery.Finding(finding)
	return l, err
}

func collect[T any](ctx context.Context, c conn, sql string, args pgx.NamedArgs, read pgx.RowToFunc[T]) ([]T, error) {
	rows, err := c.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, read)
}

// Resolve applies Message.Resolve to the stored row, with its evidence, and returns the row after it.
func (s *Store) Resolve(ctx context.Context, r delivery.Resolution) (m delivery.Message, changed bool, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err := one(ctx, tx, sqlByIDForUpdate, pgx.NamedArgs{"id": r.MessageID})
		if err != nil {
			return err
		}
		others, err := taken(ctx, tx, r.MessageID, []string{r.SID})
		switch {
		case err != nil:
			return err
		case stored.OrgID != r.OrgID:
			return delivery.ErrMessageNotFound
		case others[r.SID]:
			return delivery.ErrTaken
		}
		if m, changed, err = stored.Resolve(r); err != nil || !changed {
			return err
		}
		if err := update(ctx, tx, m); err != nil {
			return err
		}
		return keepLook(ctx, tx, m.ID, delivery.Look{
			At: r.At, Finding: delivery.Resolved, Detail: string(r.Word) + ": " + r.Reason, Candidates: r.Candidates(),
		})
	})
	if postgres.IsUniqueViolation(err, "sms_messages_twilio_sid_key") {
		err = delivery.ErrTaken
	}
	return m, changed, err
}
