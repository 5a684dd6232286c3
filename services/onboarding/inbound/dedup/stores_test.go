package dedup_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/schema"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// store has the methods of both adapters.
type store interface {
	Reserve(ctx context.Context, c dedup.Claim) (dedup.Value, error)
	Finish(ctx context.Context, c dedup.Claim, done bool) error
}

// kind is one way to keep reservations. Stores of one kind may share a server, so every test takes its own keys.
type kind struct {
	name string
	open func(t *testing.T) store
}

// kinds are Postgres, a real Redis where there is one, and miniredis.
func kinds(t *testing.T) []kind {
	t.Helper()
	memory := kind{name: "Miniredis", open: func(t *testing.T) store {
		t.Helper()
		return connected(t, "redis://"+miniredis.RunT(t).Addr())
	}}
	all := []kind{{name: "Postgres", open: func(t *testing.T) store {
		t.Helper()
		return &dedup.Postgres{Pool: pgtest.New(t, schema.Migrations())}
	}}, memory}
	if url, found := redisServer(t); found {
		all = append(all, kind{name: "Redis", open: func(t *testing.T) store {
			t.Helper()
			return connected(t, url)
		}})
	}
	return all
}

func connected(t *testing.T, url string) *dedup.Redis {
	t.Helper()
	opened, err := dedup.OpenRedis(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	return opened
}

// redisServer runs a real Redis until the test has ended, if there is one on the PATH.
func redisServer(t *testing.T) (url string, found bool) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return "", false
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s") // a path of at most a hundred characters
	var log bytes.Buffer
	server := exec.CommandContext(context.WithoutCancel(t.Context()), binary,
		"--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	server.Stdout, server.Stderr = &log, &log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Kill())
		_ = server.Wait() // it says that it was killed
	})
	url = "unix://" + socket
	awaitRedis(t, url, &log)
	return url, true
}

func awaitRedis(t *testing.T, url string, log *bytes.Buffer) {
	t.Helper()
	opened, err := dedup.OpenRedis(url)
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !errors.Is(opened.Finish(ctx, dedup.Claim{Key: "not reserved"}, false), dedup.ErrLost) {
		select {
		case <-poll.C:
		case <-ctx.Done():
			require.FailNow(t, "redis-server does not answer", log.String())
		}
	}
}

// start is a time of whole microseconds: a store keeps no finer ones.
var start = time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)

// claim is a claim at a time, for a minute.
func claim(key, owner string, now time.Time) dedup.Claim {
	return dedup.Claim{Key: key, Owner: owner, Now: now, Until: now.Add(time.Minute)}
}

// wins reserves a key and insists on it.
func wins(t *testing.T, s store, c dedup.Claim) {
	t.Helper()
	finds(t, s, c, dedup.Value{Owner: c.Owner, Until: c.Until})
}

// finds asks for a key and compares what stands under it.
func finds(t *testing.T, s store, c dedup.Claim, want dedup.Value) {
	t.Helper()
	got, err := s.Reserve(t.Context(), c)
	require.NoError(t, err)
	require.WithinDuration(t, want.Until, got.Until, 0)
	want.Until = got.Until // the same instant, perhaps in another zone
	require.Equal(t, want, got)
}

func newKey() string { return rand.Text() }
