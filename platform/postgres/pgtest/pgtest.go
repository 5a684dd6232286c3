// Package pgtest lends every test a PostgreSQL database, cloned from one that was migrated once.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"paceline.internal/platform/postgres"
)

const (
	// dropTimeout bounds what happens after a test, when its own context has ended.
	dropTimeout = 30 * time.Second
	// gcPercent lets the heap of a test binary grow, which is small, to collect it less often.
	gcPercent = 400
)

// New returns a pool on a migrated database that exists for this test alone while it runs. Like a service in production it connects by a
// login that serves: it has what the schema grants to the roles of the service, and owns no table. Owner is for what that may not do.
// Tests may run in parallel. Migrations without a service, and zero ones, which give an empty database, have the owner connect.
//
// The database and the server's processes are as new, but an earlier test may have had them: New takes them back from a test that passed,
// left no connection open and left the schema as it was. Only what pg_stat_user_tables counts is of all of them: a test of that takes URL.
func New(tb testing.TB, m postgres.Migrations) *pgxpool.Pool {
	tb.Helper()
	server, err := running(m)
	check(tb, err)
	l, err := server.lease(tb.Context(), m)
	check(tb, err)
	leased.Store(l.name, l)
	tb.Cleanup(func() {
		leased.Delete(l.name)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), dropTimeout)
		defer cancel()
		check(tb, l.release(ctx, tb.Failed()))
	})
	return l.pool(tb, login(m))
}

// leased has the leases that tests have now, by the names of the databases.
var leased sync.Map

// Owner returns a pool of the owner on the database of New, for a test that makes what a service in production cannot do.
func Owner(tb testing.TB, of *pgxpool.Pool) *pgxpool.Pool {
	tb.Helper()
	if found, ok := leased.Load(of.Config().ConnConfig.Database); ok {
		l, _ := found.(*lease)
		return l.pool(tb, owner)
	}
	pool, err := postgres.Open(tb.Context(), postgres.Config{URL: OwnerURL(tb, of.Config().ConnString())})
	check(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// OwnerURL returns the URL by which the owner of the database of URL reaches it: for migrate.
func OwnerURL(tb testing.TB, of string) string {
	tb.Helper()
	server, err := running(postgres.Migrations{})
	check(tb, err)
	served, err := url.Parse(of)
	check(tb, err)
	return server.url(strings.TrimPrefix(served.Path, "/"), owner)
}

// URL is New for a test that opens its own connections.
func URL(tb testing.TB, m postgres.Migrations) string {
	tb.Helper()
	server, err := running(m)
	check(tb, err)
	template, err := server.template(tb.Context(), m)
	check(tb, err)
	name := newName()
	check(tb, server.clone(tb.Context(), template, name))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), dropTimeout)
		defer cancel()
		check(tb, server.drop(ctx, name))
	})
	return server.url(name, login(m))
}

func newName() string { return "test_" + strings.ToLower(rand.Text()) }

// login returns the login of the tests of a schema.
func login(m postgres.Migrations) string {
	if m.Service != "" {
		return serving
	}
	return owner
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Run is the body of TestMain in a package that uses pgtest: it runs the tests, stops the server, and fails when a goroutine
// was left behind. Without it the server still dies with the process, and the next one removes its files.
func Run(m *testing.M) {
	debug.SetGCPercent(gcPercent)
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goleak:", err)
			code = 1
		}
	}
	os.Exit(code)
}
