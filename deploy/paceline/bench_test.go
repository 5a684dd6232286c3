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
