package main

import (
	"encoding/json"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/bench"
)

func TestBenchSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	// No figure is asserted: the machine runs all other tests meanwhile. That every step is done exactly once is asserted by the command.
	t.Run("MeasuresADozenSteps", func(t *testing.T) {
		t.Parallel()
		out, err := command(t, "bench", "steps", "--steps", "12", "--rounds", "1", "--callers", "1,4", "--json").Output()
		require.NoError(t, err, "%s", out)
		var report bench.StepsReport
		require.NoError(t, json.Unmarshal(out, &report))
		require.True(t, report.Durable, "figures of a server that may lose what it acknowledged mean nothing")
		require.Len(t, report.Builds, 1)
		figure := report.Builds[0]
		require.Len(t, figure.Callers, 2)
		for _, c := range figure.Callers {
			require.Positive(t, c.Rate)
			require.Positive(t, c.P99MS)
			require.Positive(t, c.Use.Allocations)
			require.Len(t, c.Use.CPUMicros, 4, "the services and Postgres")
			require.Len(t, c.Use.HotUpdates, len(c.Use.Updates), "of every table that is updated")
		}
		for _, p := range report.Pgbench {
			require.Positive(t, p.Rate)
		}
		for _, cost := range []bench.StepCost{figure.Onboarding, figure.Messaging} {
			require.GreaterOrEqual(t, cost.RoundTrips, 2.0)
			require.GreaterOrEqual(t, cost.Statements, cost.RoundTrips)
			require.GreaterOrEqual(t, cost.Transactions, 2.0, "a claim and its settling, a read of the session and its advance")
		}
	})

	t.Run("SaysWhatIsWrongWithItsArguments", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, run(t.Context(), []string{"bench", "steps", "--steps", "1"}, terminal{out: io.Discard}), "--steps")
		require.ErrorContains(t, run(t.Context(), []string{"bench", "steps", "--steps", "4", "--against", "nowhere"},
			terminal{out: io.Discard}), "nowhere")
	})
}

func TestBenchRepliesAndWebhooks(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for work, args := range map[string][]string{"replies": nil, "receipts": nil, "webhooks": {"--backlog", "50"}} {
		t.Run(work, func(t *testing.T) {
			t.Parallel()
			out, err := command(t, append([]string{"bench", work, "--steps", "12", "--rounds", "1", "--callers", "3", "--json"}, args...)...).Output()
			require.NoError(t, err, "%s", out)
			var report bench.StepsReport
			require.NoError(t, json.Unmarshal(out, &report))
			require.Equal(t, work, report.Work)
			require.Positive(t, report.Builds[0].Callers[0].Rate)
			require.Positive(t, report.Builds[0].Callers[0].Answered)
			require.Greater(t, report.Builds[0].Onboarding.Statements, 1.0)
		})
	}
}

func TestBenchPacing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	out, err := command(t, "bench", "pacing", "--bursts", "6", "--over", "1s", "--json").Output()
	require.NoError(t, err, "%s", out)
	var report bench.PacingReport
	require.NoError(t, json.Unmarshal(out, &report))
	require.True(t, report.Durable)
	require.Equal(t, 24, report.Texts)
	require.Positive(t, report.P99MS)
	require.ErrorContains(t, run(t.Context(), []string{"bench", "pacing", "--bursts", "0"}, terminal{out: io.Discard}), "--bursts")
}

func TestBenchMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	out, err := command(t, "bench", "memory", "--sessions", "30", "--rate", "20", "--for", "1s", "--json").Output()
	if runtime.GOOS != "linux" {
		require.Error(t, err, "it says that it needs /proc")
		return
	}
	require.NoError(t, err, "%s", out)
	var report bench.MemoryReport
	require.NoError(t, json.Unmarshal(out, &report))
	require.Equal(t, 20, report.Steps)
	require.Len(t, report.Services, 3)
	for _, f := range report.Services {
		require.Positive(t, f.ReadyMB)
		require.GreaterOrEqual(t, f.PeakMB, f.EndMB)
	}
	require.ErrorContains(t, run(t.Context(), []string{"bench", "memory", "--rate", "0"}, terminal{out: io.Discard}), "--rate")
}
