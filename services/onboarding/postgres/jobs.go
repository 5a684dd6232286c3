package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/services/onboarding/jobs"
)

const sqlEnqueueJob = `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
values (@id, @org_id, @key, @source, @event_type, @subject, @payload, 'pending', @due_at, @at, @at)
on conflict (org_id, idempotency_key) do nothing
returning id`

const sqlJobByKey = `
select id, created_at, payload = @payload::jsonb as same
from webhook_jobs where org_id = @org_id and idempotency_key = @key`

// querier is what a pool and a transaction have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Enqueue stores a job, or finds the one that its key already has. jobs.ErrPayloadMismatch when that one carries something
// else.
func (s *Store) Enqueue(ctx context.Context, n jobs.New) (jobs.Enqueued, error) {
	return enqueue(ctx, s.pool, n)
}

func enqueue(ctx context.Context, db querier, n jobs.New) (jobs.Enqueued, error) {
	args := pgx.NamedArgs{
		"id": n.ID, "org_id": n.OrgID, "key": n.Key, "source": n.Source, "event_type": n.EventType,
		"subject": n.Subject, "payload": string(n.Payload), "due_at": n.DueAt, "at": n.At,
	}
	rows, err := db.Query(ctx, sqlEnqueueJob, args)
	if err != nil {
		return jobs.Enqueued{}, fmt.Errorf("enqueue job: %w", err)
	}
	id, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return jobs.Enqueued{ID: id, CreatedAt: n.At}, err
	}
	rows, err = db.Query(ctx, sqlJobByKey, args)
	if err != nil {
		return jobs.Enqueued{}, fmt.Errorf("find job: %w", err)
	}
	stored, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct {
		ID        string
		CreatedAt time.Time
		Same      bool
	}])
	if err != nil {
		return jobs.Enqueued{}, fmt.Errorf("find job: %w", err)
	}
	if !stored.Same {
		err = jobs.ErrPayloadMismatch
	}
	return jobs.Enqueued{ID: stored.ID, Duplicate: true, CreatedAt: stored.CreatedAt}, err
}

// A job is free when it is due, or its holder's lease has run out, and no other job of its subject comes first: an older
// one that is open, or a newer one that somebody has begun already.
const sqlClaimJobs = `
with free as (
    select j.id from webhook_jobs j
    where (%s)
      and not exists (
        select 1 from webhook_jobs first
        where first.org_id = j.org_id and first.subject = j.subject and first.status in ('pending', 'processing')
          and (first.id < j.id or first.id > j.id and first.status = 'processing' and first.lease_until > @now))
    order by j.id
    limit @limit
    for update of j skip locked
)
update webhook_jobs j
set status = 'processing', lease_token = @token, lease_until = @lease_until, next_retry_at = null, updated_at = @now
from free where j.id = free.id
returning j.id, j.org_id, j.event_type, j.subject, j.payload, j.attempts, j.max_attempts, j.created_at, j.lease_token`

const (
	whereDue  = `j.status = 'pending' and j.next_retry_at <= @now or j.status = 'processing' and j.lease_until <= @now`
	whereByID = `j.id = @id and (j.status = 'pending' or j.status = 'processing' and j.lease_until <= @now)`
)

// ClaimJob claims one job by its id, due or not, and reports whether it was free.
func (s *Store) ClaimJob(ctx context.Context, id string, now, leaseUntil time.Time) (jobs.Job, bool, error) {
	claimed, err := s.claimJobs(ctx, whereByID, pgx.NamedArgs{"id": id, "limit": 1, "now": now, "lease_until": leaseUntil})
	if err != nil || len(claimed) == 0 {
		return jobs.Job{}, false, err
	}
	return claimed[0], true, nil
}

// ClaimDueJobs claims at most limit free jobs that are due, oldest first.
func (s *Store) ClaimDueJobs(ctx context.Context, limit int, now, leaseUntil time.Time) ([]jobs.Job, error) {
	return s.claimJobs(ctx, whereDue, pgx.NamedArgs{"limit": limit, "now": now, "lease_until": leaseUntil})
}

func (s *Store) claimJobs(ctx context.Context, where string, args pgx.NamedArgs) ([]jobs.Job, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("lease token: %w", err)
	}
	args["token"] = token.String()
	rows, err := s.pool.Query(ctx, fmt.Sprintf(sqlClaimJobs, where), args)
	if err != nil {
		return nil, fmt.Errorf("claim jobs: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[jobs.Job])
}

const sqlFinishJob = `
update webhook_jobs
set status = @status, attempts = @attempts, error_message = @message, updated_at = @at,
    next_retry_at = case when @status = 'pending' then @due_at::timestamptz end,
    processed_at = case when @status <> 'pending' then @at::timestamptz end,
    lease_token = null, lease_until = null
where id = @id and status = 'processing' and lease_token = @token`

// FinishJob records the end of an attempt; jobs.ErrFenced when the lease was lost.
func (s *Store) FinishJob(ctx context.Context, f jobs.Finish) error { return finishJob(ctx, s.pool, f) }

// executor is what a pool and a transaction have in common, for statements without an answer.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func finishJob(ctx context.Context, db executor, f jobs.Finish) error {
	tag, err := db.Exec(ctx, sqlFinishJob, pgx.NamedArgs{
		"id": f.Job.ID, "token": f.Job.LeaseToken, "status": f.Status, "attempts": f.Attempts,
		"message": f.Message, "due_at": f.DueAt, "at": f.At,
	})
	if err != nil {
		return fmt.Errorf("finish job: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return jobs.ErrFenced
	}
	return nil
}

// sqlHurry makes the next job of a subject due. Only one that nobody has tried: it waits for its own request to run it,
// which found an older job in its way. One that was put off keeps its time.
const sqlHurry = `
update webhook_jobs set next_retry_at = @now
where id = (
    select id from webhook_jobs
    where org_id = @org_id and subject = @subject and status = 'pending'
      and attempts = 0 and error_message = '' and next_retry_at > @now
    order by id limit 1)`

// HurrySubject makes the next job of a subject due if it was only waiting for its turn, and reports whether there is one.
func (s *Store) HurrySubject(ctx context.Context, orgID, subject string, now time.Time) (bool, error) {
	tag, err := s.pool.Exec(ctx, sqlHurry, pgx.NamedArgs{"org_id": orgID, "subject": subject, "now": now})
	if err != nil {
		return false, fmt.Errorf("hurry the next job: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}
