package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/test/chaos"
)

func TestMain(m *testing.M) {
	if os.Getenv(selfIsTest) != "" {
		main()
		return
	}
	pgtest.Run(m)
}

// command returns `rig args...` as a separate process.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), selfIsTest+"=1")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestChaosOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for _, engine := range []string{"qstash", "postgres"} {
		t.Run("S0_65_KeepsEveryPromiseWhileProcessesAreKilled/"+engine, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, "chaos", "--processes", "--sessions", "12", "--duration", "12s", "--gap", "1s", "--kill-every", "1500ms")
			cmd.Env = append(cmd.Env, "SEND_LEASE=2s", "TWILIO_TIMEOUT=1s", "RECONCILE_INTERVAL=200ms", "ALARM_OVERDUE_GRACE=2s", "ALARMS="+engine)
			out, err := cmd.Output()
			require.NoError(t, err, "%s", out)

			var report chaos.Report
			require.NoError(t, json.Unmarshal(out, &report))
			require.True(t, report.Kept)
			require.Empty(t, report.Broken)
			require.GreaterOrEqual(t, report.Sessions, 10)
			require.GreaterOrEqual(t, report.Texts, 40)
			require.Positive(t, report.SpacingAll.Count)
			kills := 0
			for _, n := range report.Kills {
				kills += n
			}
			require.Positive(t, kills)
			require.Equal(t, kills, report.RecoveryToReady.Count)
			require.Equal(t, "200ms", report.Knobs["RECONCILE_INTERVAL"])
			require.Equal(t, engine, report.Knobs["ALARMS"])
			require.Empty(t, report.Folder)
		})
	}

	for name, behind := range map[string][]string{"": nil, "BehindNginx": {"--nginx"}} {
		// One after the other: where a machine has no time for them, a request is refused because it takes too long.
		t.Run("RefusesNothingWhileProcessesAreReplaced"+name, func(t *testing.T) {
			cmd := command(t, append([]string{
				"chaos", "--processes", "--sessions", "8", "--duration", "12s", "--gap", "1s", "--kill-every", "0s",
				"--silence-every", "0s", "--replicas", "2", "--roll-every", "500ms",
			}, behind...)...)
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			if strings.Contains(said.String(), chaos.ErrNoNginx.Error()) {
				t.Skip(chaos.ErrNoNginx)
			}
			require.NoError(t, err, "%s%s", said.String(), out)

			var report chaos.Report
			require.NoError(t, json.Unmarshal(out, &report))
			require.True(t, report.Kept)
			require.Empty(t, report.Rollout.Refused)
			require.Positive(t, report.Rollout.Replaced)
			require.GreaterOrEqual(t, report.Rollout.Requests, int64(100))
		})
	}

	t.Run("R_03_KeepsEveryPromiseWhileWiresAreSilent", func(t *testing.T) {
		t.Parallel()
		cmd := command(t, "chaos", "--processes", "--sessions", "12", "--duration", "12s", "--gap", "1s", "--kill-every", "0s",
			"--silence-every", "1s", "--silence-for", "3s")
		cmd.Env = append(cmd.Env, "SEND_LEASE=2s", "TWILIO_TIMEOUT=1s", "RECONCILE_INTERVAL=200ms", "ALARM_OVERDUE_GRACE=2s")
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)

		var report chaos.Report
		require.NoError(t, json.Unmarshal(out, &report))
		require.True(t, report.Kept)
		require.GreaterOrEqual(t, report.Sessions, 10)
		require.NotEmpty(t, report.Silences)
		for _, one := range report.Silences {
			require.NotNil(t, one.ToRecoveredMS, "%+v", one)
			require.GreaterOrEqual(t, one.LastsMS, int64(2000))
		}
	})

	t.Run("EveryGoalRunsOnceOrSaysWhyNotWhileConnectionsAreCutAndProcessesAreKilled", func(t *testing.T) {
		t.Parallel()
		cmd := command(t, "chaos", "--goals", "40", "--devices", "12", "--duration", "6s", "--kill-every", "2s", "--cut-every", "500ms",
			"--cancel", "0.3", "--seed", "7")
		cmd.Env = append(cmd.Env, "ALARM_OVERDUE_GRACE=1s", "QSTASH_RETRY_DELAY=300 * pow(2, retried)")
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)

		var report chaos.GoalsReport
		require.NoError(t, json.Unmarshal(out, &report))
		require.True(t, report.Kept)
		require.Empty(t, report.Broken)
		require.Equal(t, 40, report.Goals)
		require.Positive(t, report.Ends["completed"])
		require.Positive(t, report.GoalsVerdict.Runs)
		require.Positive(t, report.Granted+report.Refused)
		require.Positive(t, report.Severed)
		require.Greater(t, report.Connections, 12)
		require.Positive(t, report.ToOfferAll.Count)
		require.Positive(t, report.RecoveryToReady.Count)
		require.Equal(t, "10s", report.Knobs["RUN_LEASE"])
		require.Empty(t, report.Folder)
	})

	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{name: "NoPeopleIsRefused", args: []string{"--sessions=-1"}, want: "--sessions"},
		{name: "NoTimeIsRefused", args: []string{"--duration", "0s"}, want: "--duration"},
		{name: "R_03_SilenceOfNoTimeIsRefused", args: []string{"--silence-for", "0s"}, want: "--silence-for"},
		{name: "APauseBackwardsIsRefused", args: []string{"--gap=-1s"}, want: "--gap"},
		{name: "MoreDevicesThanAGatewayTakesAreRefused", args: []string{"--goals=1", "--devices=1025"}, want: "--devices"},
		{name: "LessThanNoGoalsAreRefused", args: []string{"--goals=-1"}, want: "--goals"},
		{name: "MoreCancellationsThanGoalsAreRefused", args: []string{"--goals=1", "--cancel=1.1"}, want: "--cancel"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.ErrorContains(t, run(t.Context(), append([]string{"chaos", "--processes"}, tc.args...), terminal{out: &out}), tc.want)
		})
	}
}
