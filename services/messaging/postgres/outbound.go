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
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/sms"
)

// OutboundTable is where the texts of the queue are.
const OutboundTable = "sms_outbound_jobs"

// Outbound is the outbound queue in the messaging database.
type Outbound struct {
	pool   postgres.DB
	jobs   *queue.Queue
	intake *queue.Intake
}

// NewOutbound works on a migrated database; the caller keeps owning the pool.
func NewOutbound(pool postgres.DB) *Outbound {
	jobs := queue.NewQueue(pool, queue.Table{Name: OutboundTable, Priorities: outbound.Priorities})
	return &Outbound{pool: pool, jobs: jobs, intake: queue.NewIntake(jobs)}
}

// Jobs is the queue as its runner sees it.
func (o *Outbound) Jobs() *queue.Queue { return o.jobs }

// sqlMayQueue is whether it is known how a person agreed: by a record that came with an activation, which releases before 0011 stored
// without, by an operator's evidence, or by their own START; or whether the message is queued already. Whether they have opted out since is
// asked when it is sent.
const sqlMayQueue = `
select exists (
	select from consent_events
	where org_id = @org and phone = @phone and state = 'opted_in'
		and (source in ('operator', 'inbound') or source = 'first_send' and words <> '')
) or exists (select from sms_outbound_jobs where org_id = @org and idempotency_key = @key)`

// Enqueue stores a message under an id, or finds the one that has its key; outbound.ErrKeyReused when that one is another,
// outbound.ErrConsentRequired.
func (o *Outbound) Enqueue(
	ctx context.Context, r outbound.Request, id uuid.UUID, now time.Time,
) (stored outbound.Queued, duplicate bool, err error) {
	defer mark(&err)
	if r.ConsentRequired {
		var may bool
		args := postgres.Args{"org": r.OrgID, "phone": r.To.String(), "key": r.Key}
		if err := o.pool.QueryRow(ctx, sqlMayQueue, args).Scan(&may); err != nil {
			return outbound.Queued{}, false, err
		}
		if !may {
			return outbound.Queued{}, false, outbound.ErrConsentRequired
		}
	}
	payload, err := r.Payload()
	if err != nil {
		return outbound.Queued{}, false, err
	}
	job, err := o.intake.Enqueue(ctx, queue.New{
		ID: id.String(), OrgID: r.OrgID.String(), Key: r.Key, EventType: string(r.Purpose), Payload: payload,
		Priority: r.Purpose.Priority(), At: now, DueAt: r.Due(now),
	})
	if errors.Is(err, queue.ErrPayloadMismatch) {
		job.ID, err = o.repeated(ctx, r, payload)
		job.Duplicate = true
	}
	if err != nil {
		return outbound.Queued{}, false, err
	}
	if id, err = uuid.Parse(job.ID); err != nil {
		return outbound.Queued{}, false, err
	}
	stored, err = o.Queued(ctx, r.OrgID, id)
	return stored, job.Duplicate, err
}

const sqlRepeated = `
select id::text from sms_outbound_jobs
where org_id = @org and idempotency_key = @key and (payload - 'open_hours' = @payload::jsonb - 'open_hours'
	or event_type = 'otp' and payload ->> 'body' = '' and payload - 'body' = @payload::jsonb - 'body')`

// repeated is the job that was stored for the same request: under other hours, which may have changed since, or a code whose words are not
// there any more to be compared. outbound.ErrKeyReused when the key's is another.
func (o *Outbound) repeated(ctx context.Context, r outbound.Request, payload []byte) (id string, err error) {
	err = o.pool.QueryRow(ctx, sqlRepeated, postgres.Args{"org": r.OrgID, "key": r.Key, "payload": string(payload)}).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", outbound.ErrKeyReused
	}
	return id, err
}

// queuedColumns are those of a message with what is known about what Send has made of it, whose key is outbound.MessageKey. They end with
// ofQueued. The key is made in a query of its own: row-level security lets no function into the condition of an index, and all messages
// were read for each of the queue.
const (
	queuedColumns = `
select j.id, j.org_id, j.idempotency_key, j.payload, j.status, j.next_retry_at, j.attempts, j.failure, j.error_message, j.created_at,
	j.processed_at, j.actor::text as actor, m.id as message_id, m.status as message_status, m.error_code
from (
	select j.id, j.org_id, j.idempotency_key, j.payload, j.status, j.next_retry_at, j.attempts, j.failure, j.error_message, j.created_at,
		j.processed_at, j.actor, 'outbound:' || j.id::text as message_key
	from sms_outbound_jobs j where j.org_id = @org`
	ofQueued = `) j
left join sms_messages m on m.org_id = j.org_id and m.idempotency_key = j.message_key
order by j.id desc`
)

type queuedRow struct {
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
	Actor          *string
	MessageID      *uuid.UUID
	MessageStatus  *string
	ErrorCode      *int
}

func (r queuedRow) queued() (outbound.Queued, error) {
	request, err := outbound.ReadPayload(r.Payload, r.CreatedAt)
	if err != nil {
		return outbound.Queued{}, fmt.Errorf("queued text %s: %w", r.ID, err)
	}
	request.OrgID, request.Key = r.OrgID, r.IdempotencyKey
	t := outbound.Queued{
		Request: request, ID: r.ID, Status: outbound.Status(r.Status), NextAt: value(r.NextRetryAt).UTC(), Attempts: r.Attempts,
		Failure: outbound.Why(r.Failure), Explanation: r.ErrorMessage, CreatedAt: r.CreatedAt.UTC(), EndedAt: value(r.ProcessedAt).UTC(),
		Actor:     r.Actor,
		MessageID: value(r.MessageID), ErrorCode: value(r.ErrorCode),
	}
	if r.MessageStatus != nil {
		if t.MessageStatus, err = sms.ParseStatus(*r.MessageStatus); err != nil {
			return outbound.Queued{}, fmt.Errorf("queued text %s: %w", r.ID, err)
		}
	}
	return t, nil
}

func queuedMessages(ctx context.Context, c conn, sql string, args postgres.Args) ([]outbound.Queued, error) {
	rows, err := c.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, toQueued)
}

func toQueued(found pgx.CollectableRow) (outbound.Queued, error) {
	r, err := pgx.RowToStructByName[queuedRow](found)
	if err != nil {
		return outbound.Queued{}, err
	}
	return r.queued()
}

const sqlQueued = queuedColumns + ` and j.id = @id offset 0` + ofQueued

// Queued reads one message of an organisation; outbound.ErrNotFound.
func (o *Outbound) Queued(ctx context.Context, orgID, id uuid.UUID) (m outbound.Queued, err error) {
	defer mark(&err)
	return queued(ctx, o.pool, orgID, id)
}

func queued(ctx context.Context, c conn, orgID, id uuid.UUID) (outbound.Queued, error) {
	found, err := queuedMessages(ctx, c, sqlQueued, postgres.Args{"org": orgID, "id": id})
	if err == nil && len(found) == 0 {
		err = outbound.ErrNotFound
	}
	if err != nil {
		return outbound.Queued{}, err
	}
	return found[0], nil
}

// Each of the filters has its index, and those by status have to name it.
const (
	queuedFilters = ` and (@status::text is null or j.status = @status) and (@purpose::text is null or j.event_type = @purpose)
		and j.id < @before`
	ofProfile    = `j.payload ->> 'profile_id' = @profile::uuid::text`
	newestQueued = ` order by j.id desc limit @limit` + ofQueued

	sqlAllQueued   = queuedColumns + queuedFilters + newestQueued
	sqlQueuedOfKey = queuedColumns + ` and j.idempotency_key = @key and (@profile::uuid is null or ` + ofProfile + `)` +
		queuedFilters + newestQueued
	sqlQueuedOfProfile = queuedColumns + ` and j.payload ? 'profile_id' and ` + ofProfile + queuedFilters + newestQueued
	sqlQueuedPending   = queuedColumns + ` and j.status = 'pending'` + queuedFilters + newestQueued
	sqlQueuedAtWork    = queuedColumns + ` and j.status = 'processing'` + queuedFilters + newestQueued
	sqlQueuedFailed    = queuedColumns + ` and j.status = 'failed'` + queuedFilters + newestQueued
)

// List reads messages of an organisation, newest first.
func (o *Outbound) List(ctx context.Context, q outbound.Query) (found []outbound.Queued, err error) {
	defer mark(&err)
	sql := sqlAllQueued
	switch {
	case q.Key != "":
		sql = sqlQueuedOfKey
	case q.ProfileID != uuid.Nil:
		sql = sqlQueuedOfProfile
	case q.Status == outbound.Pending:
		sql = sqlQueuedPending
	case q.Status == outbound.Processing:
		sql = sqlQueuedAtWork
	case q.Status == outbound.Failed:
		sql = sqlQueuedFailed
	}
	return inOrder(ctx, o.pool, sql, postgres.Args{
		"org": q.OrgID, "profile": null(q.ProfileID), "key": q.Key, "status": null(string(q.Status)), "purpose": null(string(q.Purpose)),
		"before": q.Before, "limit": q.Limit,
	}, toQueued)
}

const sqlLockQueued = `select from sms_outbound_jobs where org_id = @org and id = @id for no key update`

// Cancel takes a message back unless Twilio has it or may have it; outbound.ErrNotFound, outbound.ErrNotCancellable. The row is locked
// first, so that no worker claims it; what Send has recorded is read after that, so nothing can change in between.
func (o *Outbound) Cancel(ctx context.Context, orgID, id uuid.UUID, now time.Time) (m outbound.Queued, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		if err := exec(ctx, tx, sqlLockQueued, postgres.Args{"org": orgID, "id": id}); err != nil {
			return err
		}
		if m, err = queued(ctx, tx, orgID, id); err != nil {
			return err
		}
		switch {
		case m.Status == outbound.Cancelled:
			return nil
		case m.Status == outbound.Processing:
			return fmt.Errorf("%w: it is being sent right now", outbound.ErrNotCancellable)
		case m.Status != outbound.Pending:
			return fmt.Errorf("%w: it is %s already", outbound.ErrNotCancellable, m.Status)
		case m.MessageID != uuid.Nil && m.MessageStatus != sms.Throttled:
			return fmt.Errorf("%w: it may have been sent; see GET /v1/messages/%s", outbound.ErrNotCancellable, m.MessageID)
		}
		if _, err := o.jobs.Cancel(ctx, tx, orgID.String(), id.String(), now); err != nil {
			return err
		}
		m, err = queued(ctx, tx, orgID, id)
		return err
	})
	return m, err
}

const sqlHeldNow = `
select coalesce(h.held, false), h.unjudged_id from (values (1)) as one left join holds h on h.org_id = @org and h.phone = @phone`

// Progress is what Send has made of a message so far, and what holds its recipient, in one round trip.
func (o *Outbound) Progress(ctx context.Context, orgID uuid.UUID, key string, to sms.Phone) (p outbound.Progress, err error) {
	defer mark(&err)
	args := postgres.Args{"org": orgID, "key": key, "phone": to.String()}
	var batch pgx.Batch
	batch.Queue(sqlByKey, args).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, toMessage)
		if err == nil && len(found) > 0 {
			p.Message = &found[0]
		}
		return err
	})
	batch.Queue(sqlHeldNow, args).QueryRow(func(row pgx.Row) error {
		var unjudged *uuid.UUID
		err := row.Scan(&p.Held, &unjudged)
		p.Unjudged = value(unjudged)
		return err
	})
	err = o.pool.SendBatch(ctx, &batch).Close()
	return p, err
}

const sqlFailure = `update sms_outbound_jobs set failure = @failure where id = @id`

// Fail ends a message whose lease the job names, together with the reason; queue.ErrFenced when the lease was lost.
func (o *Outbound) Fail(ctx context.Context, j queue.Job, f outbound.Failure, now time.Time) (err error) {
	defer mark(&err)
	return postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		if err := o.jobs.FinishIn(ctx, tx, queue.Finish{
			Job: j, Status: queue.StatusFailed, Attempts: j.Attempts + 1, Message: f.Words, At: now,
		}); err != nil {
			return err
		}
		return exec(ctx, tx, sqlFailure, postgres.Args{"id": j.ID, "failure": string(f.Why)})
	})
}
