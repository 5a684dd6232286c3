package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/services/messaging/delivery"
)

// mark makes an error that another try may not meet a delivery.ErrUnavailable; every method of Store ends with it.
func mark(err *error) {
	if *err != nil && outage(*err) {
		*err = fmt.Errorf("%w: %w", delivery.ErrUnavailable, *err)
	}
}

// outage reports whether the database was out of reach, out of time, or busy with itself, instead of refusing what we
// asked. SQLSTATE classes are from the appendix "PostgreSQL Error Codes" of its manual.
func outage(err error) bool {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, class := range []string{
			"08",    // connection exception
			"25006", // read-only: a primary that has just become a standby
			"40",    // transaction rollback, after InTx has tried often enough
			"53",    // insufficient resources
			"55P03", // lock not available
			"57",    // operator intervention: shutdown, start-up, cancelled
			"58",    // system error
		} {
			if strings.HasPrefix(refused.Code, class) {
				return true
			}
		}
		return false
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connecting || network || pgconn.SafeToRetry(err) || errors.Is(err, errClaimContended) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
