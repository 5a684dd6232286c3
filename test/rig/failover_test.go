package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/chaos"
)

// TestFailover kills the primary of two synchronous servers under Patroni.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	if err := chaos.FailoverPrograms(); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	cmd := command(t, "chaos", "--failover", "--trials", "kill", "--sessions", "10", "--duration", "30s", "--gap", "1s")
	cmd.Env = append(cmd.Env, "SEND_LEASE=2s", "TWILIO_TIMEOUT=1s", "RECONCILE_INTERVAL=200ms", "ALARM_OVERDUE_GRACE=2s")
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?m)^trial +next text +refused .*\nkill +\d+\.\d s +\d+ +0 +0 +0 +0 +0 +0 +0 +0 +\d+ +true$`, string(out))
}
