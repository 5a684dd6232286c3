package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

const sqlInOrder = postgres.InOrder

func allInOrder[T any](ctx context.Context, db postgres.DB, sql string, args postgres.Args, read pgx.RowToFunc[T]) ([]T, error) {
	return postgres.AllInOrder(ctx, db, sql, args, read)
}

func inOrder[T any](ctx context.Context, db postgres.DB, sql string, args postgres.Args, read pgx.RowToFunc[T]) (T, error) {
	return postgres.OneInOrder(ctx, db, sql, args, read)
}
