package edge

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/sms"
)

// Conn runs a query: it is the pool or a transaction.
type Conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Collect runs a query and reads its rows.
func Collect[T any](ctx context.Context, c Conn, sql string, args postgres.Args, read pgx.RowToFunc[T]) ([]T, error) {
	rows, err := c.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, read)
}

// CollectInOrder is Collect with sqlInOrder sent ahead.
func CollectInOrder[T any](
	ctx context.Context, db postgres.DB, sql string, args postgres.Args, read pgx.RowToFunc[T],
) (found []T, err error) {
	var batch pgx.Batch
	batch.Queue(sqlInOrder)
	batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, read)
		return err
	})
	err = db.SendBatch(ctx, &batch).Close()
	return found, err
}

// sqlInOrder, sent ahead in the same transaction, makes Postgres read a page from its end of the index by age, and the rows that belong to
// it by a key. Otherwise the planner reads all rows of a status by another index and sorts them, or hashes every message for a few rows of
// the queue.
const sqlInOrder = `select set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('plan_cache_mode', 'force_custom_plan', true)`

// Exec runs a statement of a transaction.
func Exec(ctx context.Context, tx pgx.Tx, sql string, args postgres.Args) error {
	_, err := tx.Exec(ctx, sql, args)
	return err
}

// Value returns *p, or the zero value for NULL.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Null returns NULL for a zero value.
func Null[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Mark wraps an error of the database in the sentinel that callers know; every method of a store ends with it.
func Mark(err *error) {
	if *err != nil && postgres.Outage(*err) {
		*err = fmt.Errorf("%w: %w", sms.ErrUnavailable, *err)
	}
	if *err != nil && postgres.Unanswered(*err) {
		*err = fmt.Errorf("%w: %w", sms.ErrUnanswered, *err)
	}
	if errors.Is(*err, postgres.ErrLocked) {
		*err = fmt.Errorf("%w: %w", sms.ErrLocked, *err)
	}
}
