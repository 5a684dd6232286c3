package outbound

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
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

const table = "sms_outbound_jobs"

// Store is the outbound queue in the messaging database.
type Store struct {
	// Pseudonyms makes the digests of codes with deleted words. Without a key there are none, and a repeat is not told from a
	// request with other words then.
	Pseudonyms consent.Pseudonyms

	pool   postgres.DB
	jobs   *queue.Queue
	intake *queue.Intake
}

// NewStore works on a migrated database; the caller keeps owning the pool.
func NewStore(pool postgres.DB) *Store {
	jobs := queue.NewQueue(pool, queue.Table{Name: table, Priorities: Priorities})
	return &Store{pool: pool, jobs: jobs, intake: queue.NewIntake(jobs)}
}

// Jobs is the queue as its runner sees it.
func (o *Store) Jobs() *queue.Queue { return o.jobs }

// sqlMayQueue selects whether it is known how a person agreed: by a record that came with an activation, which releases before 0011 stored
// without, by an operator's evidence, or by their own START; or whether the message is queued already. Whether they have opted out since is
// asked when it is sent.
const sqlMayQueue = `
select exists (
	select from consent_events
	where org_id = @org and phone = @phone and state = 'opted_in'
		and (source in ('operator', 'inbound') or source = 'first_send' and words <> '')
) or exists (select from sms_outbound_jobs where org_id = @org and idempotency_key = @key)`

// Enqueue stores a message under an id, or finds the one that has its key; ErrKeyReused when that one is another,
// ErrConsentRequired.
func (o *Store) Enqueue(
	ctx context.Context, r Request, id uuid.UUID, now time.Time,
) (stored Queued, duplicate bool, err error) {
	defer edge.Mark(&err)
	if r.ConsentRequired {
		var may bool
		args := postgres.Args{"org": r.OrgID, "phone": r.To.String(), "key": r.Key}
		if err := o.pool.QueryRow(ctx, sqlMayQueue, args).Scan(&may); err != nil {
			return Queued{}, false, err
		}
		if !may {
			return Queued{}, false, ErrConsentRequired
		}
	}
	payload, err := r.Payload()
	if err != nil {
		return Queued{}, false, err
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
		return Queued{}, false, err
	}
	if id, err = uuid.Parse(job.ID); err != nil {
		return Queued{}, false, err
	}
	stored, err = o.Queued(ctx, r.OrgID, id)
	return stored, job.Duplicate, err
}

// Repeated returns the text that an equal request has stored. ErrKeyReused: the key is unused, or another request has it.
func (o *Store) Repeated(ctx context.Context, r Request) (stored Queued, err error) {
	defer edge.Mark(&err)
	payload, err := r.Payload()
	if err != nil {
		return Queued{}, err
	}
	found, err := o.repeated(ctx, r, payload)
	if err != nil {
		return Queued{}, err
	}
	id, err := uuid.Parse(found)
	if err != nil {
		return Queued{}, err
	}
	return o.Queued(ctx, r.OrgID, id)
}

const sqlRepeated = `
select id::text, coalesce(body_digest, '') from sms_outbound_jobs
where org_id = @org and idempotency_key = @key and (payload - 'open_hours' = @payload::jsonb - 'open_hours'
	or event_type = 'otp' and payload ->> 'body' = '' and payload - 'body' = @payload::jsonb - 'body')`

// repeated is the job that was stored for the same request: under other hours, which may have changed since, or a code with deleted
// words, if they had this digest or none. ErrKeyReused when the key's is another.
func (o *Store) repeated(ctx context.Context, r Request, payload []byte) (id string, err error) {
	var digest string
	args := postgres.Args{"org": r.OrgID, "key": r.Key, "payload": string(payload)}
	err = o.pool.QueryRow(ctx, sqlRepeated, args).Scan(&id, &digest)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && o.Pseudonyms.Differ(digest, r.OrgID.String(), id, string(r.Body)) {
		return "", ErrKeyReused
	}
	return id, err
}

// queuedColumns selects a message with what is known about what Send has made of it, under MessageKey. The columns end with
// ofQueued. The key is made in its own query: row-level security lets no function into the condition of an index, and all messages
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

func (r queuedRow) queued() (Queued, error) {
	request, err := ReadPayload(r.Payload, r.CreatedAt)
	if err != nil {
		return Queued{}, fmt.Errorf("queued text %s: %w", r.ID, err)
	}
	request.OrgID, request.Key = r.OrgID, r.IdempotencyKey
	t := Queued{
		Request: request, ID: r.ID, Status: Status(r.Status), NextAt: edge.Value(r.NextRetryAt).UTC(), Attempts: r.Attempts,
		Failure: Why(r.Failure), Explanation: r.ErrorMessage, CreatedAt: r.CreatedAt.UTC(), EndedAt: edge.Value(r.ProcessedAt).UTC(),
		Actor:     r.Actor,
		MessageID: edge.Value(r.MessageID), ErrorCode: edge.Value(r.ErrorCode),
	}
	if r.MessageStatus != nil {
		if t.MessageStatus, err = sms.ParseStatus(*r.MessageStatus); err != nil {
			return Queued{}, fmt.Errorf("queued text %s: %w", r.ID, err)
		}
	}
	return t, nil
}

func queuedMessages(ctx context.Context, c edge.Conn, sql string, args postgres.Args) ([]Queued, error) {
	return edge.Collect(ctx, c, sql, args, toQueued)
}

func toQueued(found pgx.CollectableRow) (Queued, error) {
	r, err := pgx.RowToStructByName[queuedRow](found)
	if err != nil {
		return Queued{}, err
	}
	return r.queued()
}

const sqlQueued = queuedColumns + ` and j.id = @id offset 0` + ofQueued

// Queued reads one message of an organisation; ErrNotFound.
func (o *Store) Queued(ctx context.Context, orgID, id uuid.UUID) (m Queued, err error) {
	defer edge.Mark(&err)
	return queued(ctx, o.pool, orgID, id)
}

func queued(ctx context.Context, c edge.Conn, orgID, id uuid.UUID) (Queued, error) {
	found, err := queuedMessages(ctx, c, sqlQueued, postgres.Args{"org": orgID, "id": id})
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Queued{}, err
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
func (o *Store) List(ctx context.Context, q Query) (found []Queued, err error) {
	defer edge.Mark(&err)
	sql := sqlAllQueued
	switch {
	case q.Key != "":
		sql = sqlQueuedOfKey
	case q.ProfileID != uuid.Nil:
		sql = sqlQueuedOfProfile
	case q.Status == Pending:
		sql = sqlQueuedPending
	case q.Status == Processing:
		sql = sqlQueuedAtWork
	case q.Status == Failed:
		sql = sqlQueuedFailed
	}
	return edge.CollectInOrder(ctx, o.pool, sql, postgres.Args{
		"org": q.OrgID, "profile": edge.Null(q.ProfileID), "key": q.Key, "status": edge.Null(string(q.Status)),
		"purpose": edge.Null(string(q.Purpose)), "before": q.Before, "limit": q.Limit,
	}, toQueued)
}

const sqlLockQueued = `select from sms_outbound_jobs where org_id = @org and id = @id for no key update`

// Cancel takes a message back unless Twilio has it or may have it; ErrNotFound, ErrNotCancellable. The row is locked
// first, so that no worker claims it; what Send has recorded is read after that, so nothing can change in between.
func (o *Store) Cancel(ctx context.Context, orgID, id uuid.UUID, now time.Time) (m Queued, err error) {
	defer edge.Mark(&err)
	err = postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		if err := edge.Exec(ctx, tx, sqlLockQueued, postgres.Args{"org": orgID, "id": id}); err != nil {
			return err
		}
		if m, err = queued(ctx, tx, orgID, id); err != nil {
			return err
		}
		switch {
		case m.Status == Cancelled:
			return nil
		case m.Status == Processing:
			return fmt.Errorf("%w: it is being sent right now", ErrNotCancellable)
		case m.Status != Pending:
			return fmt.Errorf("%w: it is %s already", ErrNotCancellable, m.Status)
		case m.MessageID != uuid.Nil && m.MessageStatus != sms.Throttled:
			return fmt.Errorf("%w: it may have been sent; see GET /v1/messages/%s", ErrNotCancellable, m.MessageID)
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

// Progress returns what Send has made of a message so far, and what holds its recipient, in one round trip.
func (o *Store) Progress(ctx context.Context, orgID uuid.UUID, key string, to sms.Phone) (p Progress, err error) {
	defer edge.Mark(&err)
	args := postgres.Args{"org": orgID, "key": key, "phone": to.String()}
	var batch pgx.Batch
	batch.Queue(send.SQLByKey, args).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, send.ReadMessage)
		if err == nil && len(found) > 0 {
			p.Message = &found[0]
		}
		return err
	})
	batch.Queue(sqlHeldNow, args).QueryRow(func(row pgx.Row) error {
		var unjudged *uuid.UUID
		err := row.Scan(&p.Held, &unjudged)
		p.Unjudged = edge.Value(unjudged)
		return err
	})
	err = o.pool.SendBatch(ctx, &batch).Close()
	return p, err
}

const sqlFailure = `update sms_outbound_jobs set failure = @failure where id = @id`

// Fail ends a message under the lease of its job, together with the reason; queue.ErrFenced when the lease was lost.
func (o *Store) Fail(ctx context.Context, j queue.Job, f Failure, now time.Time) (err error) {
	defer edge.Mark(&err)
	return postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		if err := o.jobs.FinishIn(ctx, tx, queue.Finish{
			Job: j, Status: queue.StatusFailed, Attempts: j.Attempts + 1, Message: f.Words, At: now,
		}); err != nil {
			return err
		}
		return edge.Exec(ctx, tx, sqlFailure, postgres.Args{"id": j.ID, "failure": string(f.Why)})
	})
}

// sqlUnfinished reads one of each kind by its index. A message that Twilio did not process is not among them: the outbound queue,
// which has its text here too, or the caller asks for it again.
const sqlUnfinished = `
select coalesce(m.id::text, '') as message_id, coalesce(m.status, '') as status, coalesce((
    select j.id::text from sms_outbound_jobs j
    where j.org_id = @org and j.payload ? 'profile_id' and j.payload ->> 'profile_id' = @profile::uuid::text
      and j.status in ('pending', 'processing') order by j.id desc limit 1), '') as text_id
from (select) one left join lateral (
    select id, status from sms_messages
    where to_number = @phone and org_id = @org and direction = 'outbound' and status in ('sending', 'unknown', 'parked') limit 1) m on true`

// Unfinished names what is not at its end of a person: a message to their phone, and a text of the queue for their profile. Empty is none.
type Unfinished struct{ MessageID, Status, TextID string }

// Unfinished finds what is not at its end of a person.
func (o *Store) Unfinished(ctx context.Context, orgID, profileID uuid.UUID, phone string) (found Unfinished, err error) {
	defer edge.Mark(&err)
	err = o.pool.QueryRow(ctx, sqlUnfinished, postgres.Args{"org": orgID, "profile": profileID, "phone": phone}).
		Scan(&found.MessageID, &found.Status, &found.TextID)
	return found, err
}
