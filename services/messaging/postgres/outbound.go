package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/sms"
)

// Outbound is the outbound queue in the messaging database.
type Outbound struct {
	pool   postgres.DB
	jobs   *queue.Queue
	intake *queue.Intake
}

// NewOutbound works on a migrated database; the caller keeps owning the pool.
func NewOutbound(pool postgres.DB) *Outbound {
	jobs := queue.NewQueue(pool, queue.Table{Name: "sms_outbound_jobs", Priorities: outbound.Priorities})
	return &Outbound{pool: pool, jobs: jobs, intake: queue.NewIntake(jobs)}
}

// Jobs is the queue as its runner sees it.
func (o *Outbound) Jobs() *queue.Queue { return o.jobs }

// Enqueue stores a text under an id, or finds the one that has its key; outbound.ErrKeyReused when that one is another.
func (o *Outbound) Enqueue(
	ctx context.Context, r outbound.Request, id uuid.UUID, now time.Time,
) (stored outbound.Text, duplicate bool, err error) {
	defer mark(&err)
	payload, err := r.Payload()
	if err != nil {
		return outbound.Text{}, false, err
	}
	job, err := o.intake.Enqueue(ctx, queue.New{
		ID: id.String(), OrgID: r.OrgID.String(), Key: r.Key, EventType: string(r.Purpose), Payload: payload,
		Priority: r.Purpose.Priority(), At: now, DueAt: r.Due(now),
	})
	if errors.Is(err, queue.ErrPayloadMismatch) {
		return outbound.Text{}, false, outbound.ErrKeyReused
	}
	if err != nil {
		return outbound.Text{}, false, err
	}
	if id, err = uuid.Parse(job.ID); err != nil {
		return outbound.Text{}, false, err
	}
	stored, err = o.Text(ctx, r.OrgID, id)
	return stored, job.Duplicate, err
}

// textColumns are those of a text with what is known about its message, whose key is outbound.MessageKey.
const textColumns = `
select j.id, j.org_id, j.idempotency_key, j.payload, j.status, j.next_retry_at, j.attempts, j.failure, j.error_message, j.created_at,
	j.processed_at, m.id as message_id, m.status as message_status, m.error_code
from sms_outbound_jobs j
left join sms_messages m on m.org_id = j.org_id and m.idempotency_key = 'outbound:' || j.id::text
where j.org_id = @org`

type textRow struct {
	ID             uuid.UUID
	OrgID          uuid.UUID
	IdempotencyKey string
	Payload        json.RawMessage
	Status         string
	NextRetryAt    *time.Time
	Attempts       int
	Failure        string
	ErrorMessage   string
	CreatedAt      time.Time
	ProcessedAt    *time.Time
	MessageID      *uuid.UUID
	MessageStatus  *string
	ErrorCode      *int
}

func (r textRow) text() (outbound.Text, error) {
	request, err := outbound.ReadPayload(r.Payload, r.CreatedAt)
	if err != nil {
		return outbound.Text{}, fmt.Errorf("queued text %s: %w", r.ID, err)
	}
	request.OrgID, request.Key = r.OrgID, r.IdempotencyKey
	t := outbound.Text{
		Request: request, ID: r.ID, Status: outbound.Status(r.Status), NextAt: value(r.NextRetryAt).UTC(), Attempts: r.Attempts,
		Failure: outbound.Why(r.Failure), Explanation: r.ErrorMessage, CreatedAt: r.CreatedAt.UTC(), EndedAt: value(r.ProcessedAt).UTC(),
		MessageID: value(r.MessageID), ErrorCode: value(r.ErrorCode),
	}
	if r.MessageStatus != nil {
		if t.MessageStatus, err = sms.ParseStatus(*r.MessageStatus); err != nil {
			return outbound.Text{}, fmt.Errorf("queued text %s: %w", r.ID, err)
		}
	}
	return t, nil
}

func texts(ctx context.Context, c conn, sql string, args pgx.NamedArgs) ([]outbound.Text, error) {
	rows, err := c.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(found pgx.CollectableRow) (outbound.Text, error) {
		r, err := pgx.RowToStructByName[textRow](found)
		if err != nil {
			return outbound.Text{}, err
		}
		return r.text()
	})
}

const sqlText = textColumns + ` and j.id = @id`

// Text reads one text of an organisation; outbound.ErrNotFound.
func (o *Outbound) Text(ctx context.Context, orgID, id uuid.UUID) (t outbound.Text, err error) {
	defer mark(&err)
	return queued(ctx, o.pool, orgID, id)
}

func queued(ctx context.Context, c conn, orgID, id uuid.UUID) (outbound.Text, error) {
	found, err := texts(ctx, c, sqlText, pgx.NamedArgs{"org": orgID, "id": id})
	if err == nil && len(found) == 0 {
		err = outbound.ErrNotFound
	}
	if err != nil {
		return outbound.Text{}, err
	}
	return found[0], nil
}

// Each of the filters has its index, and those by status have to name it.
const (
	textFilters = ` and (@status::text is null or j.status = @status) and (@purpose::text is null or j.event_type = @purpose)
		and j.id < @before`
	ofProfile   = `j.payload ->> 'profile_id' = @profile::uuid::text`
	newestTexts = ` order by j.id desc limit @limit`

	sqlTexts      = textColumns + textFilters + newestTexts
	sqlTextsOfKey = textColumns + ` and j.idempotency_key = @key and (@profile::uuid is null or ` + ofProfile + `)` +
		textFilters + newestTexts
	sqlTextsOfProfile = textColumns + ` and j.payload ? 'profile_id' and ` + ofProfile + textFilters + newestTexts
	sqlTextsPending   = textColumns + ` and j.status = 'pending'` + textFilters + newestTexts
	sqlTextsAtWork    = textColumns + ` and j.status = 'processing'` + textFilters + newestTexts
	sqlTextsFailed    = textColumns + ` and j.status = 'failed'` + textFilters + newestTexts
)

// Texts lists texts of an organisation, newest first.
func (o *Outbound) Texts(ctx context.Context, q outbound.Query) (found []outbound.Text, err error) {
	defer mark(&err)
	sql := sqlTexts
	switch {
	case q.Key != "":
		sql = sqlTextsOfKey
	case q.ProfileID != uuid.Nil:
		sql = sqlTextsOfProfile
	case q.Status == outbound.Pending:
		sql = sqlTextsPending
	case q.Status == outbound.Processing:
		sql = sqlTextsAtWork
	case q.Status == outbound.Failed:
		sql = sqlTextsFailed
	}
	return texts(ctx, o.pool, sql, pgx.NamedArgs{
		"org": q.OrgID, "profile": null(q.ProfileID), "key": q.Key, "status": null(string(q.Status)), "purpose": null(string(q.Purpose)),
		"before": q.Before, "limit": q.Limit,
	})
}

const sqlLockText = `select from sms_outbound_jobs where org_id = @org and id = @id for no key update`

// Cancel takes a text back unless Twilio has it or may have it; outbound.ErrNotFound, outbound.ErrNotCancellable. The row is locked
// first, against whoever would claim it; what Send has made of it is read after that, so nothing can have come between.
func (o *Outbound) Cancel(ctx context.Context, orgID, id uuid.UUID, now time.Time) (t outbound.Text, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		if err := exec(ctx, tx, sqlLockText, pgx.NamedArgs{"org": orgID, "id": id}); err != nil {
			return err
		}
		if t, err = queued(ctx, tx, orgID, id); err != nil {
			return err
		}
		switch {
		case t.Status == outbound.Cancelled:
			return nil
		case t.Status == outbound.Processing:
			return fmt.Errorf("%w: it is being sent right now", outbound.ErrNotCancellable)
		case t.Status != outbound.Pending:
			return fmt.Errorf("%w: it is %s already", outbound.ErrNotCancellable, t.Status)
		case t.MessageID != uuid.Nil && t.MessageStatus != sms.Throttled:
			return fmt.Errorf("%w: it may have been sent; see GET /v1/messages/%s", outbound.ErrNotCancellable, t.MessageID)
		}
		if _, err := o.jobs.Cancel(ctx, tx, orgID.String(), id.String(), now); err != nil {
			return err
		}
		t, err = queued(ctx, tx, orgID, id)
		return err
	})
	return t, err
}

const sqlHeldNow = `select exists (select from holds where org_id = @org and phone = @phone and held)`

// Held reports whether the recipient is on a safety hold.
func (o *Outbound) Held(ctx context.Context, orgID uuid.UUID, to sms.Phone) (held bool, err error) {
	defer mark(&err)
	err = o.pool.QueryRow(ctx, sqlHeldNow, pgx.NamedArgs{"org": orgID, "phone": to.String()}).Scan(&held)
	return held, err
}

// Message is what Send has made of a text so far, if anything.
func (o *Outbound) Message(ctx context.Context, orgID uuid.UUID, key string) (m delivery.Message, found bool, err error) {
	defer mark(&err)
	return message(ctx, o.pool, sqlByKey, pgx.NamedArgs{"org": orgID, "key": key})
}

const sqlFailure = `update sms_outbound_jobs set failure = @failure where id = @id`

// Fail ends a text whose lease the job names, together with the reason; queue.ErrFenced when the lease was lost.
func (o *Outbound) Fail(ctx context.Context, j queue.Job, f outbound.Failure, now time.Time) (err error) {
	defer mark(&err)
	return postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		if err := o.jobs.FinishIn(ctx, tx, queue.Finish{
			Job: j, Status: queue.StatusFailed, Attempts: j.Attempts + 1, Message: f.Words, At: now,
		}); err != nil {
			return err
		}
		return exec(ctx, tx, sqlFailure, pgx.NamedArgs{"id": j.ID, "failure": string(f.Why)})
	})
}
