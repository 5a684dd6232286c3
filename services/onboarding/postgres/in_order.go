package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// sqlInOrder, sent ahead in the same transaction, has each page read from its end of an index: the planner, which takes nearly all rows for
// hidden by their policies, would rather read all that have the status and sort them.
const sqlInOrder = `select set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// allInOrder asks for rows with sqlPlannedNow and sqlInOrder sent ahead.
func allInOrder[T any](ctx context.Context, db postgres.DB, sql string, args postgres.Args, read pgx.RowToFunc[T]) (found []T, err error) {
	var batch pgx.Batch
	batch.Queue(sqlPlannedNow)
	batch.Queue(sqlInOrder)
	batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, read)
		return err
	})
	err = db.SendBatch(ctx, &batch).Close()
	return found, err
}

// inOrder is allInOrder of one row.
func inOrder[T any](ctx context.Context, db postgres.DB, sql string, args postgres.Args, read pgx.RowToFunc[T]) (T, error) {
	found, err := allInOrder(ctx, db, sql, args, read)
	if err != nil || len(found) == 0 {
		var none T
		return none, cmp.Or(err, pgx.ErrNoRows)
	}
	return found[0], nil
}
