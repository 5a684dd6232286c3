package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// PlanNow is sent ahead in the same transaction and has a statement planned for the tables as they are now, by their indexes. A full
// scan that it forbids has a cost that would have the statement compiled first, for a second.
const PlanNow = `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('jit', 'off', true)`

// InOrder is sent ahead in the same transaction and has a page read from its end of an index: the planner takes nearly all rows for hidden
// by their policies, and would read all that have the status and sort them.
const InOrder = `select set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// AllInOrder reads rows with PlanNow and InOrder sent ahead.
func AllInOrder[T any](ctx context.Context, db DB, sql string, args Args, read pgx.RowToFunc[T]) (found []T, err error) {
	var batch pgx.Batch
	batch.Queue(PlanNow)
	batch.Queue(InOrder)
	batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, read)
		return err
	})
	err = db.SendBatch(ctx, &batch).Close()
	return found, err
}

// OneInOrder is AllInOrder of one row; pgx.ErrNoRows.
func OneInOrder[T any](ctx context.Context, db DB, sql string, args Args, read pgx.RowToFunc[T]) (T, error) {
	found, err := AllInOrder(ctx, db, sql, args, read)
	if err != nil || len(found) == 0 {
		var none T
		return none, cmp.Or(err, pgx.ErrNoRows)
	}
	return found[0], nil
}

// Notify notifies all that listen on a channel when the transaction commits. It makes commits wait for each other, so it stays off the
// paths that every step takes.
func Notify(ctx context.Context, tx pgx.Tx, channel string) error {
	if _, err := tx.Exec(ctx, `select pg_notify($1, '')`, channel); err != nil {
		return fmt.Errorf("notify %s: %w", channel, err)
	}
	return nil
}

// TimeOf returns the time of a column; the zero time for null.
func TimeOf(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// NullIfZero returns the column of a time; null for the zero time.
func NullIfZero(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// Age returns how long ago a time was; 0 for null and for a time to come.
func Age(at *time.Time, now time.Time) time.Duration {
	if at == nil {
		return 0
	}
	return max(now.Sub(*at), 0)
}
