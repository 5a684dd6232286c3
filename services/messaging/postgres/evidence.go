package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/send"
)

const sqlEvidence = `select at, finding, detail, candidates from sms_looks where message_id = @id order by id`

const sqlReceipts = `
select twilio_sid, status, error_code, received_at from sms_receipts where message_id = @id order by id`

// Evidence is everything known about a message of an organisation; send.ErrMessageNotFound when it has no such message.
func (s *Store) Evidence(ctx context.Context, orgID, id uuid.UUID) (evidence send.Evidence, err error) {
	defer mark(&err)
	if evidence.Message, err = s.Message(ctx, orgID, id); err != nil {
		return send.Evidence{}, err
	}
	args := postgres.Args{"id": id}
	if evidence.Items, err = collect(ctx, s.pool, sqlEvidence, args, evidenceItem); err != nil {
		return send.Evidence{}, err
	}
	evidence.Receipts, err = collect(ctx, s.pool, sqlReceipts, args, func(row pgx.CollectableRow) (send.Receipt, error) {
		r := send.Receipt{MessageID: id}
		err := row.Scan(&r.SID, &r.Status, &r.ErrorCode, &r.At)
		r.At = r.At.UTC()
		return r, err
	})
	return evidence, err
}

func evidenceItem(row pgx.CollectableRow) (send.EvidenceItem, error) {
	var item send.EvidenceItem
	var kind string
	var at time.Time
	err := row.Scan(&at, &kind, &item.Detail, &item.Candidates)
	item.At, item.Kind = at.UTC(), send.EvidenceKind(kind)
	return item, err
}

const sqlDeliveries = `
select message_id::text as id, min(received_at) as at from sms_receipts where message_id = any(@ids::uuid[]) and status = 'delivered'
group by message_id`

// Deliveries is when the first receipt of the delivery of each message came. One that was found delivered without a receipt has none.
func (s *Store) Deliveries(ctx context.Context, ids []string) (at map[string]time.Time, err error) {
	defer mark(&err)
	type delivery struct {
		ID string
		At time.Time
	}
	found, err := collect(ctx, s.pool, sqlDeliveries, postgres.Args{"ids": ids}, pgx.RowToStructByName[delivery])
	at = map[string]time.Time{}
	for _, d := range found {
		at[d.ID] = d.At.UTC()
	}
	return at, err
}

func collect[T any](ctx context.Context, c conn, sql string, args postgres.Args, read pgx.RowToFunc[T]) ([]T, error) {
	rows, err := c.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, read)
}

// Resolve applies Message.Resolve to the stored row, with its evidence, and returns the row after it.
func (s *Store) Resolve(ctx context.Context, r send.Resolution) (m send.Message, changed bool, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err := one(ctx, tx, sqlByIDForUpdate, postgres.Args{"id": r.MessageID})
		if err != nil {
			return err
		}
		others, err := taken(ctx, tx, r.MessageID, []string{r.SID})
		switch {
		case err != nil:
			return err
		case stored.OrgID != r.OrgID:
			return send.ErrMessageNotFound
		case others[r.SID]:
			return send.ErrTaken
		}
		if m, changed, err = stored.Resolve(r); err != nil || !changed {
			return err
		}
		if err := update(ctx, tx, m); err != nil {
			return err
		}
		return keepEvidence(ctx, tx, m.ID, send.EvidenceItem{
			At: r.At, Kind: send.Resolved, Detail: string(r.Kind) + ": " + r.Reason, Candidates: r.Candidates(),
		})
	})
	if postgres.IsUniqueViolation(err, "sms_messages_twilio_sid_key") {
		err = send.ErrTaken
	}
	return m, changed, err
}
