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

// TestOrganisations sets a second organisation up, suspends it, ends it and takes that back.
func TestOrganisations(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	data := dataFolder(t)
	up := startUp(t, data)
	command := func(environ map[string]string, args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append(args, "--data", data), terminal{out: &out, environ: environ})
		return out.String(), err
	}
	works := func(args ...string) string {
		said, err := command(nil, args...)
		require.NoError(t, err)
		return strings.TrimSpace(said)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(works("org", "list"), firstOrganisation+"  Default organisation  active")
	},
		20*time.Second, 100*time.Millisecond, "the first organisation has a row without a change of the environment")
	id := works("org", "create", "Acme")
	key := works("org", "key", id, "admin")
	_, err := command(nil, "org", "key", id, "admin")
	require.ErrorContains(t, err, "REASON_ORGANISATION_HAS_KEY")
	held := map[string]string{apiTokenVariable: key}
	said, err := command(held, "key", "list")
	require.NoError(t, err)
	require.Contains(t, said, "admin")
	_, err = command(held, "org", "list")
	require.ErrorContains(t, err, "403", "a key of an organisation is not of the platform")

	require.Equal(t, "Acme: suspended (unpaid)", works("org", "suspend", id, "--reason", "unpaid"))
	_, err = command(held, "key", "list")
	require.NoError(t, err, "it may still look")
	require.Regexp(t, `^Acme: ended, is erased after \S+Z \(left\)$`, works("org", "end", id, "--reason", "left"))
	require.Eventually(t, func() bool {
		_, err := command(held, "key", "list")
		return err != nil && strings.Contains(err.Error(), "the organisation has ended")
	}, 5*time.Second, 100*time.Millisecond)
	require.Equal(t, "Acme: active", works("org", "resume", id))
	require.Eventually(t, func() bool {
		_, err := command(held, "key", "list")
		return err == nil
	}, 5*time.Second, 100*time.Millisecond)
	up.stop(t, syscall.SIGTERM)
}
