package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs, from the appendix "PostgreSQL Error Codes" of its manual.
const (
	codeUniqueViolation      = "23505"
	codeSerializationFailure = "40001"
	codeDeadlockDetected     = "40P01"
	codeUndefinedTable       = "42P01"
	codeLockNotAvailable     = "55P03"
)

const (
	// txAttempts bounds how often a transaction that lost a conflict is run: the first time and four more.
	txAttempts = 5
	// txPause is the wait before the second attempt; each further one waits twice as long. It is not random: of two
	// transactions in a deadlock the server aborts one, so they do not meet again in step.
	txPause = 5 * time.Millisecond
	// rollbackTimeout bounds the rollback, which must happen although the caller has given up.
	rollbackTimeout = 5 * time.Second
)

// InTx runs fn in one transaction and commits it when fn returns nil. When the server aborts it for a serialization
// failure or a deadlock, fn runs again, at most five times: so fn must not keep anything from an earlier run, and
// must not call another service.
func InTx(ctx context.Context, db DB, fn func(pgx.Tx) error) error {
	wait := txPause
	for attempt := 1; ; attempt++ {
		err := tryTx(ctx, db, fn)
		if err == nil || attempt == txAttempts || !lostConflict(err) || !pause(ctx, wait) {
			return err
		}
		wait *= 2
	}
}

// sqlBriefLocks bounds the wait for a lock of a transaction that passes over locked rows: long enough for one that is held by a transaction
// at work, which takes milliseconds.
const sqlBriefLocks = `set local lock_timeout = '100ms'`

// ErrLocked is a transaction that would have had to wait for a row that another one has locked. Nothing has happened.
var ErrLocked = errors.New("postgres: another transaction has locked it")

// InTxUnlessLocked is InTx for a loop that works one row after the other: it is ErrLocked instead of waiting for a lock, so that a
// frozen process that holds one row does not hold up all others.
func InTxUnlessLocked(ctx context.Context, pool DB, fn func(pgx.Tx) error) error {
	err := InTx(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlBriefLocks); err != nil {
			return fmt.Errorf("postgres: lock timeout: %w", err)
		}
		return fn(tx)
	})
	if lockedOut(err) {
		return fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return err
}

// lockedOut is the server's refusal to wait any longer for a lock.
func lockedOut(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == codeLockNotAvailable
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tryTx is pgx.BeginTxFunc but for the rollback, which there runs under the context that may just have been cancelled
// and then costs the connection.
func tryTx(ctx context.Context, db DB, fn func(pgx.Tx) error) (err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return fmt.Errorf("postgres: begin: %w", err)
	}
	defer func() { // also when fn panics
		if rollbackErr := rollback(ctx, tx); rollbackErr != nil {
			err = errors.Join(err, rollbackErr)
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("postgres: commit: %w", err)
	}
	return nil
}

// rollback ends a transaction, also one of a caller that has given up; of one that has ended it says nothing.
func rollback(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) && !closed(tx) {
		return fmt.Errorf("postgres: rollback: %w", err)
	}
	return nil
}

// closed reports whether the connection of a transaction is gone, which is a rollback too. The error that closed it says more.
func closed(tx pgx.Tx) bool { return tx.Conn().IsClosed() }

func lostConflict(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == codeSerializationFailure || pgErr.Code == codeDeadlockDetected)
}

// IsUniqueViolation reports whether err is the server's refusal of a duplicate under the named constraint or index.
func IsUniqueViolation(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == codeUniqueViolation && pgErr.ConstraintName == constraint
}
