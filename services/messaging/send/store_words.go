package send

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// wordsReach bounds the newest messages among which words are looked for first, and the messages that have them.
const wordsReach = 5_000

const (
	sqlAskedWords = ` and direction = 'inbound' and words_of(body) @@ plainto_tsquery('simple', without_accents(@words))`

	// sqlNewestWithWords looks among the newest messages: words that many have are found there soon.
	sqlNewestWithWords = `select ` + Columns + ` from (
    select ` + Columns + ` from sms_messages where org_id = @org and id < @before order by id desc limit @reach) m
where true` + sqlAskedWords + ` order by id desc limit @limit`

	// sqlWithWords looks along the index of words, for those that few have.
	sqlWithWords = `select f.id from (
    select id from sms_messages where org_id = @org and id < @before` + sqlAskedWords + ` limit @reach) f
order by f.id desc limit @limit`

	sqlOfThese = `select ` + Columns + ` from sms_messages where org_id = @org and id = any(@ids) order by id desc`
)

// sqlAsWorker has the statements behind it in the same transaction run as the role that no policy bounds.
var sqlAsWorker = `select set_config('role', '` + postgres.RolesOf("messaging").Worker + `', true)`

// withWords lists messages of people with all of these words, newest first. A policy would keep the condition from the index, because it
// cannot be sure that the condition tells nothing of the rows that it hides; so one statement is bounded to the organisation by itself.
func (s *Store) withWords(ctx context.Context, q Query) ([]Message, error) {
	args := postgres.Args{"org": q.OrgID, "words": q.Words, "before": q.Before, "limit": q.Limit, "reach": wordsReach}
	found, err := messages(ctx, s.pool, sqlNewestWithWords, args)
	if err != nil || len(found) == q.Limit {
		return found, err
	}
	var ids []uuid.UUID
	var batch pgx.Batch
	batch.Queue(sqlAsWorker)
	batch.Queue(postgres.PlanNow)
	batch.Queue(sqlWithWords, args).Query(func(rows pgx.Rows) (err error) {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	if err := s.pool.SendBatch(postgres.AcrossOrganisations(ctx), &batch).Close(); err != nil {
		return nil, fmt.Errorf("search messages: %w", err)
	}
	return messages(ctx, s.pool, sqlOfThese, postgres.Args{"org": q.OrgID, "ids": ids})
}
