package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	connecting := func(code string) error {
		return errors.Join(&pgconn.ConnectError{Config: &pgconn.Config{}}, &pgconn.PgError{Code: code})
	}
	for _, tc := range []struct {
		name       string
		err        error
		want, open bool // open: what was asked may be committed
	}{
		{name: "ServerIsShuttingDown", err: &pgconn.PgError{Code: "57P01"}, want: true, open: true},
		{name: "ServerHasNoConnectionLeft", err: &pgconn.PgError{Code: "53300"}, want: true},
		{name: "PrimaryHasBecomeAStandby", err: &pgconn.PgError{Code: "25006"}, want: true},
		{name: "SerializationFailsTooOften", err: &pgconn.PgError{Code: "40001"}, want: true},
		{name: "R_02_StatementTookTooLong", err: &pgconn.PgError{Code: "57014"}, want: true},
		{name: "R_02_RowIsLockedForTooLong", err: &pgconn.PgError{Code: "55P03"}, want: true},
		{name: "R_02_TransactionWasSilentForTooLong", err: &pgconn.PgError{Code: "25P03"}, want: true},
		{name: "R_02_SessionWasSilentForTooLong", err: &pgconn.PgError{Code: "57P05"}, want: true, open: true},
		{name: "ConnectionCannotBeMade", err: &pgconn.ConnectError{}, want: true},
		{name: "DatabaseTakesNoConnections", err: connecting("55000"), want: true},
		{name: "PasswordIsAnotherNow", err: connecting("28P01"), want: true},
		{name: "ConnectionBreaks", err: fmt.Errorf("read: %w", io.ErrUnexpectedEOF), want: true, open: true},
		{name: "NetworkFails", err: &net.OpError{Op: "read", Err: errors.New("reset")}, want: true, open: true},
		{name: "ConnectionEndsBeneathABatch", err: fmt.Errorf("claim: %w", pgconn.ErrConnClosed), want: true, open: true},
		{name: "TimeIsOver", err: fmt.Errorf("acquire: %w", context.DeadlineExceeded), want: true, open: true},
		{name: "UniqueViolationIsAnAnswer", err: &pgconn.PgError{Code: "23505"}},
		{name: "SyntaxErrorIsOurs", err: &pgconn.PgError{Code: "42601"}},
		{name: "AnythingElseIsNot", err: errors.New("no")},
		{name: "NoErrorIsNone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, postgres.Outage(tc.err))
			require.Equal(t, tc.open, postgres.Unanswered(tc.err))
		})
	}
}
