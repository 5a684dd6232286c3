package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/e2e"
)

// gateway returns the URL that a paceline up prints for its gateway.
func (u *upProcess) gateway(t *testing.T) string {
	t.Helper()
	at := strings.Index(u.lines[0], "http://")
	require.NotEqual(t, -1, at)
	origin, _, found := strings.Cut(u.lines[0][at+len("http://"):], "/")
	require.True(t, found)
	return "http://" + origin
}

// TestE2EOfADeployment is the environment of a deployment without its origin.
func TestE2EOfADeployment(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{"e2e", "--data", t.TempDir()}, terminal{out: io.Discard, environ: map[string]string{
		"HARNESS_QSTASH_MODE": "stub", "TWILIO_AUTH_TOKEN": "token", "TWILIO_FROM_NUMBER": "+12025550100", "QSTASH_CURRENT_SIGNING_KEY": "sig_1",
		"API_JWT_SECRET": strings.Repeat("s", 32),
	}})
	require.ErrorContains(t, err, "PUBLIC_BASE_URL is missing (")
}

// TestE2E has the harness meet a paceline up, as in its manual.
func TestE2E(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	data := dataFolder(t)
	up := startUp(t, data)
	t.Run("Plays", func(t *testing.T) { playsE2E(t, up, data) }) // all of it at the same time
	up.stop(t, os.Interrupt)
	require.NoFileExists(t, filepath.Join(data, environFile), "it is of what runs")
}

func playsE2E(t *testing.T, up *upProcess, data string) {
	t.Helper()
	for _, tt := range []struct {
		name, mode, phone string
		runs              int
	}{
		{name: "S0_46_47_48_50_51_StubPassesTwiceInARow", mode: "stub", phone: "+12025550155", runs: 2},
		{name: "S0_49_RealPassesTwiceInARowWithItsPauses", mode: "real", phone: "+12025550156", runs: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, "e2e", "--up", up.gateway(t), "--data", data, "--json")
			cmd.Env = append(cmd.Env, "HARNESS_QSTASH_MODE="+tt.mode, "HARNESS_PHONE="+tt.phone)
			out, err := cmd.Output()
			require.NoError(t, err, "%s", out)
			var report e2e.Report
			require.NoError(t, json.Unmarshal(out, &report))
			require.True(t, report.Kept)
			require.Len(t, report.Runs, tt.runs)
			for _, run := range report.Runs {
				require.Len(t, run.Texts, 6)
				if tt.mode == "real" {
					require.GreaterOrEqual(t, run.Texts[3].GapMS, int64(6000))
					require.GreaterOrEqual(t, run.Texts[4].GapMS, int64(6000))
				}
			}
		})
	}

	t.Run("S0_06_ItsEnvironmentIsAFileAndTheDoctorFindsAllWell", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `set -e; . "$1"; exec "$2" doctor`, "sh", filepath.Join(data, environFile), os.Args[0])
		cmd.Env = append(os.Environ(), asPaceline+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "failed")
		stat, err := os.Stat(filepath.Join(data, environFile))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), stat.Mode().Perm(), "it has every secret in it")
	})

	t.Run("S0_47_NoModeIsAnError", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		err := run(t.Context(), []string{"e2e", "--data", data}, terminal{out: &out})
		require.ErrorContains(t, err, "HARNESS_QSTASH_MODE is missing")
	})
}
