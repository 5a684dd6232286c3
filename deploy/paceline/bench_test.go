package main

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/bench"
)

func TestBenchQueue(t *testing.T) {
	t.Parallel()

	// No figure is asserted: the machine runs all other tests meanwhile. That every job is done exactly once is asserted by
	// the command itself, of every contender.
	for _, tc := range []struct {
		name               string
		args               []string
		scenarios, figures int
	}{
		{name: "MeasuresEverything", args: []string{"--scenario", "fresh"}, scenarios: 1, figures: 16},
		{name: "AmongFinishedRowsAndUnderAHeldTransaction", args: []string{
			"--scenario", "finished,held", "--measure", "end_to_end", "--finished", "50",
		}, scenarios: 2, figures: 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, err := command(t, append([]string{"bench", "queue", "--jobs", "10", "--rounds", "1", "--json"}, tc.args...)...).Output()
			require.NoError(t, err, "%s", out)
			var report bench.Report
			require.NoError(t, json.Unmarshal(out, &report))
			require.True(t, report.Durable, "figures of a server that may lose what it acknowledged mean nothing")
			require.Len(t, report.Scenarios, tc.scenarios)
			for _, s := range report.Scenarios {
				require.Positive(t, s.RatioToRiver, s.Name)
				require.Len(t, s.Figures, tc.figures, s.Name)
				for _, f := range s.Figures {
					require.Positive(t, f.Median, "%s: %s of %s", s.Name, f.Measure, f.Contender)
					require.Positive(t, f.MemoryMB, "%s: %s of %s", s.Name, f.Measure, f.Contender)
				}
			}
		})
	}

	t.Run("SaysWhatIsWrongWithItsArguments", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, run(t.Context(), []string{"bench", "queue", "--jobs", "1"}, terminal{out: io.Discard}), "--jobs")
		require.ErrorContains(t, run(t.Context(), []string{"bench", "measure", "{"}, terminal{out: io.Discard}), "spec")
	})
}

func TestBenchSteps(t *testing.T) {
	t.Parallel()

	// As above no figure is asserted; that every step is done exactly once is asserted by the command itself.
	t.Run("MeasuresADozenSteps", func(t *testing.T) {
		t.Parallel()
		out, err := command(t, "bench", "steps", "--steps", "12", "--rounds", "1", "--callers", "4", "--json").Output()
		require.NoError(t, err, "%s", out)
		var report bench.StepsReport
		require.NoError(t, json.Unmarshal(out, &report))
		require.True(t, report.Durable, "figures of a server that may lose what it acknowledged mean nothing")
		require.Len(t, report.Builds, 1)
		figure := report.Builds[0]
		require.Positive(t, figure.Rate)
		require.Positive(t, figure.P99MS)
		require.Positive(t, figure.Replayed)
		for _, run := range figure.Runs {
			require.InDelta(t, 1, run.Replayed.Alike, 1e-9, "the same statements have the same effect")
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

func TestBenchEngagement(t *testing.T) {
	t.Parallel()
	out, err := command(t, "bench", "engagement", "--people", "600,1200", "--sample", "20", "--json").Output()
	require.NoError(t, err, "%s", out)
	var report bench.EngagementReport
	require.NoError(t, json.Unmarshal(out, &report))
	require.True(t, report.Durable)
	require.Len(t, report.Sizes, 2)
	for _, f := range report.Sizes {
		require.Positive(t, f.Micros)
		require.Positive(t, f.Ratio)
	}
	require.ErrorContains(t, run(t.Context(), []string{"bench", "engagement", "--people", "5", "--sample", "9"}, terminal{out: io.Discard}), "--sample")
}
