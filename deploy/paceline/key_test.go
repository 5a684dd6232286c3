package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKeys makes a key, calls /v1 with it, and revokes it.
func TestKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	data := dataFolder(t)
	up := startUp(t, data)
	key := func(environ map[string]string, args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"key"}, append(args, "--data", data)...), terminal{out: &out, environ: environ})
		return out.String(), err
	}
	made, err := key(nil, "create", "--role", "operator", "ci")
	require.NoError(t, err)
	require.Regexp(t, `^pl_live_[0-9A-Za-z]{38}\n$`, made)
	held := map[string]string{apiTokenVariable: strings.TrimSpace(made)}
	said, err := key(held, "list")
	require.NoError(t, err)
	require.Regexp(t, `^\S+ +ci +operator +\.\.\.[0-9A-Za-z]{4} +accepted +used \S+Z\n$`, said)
	id, _, _ := strings.Cut(said, " ")
	said, err = key(held, "revoke", id)
	require.NoError(t, err)
	require.Contains(t, said, "is revoked")
	require.Eventually(t, func() bool {
		_, err := key(held, "list")
		return err != nil && strings.Contains(err.Error(), "was revoked")
	}, 5*time.Second, 100*time.Millisecond)
	said, err = key(nil, "list")
	require.NoError(t, err)
	require.Contains(t, said, " revoked ")
	up.stop(t, syscall.SIGTERM)
}
