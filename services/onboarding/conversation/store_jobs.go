package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/session"
)

// tableOfJobs is webhook_jobs as platform/queue has it.
func tableOfJobs(pool postgres.DB) *queue.Queue {
	return queue.NewQueue(pool, queue.Table{Name: JobsTable, Extra: []string{"source"}})
}

// inTransactions is the queue for what happens in a transaction that exists already.
var inTransactions = tableOfJobs(nil)

// KeptJobs is the condition of queue.Retention on finished jobs that stay: a reply that was held is in its job, and so
// is the work that was under way when a session was parked; and what an operator is asked for does not go away by itself.
const KeptJobs = `exists (select 1 from held_replies h where h.job_id = j.id)
    or exists (select 1 from conversation_sessions s where s.parked_job_id = j.id)
    or j.status = 'failed' and j.error_message like '` + NeedsOperator + `%'`

// Jobs is the queue, to claim from and to list.
func (s *Store) Jobs() *queue.Queue { return s.jobs }

// Enqueue stores a job, or finds the one that its key already has. queue.ErrPayloadMismatch when that one carries something else.
func (s *Store) Enqueue(ctx context.Context, n queue.New) (queue.Enqueued, error) {
	return s.intake.Enqueue(ctx, n)
}

const sqlReplyWaits = `
select exists (select from webhook_jobs where org_id = @org and status in ('pending', 'processing') and subject in (@phone, @waits)
    and event_type = '` + EventResumedReply + `' and (payload ->> 'place')::int = @place::int)`

// ReplyWaits reports whether a reply waits to be answered in the place where a session stands, or has its turn next.
func (s *Store) ReplyWaits(ctx context.Context, r session.Record, phone string) (waits bool, err error) {
	err = s.pool.QueryRow(ctx, sqlReplyWaits, postgres.Args{
		"org": r.OrgID, "phone": phone, "waits": replySubject(r.ID, r.Place()), "place": r.Place(),
	}).Scan(&waits)
	if err != nil {
		return false, fmt.Errorf("read whether a reply waits: %w", err)
	}
	return waits, nil
}

const sqlAwaitsOperator = `
select exists (select from webhook_jobs where org_id = $1 and status = 'failed' and subject = $2
    and error_message like '` + NeedsOperator + `%')`

// AwaitsOperator reports whether a failed job of a phone asks an operator for something already.
func (s *Store) AwaitsOperator(ctx context.Context, orgID, phone string) (asked bool, err error) {
	if err := s.pool.QueryRow(ctx, sqlAwaitsOperator, orgID, phone).Scan(&asked); err != nil {
		return false, fmt.Errorf("read what an operator was asked: %w", err)
	}
	return asked, nil
}

// sqlJudgeJobs keeps the errors, which say what the jobs were about.
const sqlJudgeJobs = `
update webhook_jobs set status = 'cancelled', processed_at = @at, updated_at = @at
where org_id = @org and status = 'failed' and subject = @phone and created_at <= @before
  and error_message like '` + NeedsOperator + AmbiguousReason + `%'`

// JudgeJobs cancels the failed jobs of a phone from before an instant that ask an operator whether words are an opt-out.
func (s *Store) JudgeJobs(ctx context.Context, orgID, phone string, before, at time.Time) error {
	_, err := s.pool.Exec(ctx, sqlJudgeJobs, postgres.Args{"org": orgID, "phone": phone, "before": before, "at": at})
	if err != nil {
		return fmt.Errorf("cancel what an operator was asked: %w", err)
	}
	return nil
}

func enqueue(ctx context.Context, tx pgx.Tx, n queue.New) (queue.Enqueued, error) {
	return inTransactions.Enqueue(ctx, tx, n)
}

// EnqueueIn stores a job in a transaction, or finds the one that its key already has.
func EnqueueIn(ctx context.Context, tx pgx.Tx, n queue.New) (queue.Enqueued, error) {
	return enqueue(ctx, tx, n)
}

// finishJob records the end of an attempt; queue.ErrFenced when the lease was lost.
func finishJob(ctx context.Context, tx pgx.Tx, end queue.Finish) error {
	return inTransactions.FinishIn(ctx, tx, end)
}
