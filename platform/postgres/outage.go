package postgres

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// outageClasses are the SQLSTATEs of a server that is busy with itself, from the appendix "PostgreSQL Error Codes" of its
// manual.
var outageClasses = []string{
	"08",    // connection exception
	"25006", // read-only: a primary that has just become a standby
	"25P03", // silent in a transaction for too long: the session was ended
	"40",    // transaction rollback, after InTx has tried often enough
	"53",    // insufficient resources
	"55P03", // lock not available
	"57",    // operator intervention: shutdown, start-up, cancelled
	"58",    // system error
}

// Outage reports whether an error says that the database was out of reach, out of time, or busy with itself, instead of
// refusing what it was asked: another try may not meet it. That it could not be reached at all is one whatever the reason, a
// database that takes no connections or a password that has just been changed: what was asked is not at fault.
func Outage(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return true
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return slices.ContainsFunc(outageClasses, func(class string) bool { return strings.HasPrefix(refused.Code, class) })
	}
	return unanswered(err) || pgconn.SafeToRetry(err)
}

// Unanswered reports whether an error leaves open what the server did: it was asked, and the connection or the time ended before its answer
// came. What was asked may have been committed, or may yet be.
func Unanswered(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(refused.Code, "57P") // it is shutting down, perhaps after the commit
	}
	return unanswered(err) && (errors.Is(err, pgconn.ErrConnClosed) || !pgconn.SafeToRetry(err))
}

// unanswered includes pgconn.ErrConnClosed, which pgx calls safe to retry. It also returns it for a batch that was sent when its
// connection ended before the answer.
func unanswered(err error) bool {
	_, network := errors.AsType[net.Error](err) // an expired context is one, too
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed)
}
