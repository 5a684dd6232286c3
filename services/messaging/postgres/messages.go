package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

const sqlMessage = sqlByID + ` and org_id = @org`

// Message reads one message of an organisation; send.ErrMessageNotFound when it has no such message.
func (s *Store) Message(ctx context.Context, orgID, id uuid.UUID) (m send.Message, err error) {
	defer mark(&err)
	m, found, err := message(ctx, s.pool, sqlMessage, postgres.Args{"org": orgID, "id": id})
	if err == nil && !found {
		err = send.ErrMessageNotFound
	}
	return m, err
}

// Each of the filters has its index; one query for all would have none.
const (
	sqlNewest          = `select ` + columns + ` from sms_messages where org_id = @org and id < @before order by id desc limit @limit`
	sqlNewestOfProfile = `select ` + columns + ` from sms_messages
		where org_id = @org and profile_id = @profile and (@status::text is null or status = @status) and id < @before
		order by id desc limit @limit`
	sqlOfKey = sqlByKey + ` and (@profile::uuid is null or profile_id = @profile) and (@status::text is null or status = @status)
		and id < @before limit @limit`
	// Statuses that are rare among a million messages have an index of their own, which its condition has to name.
	sqlNewestOfRare = `select ` + columns + ` from sms_messages
		where org_id = @org and status = @status and status not in ('delivered', 'received') and id < @before
		order by id desc limit @limit`
	sqlNewestOfStatus = `select ` + columns + ` from sms_messages
		where org_id = @org and status = @status and id < @before order by id desc limit @limit`
)

// Messages lists messages of an organisation, newest first.
func (s *Store) Messages(ctx context.Context, q send.Query) (found []send.Message, err error) {
	defer mark(&err)
	sql := sqlNewest
	switch {
	case q.Key != "":
		sql = sqlOfKey
	case q.ProfileID != uuid.Nil:
		sql = sqlNewestOfProfile
	case q.Status == sms.Delivered, q.Status == sms.Received:
		sql = sqlNewestOfStatus
	case q.Status != "":
		sql = sqlNewestOfRare
	}
	args := postgres.Args{
		"org": q.OrgID, "profile": null(q.ProfileID), "key": q.Key, "status": null(string(q.Status)), "before": q.Before, "limit": q.Limit,
	}
	if sql != sqlNewestOfRare {
		return messages(ctx, s.pool, sql, args)
	}
	return inOrder(ctx, s.pool, sql, args, toMessage)
}

// inOrder asks for rows with sqlInOrder sent ahead.
func inOrder[T any](ctx context.Context, db postgres.DB, sql string, args postgres.Args, read pgx.RowToFunc[T]) (found []T, err error) {
	var batch pgx.Batch
	batch.Queue(sqlInOrder)
	batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, read)
		return err
	})
	err = db.SendBatch(ctx, &batch).Close()
	return found, err
}

// sqlInOrder, sent ahead in the same transaction, has a page read from its end of the index by age, and what belongs to each of its rows
// by a key: the planner would rather read all that have a status by another index and sort them, or hash every message for a few rows of
// the queue.
const sqlInOrder = `select set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('plan_cache_mode', 'force_custom_plan', true)`
