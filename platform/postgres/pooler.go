package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// throughPooler reports whether a pooler that assigns connections by the transaction stands before the database. A server tells a client
// the number of the process that serves it; where it is right there is no pooler. Where it is not, two connections at once show what
// the pooler does: by the session, each keeps its own process. The order of asking finds a pooler that takes turns between two.
func throughPooler(ctx context.Context, to *pgx.ConnConfig) (_ bool, err error) {
	to = to.Copy()
	to.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	first, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, first.Close(ctx)) }()
	pid, err := servedBy(ctx, first)
	if err != nil || pid == first.PgConn().PID() {
		return false, err
	}
	second, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, second.Close(ctx)) }()
	serves := map[uint32]*pgx.Conn{pid: first}
	for _, conn := range []*pgx.Conn{second, second, first, first, second, second, first} {
		pid, err := servedBy(ctx, conn)
		if err != nil {
			return false, err
		}
		if whose, known := serves[pid]; known && whose != conn || !known && len(serves) > 1 {
			return true, nil
		}
		serves[pid] = conn
	}
	return false, nil
}

// servedBy is the server's process behind a connection.
func servedBy(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	if err := conn.QueryRow(ctx, `select pg_backend_pid()`).Scan(&pid); err != nil {
		return 0, fmt.Errorf("look for a pooler: %w", err)
	}
	return pid, nil
}
