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
	return pair(tb, (*embeddedpg.Server).Standby)
}

// Spare starts a server for this test alone, and makes the place for a backup of it, which the test makes and begins.
func Spare(tb testing.TB) (server, spare *embeddedpg.Server) {
	tb.Helper()
	return pair(tb, (*embeddedpg.Server).Spare)
}

func pair(tb testing.TB, second func(*embeddedpg.Server, context.Context) (*embeddedpg.Server, error)) (_, _ *embeddedpg.Server) {
	tb.Helper()
	first, err := embeddedpg.Start(tb.Context(), embeddedpg.Config{Throwaway: true, Seed: embeddedpg.Seed{Name: "empty"}})
	check(tb, err)
	end(tb, first)
	other, err := second(first, tb.Context())
	if errors.Is(err, embeddedpg.ErrNoBackup) {
		tb.Skip(err)
	}
	check(tb, err)
	end(tb, other)
	return first, other
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
