package send

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

const sqlMessage = sqlByID + ` and org_id = @org`

// Message reads one message of an organisation; ErrMessageNotFound when it has no such message.
func (s *Store) Message(ctx context.Context, orgID, id uuid.UUID) (m Message, err error) {
	defer edge.Mark(&err)
	m, found, err := FindMessage(ctx, s.pool, sqlMessage, postgres.Args{"org": orgID, "id": id})
	if err == nil && !found {
		err = ErrMessageNotFound
	}
	return m, err
}

// Each of the filters has its index; one query for all would have none.
const (
	sqlNewest          = `select ` + Columns + ` from sms_messages where org_id = @org and id < @before order by id desc limit @limit`
	sqlNewestOfProfile = `select ` + Columns + ` from sms_messages
		where org_id = @org and profile_id = @profile and (@status::text is null or status = @status) and id < @before
		order by id desc limit @limit`
	sqlOfKey = SQLByKey + ` and (@profile::uuid is null or profile_id = @profile) and (@status::text is null or status = @status)
		and id < @before limit @limit`
	// Statuses that are rare among a million messages have their own index, which its condition has to name.
	sqlNewestOfRare = `select ` + Columns + ` from sms_messages
		where org_id = @org and status = @status and ` + sqlInTrouble + ` and id < @before
		order by id desc limit @limit`
	sqlInTrouble = `status not in ('sending', 'accepted', 'queued', 'sent', 'delivered', 'received')`

	// What is on its way is read by the indexes that its loops have, and sorted: a claim and a receipt write no other for it.
	sqlNewestUnderWay = `select ` + Columns + ` from sms_messages
		where org_id = @org and status = @status and status in ('accepted', 'queued', 'sent', 'failed', 'undelivered') and id < @before
		order by id desc limit @limit`
	sqlNewestSending = `select ` + Columns + ` from sms_messages
		where org_id = @org and status = @status and status in ('sending', 'unknown') and id < @before
		order by id desc limit @limit`
	sqlNewestOfStatus = `select ` + Columns + ` from sms_messages
		where org_id = @org and status = @status and id < @before order by id desc limit @limit`
)

// Messages lists messages of an organisation, newest first.
func (s *Store) Messages(ctx context.Context, q Query) (found []Message, err error) {
	defer edge.Mark(&err)
	if q.Words != "" {
		return s.withWords(ctx, q)
	}
	sql := sqlNewest
	switch {
	case q.Key != "":
		sql = sqlOfKey
	case q.ProfileID != uuid.Nil:
		sql = sqlNewestOfProfile
	case q.Status == sms.Delivered, q.Status == sms.Received:
		sql = sqlNewestOfStatus
	case q.Status == sms.Sending:
		sql = sqlNewestSending
	case q.Status == sms.Accepted, q.Status == sms.Queued, q.Status == sms.Sent:
		sql = sqlNewestUnderWay
	case q.Status != "":
		sql = sqlNewestOfRare
	}
	args := postgres.Args{
		"org": q.OrgID, "profile": edge.Null(q.ProfileID), "key": q.Key, "status": edge.Null(string(q.Status)),
		"before": q.Before, "limit": q.Limit,
	}
	if sql != sqlNewestOfRare {
		return messages(ctx, s.pool, sql, args)
	}
	return edge.CollectInOrder(ctx, s.pool, sql, args, ReadMessage)
}

const sqlEvidence = `select at, finding, detail, candidates from sms_looks where message_id = @id order by id`

const sqlReceipts = `
select twilio_sid, status, error_code, received_at from sms_receipts where message_id = @id order by id`

// Evidence is everything known about a message of an organisation; ErrMessageNotFound when it has no such message.
func (s *Store) Evidence(ctx context.Context, orgID, id uuid.UUID) (evidence Evidence, err error) {
	defer edge.Mark(&err)
	if evidence.Message, err = s.Message(ctx, orgID, id); err != nil {
		return Evidence{}, err
	}
	args := postgres.Args{"id": id}
	if evidence.Items, err = edge.Collect(ctx, s.pool, sqlEvidence, args, evidenceItem); err != nil {
		return Evidence{}, err
	}
	evidence.Receipts, err = edge.Collect(ctx, s.pool, sqlReceipts, args, func(row pgx.CollectableRow) (Receipt, error) {
		r := Receipt{MessageID: id}
		err := row.Scan(&r.SID, &r.Status, &r.ErrorCode, &r.At)
		r.At = r.At.UTC()
		return r, err
	})
	return evidence, err
}

func evidenceItem(row pgx.CollectableRow) (EvidenceItem, error) {
	var item EvidenceItem
	var kind string
	var at time.Time
	err := row.Scan(&at, &kind, &item.Detail, &item.Candidates)
	item.At, item.Kind = at.UTC(), EvidenceKind(kind)
	return item, err
}

const sqlDeliveries = `
select message_id::text as id, min(received_at) as at from sms_receipts where message_id = any(@ids::uuid[]) and status = 'delivered'
group by message_id`

// Deliveries returns when the first receipt of the delivery of each message came. One that was found delivered without a receipt has none.
func (s *Store) Deliveries(ctx context.Context, ids []string) (at map[string]time.Time, err error) {
	defer edge.Mark(&err)
	type delivery struct {
		ID string
		At time.Time
	}
	found, err := edge.Collect(ctx, s.pool, sqlDeliveries, postgres.Args{"ids": ids}, pgx.RowToStructByName[delivery])
	at = map[string]time.Time{}
	for _, d := range found {
		at[d.ID] = d.At.UTC()
	}
	return at, err
}

// Resolve applies Message.Resolve to the stored row, with its evidence, and returns the row after it.
func (s *Store) Resolve(ctx context.Context, r Resolution) (m Message, changed bool, err error) {
	defer edge.Mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err := OneMessage(ctx, tx, sqlByIDForUpdate, postgres.Args{"id": r.MessageID})
		if err != nil {
			return err
		}
		others, err := taken(ctx, tx, r.MessageID, []string{r.SID})
		switch {
		case err != nil:
			return err
		case stored.OrgID != r.OrgID:
			return ErrMessageNotFound
		case others[r.SID]:
			return ErrTaken
		}
		if m, changed, err = stored.Resolve(r); err != nil || !changed {
			return err
		}
		if err := update(ctx, tx, m); err != nil {
			return err
		}
		return keepEvidence(ctx, tx, m.ID, EvidenceItem{
			At: r.At, Kind: Resolved, Detail: string(r.Kind) + ": " + r.Reason, Candidates: r.Candidates(),
		})
	})
	if postgres.IsUniqueViolation(err, "sms_messages_twilio_sid_key") {
		err = ErrTaken
	}
	return m, changed, err
}
