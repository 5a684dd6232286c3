package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
)

const (
	sqlNumberOfUser = `
select phone from profiles where org_id = $1 and whatsapp_user_id = $2 order by updated_at desc, id desc limit 1`
	// sqlFailedOf repeats the condition of the index webhook_jobs_nameless.
	sqlFailedOf = `
select id::text, org_id::text, event_type, subject, payload, created_at from webhook_jobs
where org_id = $1 and subject = $2 and subject like 'whatsapp:%' and event_type = $3 and status = 'failed'
order by created_at, id limit 100`
	// sqlLearnUser takes the id from the person who had it: they have another number now.
	sqlLearnUser = `
update profiles set whatsapp_user_id = case when phone = @phone then @user end, updated_at = @at
where org_id = @org and (phone = @phone or whatsapp_user_id = @user)`
	// sqlNumberJobs puts the jobs among the person's others. They keep their ids, which order them.
	sqlNumberJobs = `
update webhook_jobs set subject = @phone where org_id = @org and id = any(@jobs::uuid[]) and status = 'failed'`
)

// NumberOfUser implements the port of the Service.
func (s *Store) NumberOfUser(ctx context.Context, orgID, userID string) (phone string, err error) {
	err = s.pool.QueryRow(ctx, sqlNumberOfUser, orgID, userID).Scan(&phone)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return phone, err
}

// FailedOf implements the port of the Service.
func (s *Store) FailedOf(ctx context.Context, orgID, subject, eventType string) ([]queue.Job, error) {
	rows, err := s.pool.Query(ctx, sqlFailedOf, orgID, subject, eventType)
	if err != nil {
		return nil, fmt.Errorf("read failed jobs: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (j queue.Job, err error) {
		err = row.Scan(&j.ID, &j.OrgID, &j.EventType, &j.Subject, &j.Payload, &j.CreatedAt)
		return j, err
	})
}

// LearnUser implements the port of the Service.
func (s *Store) LearnUser(ctx context.Context, l Learned) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		jobs := make([]string, len(l.Jobs))
		for i, j := range l.Jobs {
			jobs[i] = j.ID
		}
		args := postgres.Args{"org": l.OrgID, "phone": l.Phone, "user": l.UserID, "at": l.At, "jobs": jobs}
		for _, sql := range []string{sqlLearnUser, sqlNumberJobs} {
			if _, err := tx.Exec(ctx, sql, args); err != nil {
				return fmt.Errorf("learn the user of a number: %w", err)
			}
		}
		for _, j := range l.Jobs {
			var other *queue.StatusError
			if _, err := s.jobs.Retry(ctx, tx, l.OrgID, j.ID, l.At); err != nil && !errors.As(err, &other) && !errors.Is(err, queue.ErrNoJob) {
				return err
			}
		}
		return nil
	})
}
