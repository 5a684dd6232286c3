package queue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// sqlByIndex, sent ahead in the same transaction, keeps the planner from reading the whole table because it was empty when it was
// last analysed, and from planning the same statement again and again: the plan is kept for as long as the connection is.
const sqlByIndex = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true)`

// byIndex sends a statement behind sqlByIndex, and reads its answer.
func (q *Queue) byIndex(ctx context.Context, db postgres.DB, read func(rows pgx.Rows) error, sql string, args ...any) error {
	return behind(ctx, db, q.sql.byIndex, read, sql, args...)
}

// behind sends two statements in one transaction, the first of which sets how the second is planned, and reads the answer of the second.
func behind(ctx context.Context, db postgres.DB, first string, read func(rows pgx.Rows) error, sql string, args ...any) error {
	var batch pgx.Batch
	batch.Queue(first)
	batch.Queue(sql, args...)
	results := db.SendBatch(ctx, &batch)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = read(rows)
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return err
}

// scan reads the columns of a row behind its first one.
type scan func(dest ...any) error

// forEach runs a statement in the form of postgres.Statement, and returns what its rows say: for one row of arguments in a transaction that
// others may share, for more in its own one.
func forEach[T any](ctx context.Context, q *Queue, sql string, all []postgres.Args, read func(scan) (T, error)) (said []T, err error) {
	if len(all) == 1 {
		var one T
		var rows int
		err := q.hot.Do(ctx, "", postgres.Statement{SQL: sql, Args: all[0], Rows: &rows, Read: func(row pgx.CollectableRow) (err error) {
			one, err = read(row.Scan)
			return err
		}})
		if err != nil || rows == 0 {
			return nil, err
		}
		return []T{one}, nil
	}
	together := postgres.Args{}
	for _, args := range all {
		for name, value := range args {
			values, _ := together[name].([]any)
			together[name] = append(values, value)
		}
	}
	err = q.byIndex(ctx, q.pool, func(rows pgx.Rows) (err error) {
		said, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) {
			return read(func(dest ...any) error { return row.Scan(append([]any{nil}, dest...)...) }) // pgx passes over a nil
		})
		return err
	}, sql, together)
	return said, err
}
