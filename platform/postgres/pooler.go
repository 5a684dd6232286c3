package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// arrival names the database that a connection reached, and its server.
type arrival struct {
	Database string
	Started  time.Time // of the server: a copy of it has the same identifier
	Standby  bool
}

const sqlArrival = `select current_database() as database, pg_postmaster_start_time() as started, pg_is_in_recovery() as standby`

// sameDatabase returns ErrOtherService when the direct URL leads to another database than the URL: no notification arrives there. During
// a failover one of both may lead to a standby.
func sameDatabase(ctx context.Context, service string, through, direct *pgx.ConnConfig) error {
	a, err := arrivalOf(ctx, through)
	if err != nil {
		return err
	}
	b, err := arrivalOf(ctx, direct)
	if err != nil {
		return err
	}
	if a.Database == b.Database && (a.Started.Equal(b.Started) || a.Standby || b.Standby) {
		return nil
	}
	variable := strings.ToUpper(service) + "_DATABASE_"
	return fmt.Errorf("%w: %sDIRECT_URL leads to another database than %sURL", ErrOtherService, variable, variable)
}

func arrivalOf(ctx context.Context, to *pgx.ConnConfig) (_ arrival, err error) {
	to = to.Copy()
	to.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return arrival{}, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows, _ := conn.Query(ctx, sqlArrival) // Collect returns the error that rows carry
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[arrival])
}

// servedBy is the server's process behind a connection.
func servedBy(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	if err := conn.QueryRow(ctx, `select pg_backend_pid()`).Scan(&pid); err != nil {
		return 0, fmt.Errorf("look for a pooler: %w", err)
	}
	return pid, nil
}
