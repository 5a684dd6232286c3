package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// listenFirstPause and listenLastPause bound the wait between two attempts to connect; it doubles in between.
	listenFirstPause = 100 * time.Millisecond
	listenLastPause  = 5 * time.Second
	// listenCheck is the time for which a silent connection is trusted. A peer that vanished without a word is noticed by the
	// ping that follows, within pingTimeout.
	listenCheck = 30 * time.Second
)

// Listen calls wake whenever something is notified on channel, until ctx ends. It holds one more connection, not one
// of the pool, and connects again by itself; since notifications are lost meanwhile, wake is called after every connect,
// the first included. A notification only says "look now", so wake must return at once, and its caller must poll as well: an
// outage shows there, as the errors of the polling query, and is not reported twice.
//
// The connection has to be one to the server itself: a pooler that gives connections away by the transaction never passes a notification
// on. It is never in a transaction, so the server's limit for silence in one is none of its business.
func Listen(ctx context.Context, to *pgx.ConnConfig, channel string, wake func()) {
	wait := listenFirstPause
	for {
		if heard := listenOnce(ctx, to, channel, wake); heard {
			wait = listenFirstPause
		}
		if !pause(ctx, wait) {
			return
		}
		wait = min(2*wait, listenLastPause)
	}
}

// listenOnce lives as long as one connection does and reports whether it came to listen. Why it ended does not matter: the
// remedy is always to connect again.
func listenOnce(ctx context.Context, to *pgx.ConnConfig, channel string, wake func()) (heard bool) {
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		defer cancel()
		_ = conn.Close(ctx) // it is closed either way
	}()
	if err := listenOn(ctx, conn, channel); err != nil {
		return false
	}
	wake()
	for waitForNotification(ctx, conn) {
		wake()
	}
	return true
}

func listenOn(ctx context.Context, conn *pgx.Conn, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize())
	return err
}

// waitForNotification reports true once something was notified and false when the connection or ctx has ended. It pings
// the server whenever it has been silent for long.
func waitForNotification(ctx context.Context, conn *pgx.Conn) bool {
	for {
		waitCtx, cancel := context.WithTimeout(ctx, listenCheck)
		_, err := conn.WaitForNotification(waitCtx)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() != nil || conn.IsClosed() {
			return false
		}
		pingCtx, cancel := context.WithTimeout(ctx, pingTimeout)
		err = conn.Ping(pingCtx)
		cancel()
		if err != nil {
			return false
		}
	}
}
