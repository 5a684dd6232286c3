package pgtest

import (
	"context"
	"errors"
	"testing"

	"paceline.internal/platform/postgres/embeddedpg"
)

// Pair starts a server and a standby that follows it asynchronously, both for this test alone. It skips the test on a machine without
// pg_basebackup.
func Pair(tb testing.TB) (primary, standby *embeddedpg.Server) {
	tb.Helper()
	primary, err := embeddedpg.Start(tb.Context(), embeddedpg.Config{Throwaway: true})
	check(tb, err)
	end(tb, primary)
	standby, err = primary.Standby(tb.Context())
	if errors.Is(err, embeddedpg.ErrNoBackup) {
		tb.Skip(err)
	}
	check(tb, err)
	end(tb, standby)
	return primary, standby
}

// end stops a server behind the test.
func end(tb testing.TB, server *embeddedpg.Server) {
	tb.Helper()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), dropTimeout)
		defer cancel()
		check(tb, server.Stop(ctx))
	})
}
