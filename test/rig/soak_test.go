package main

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/chaos"
)

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("LosesAndDoublesNothingAcrossTheKillOfOnboardingAndOfPostgres", func(t *testing.T) {
		t.Parallel()
		out, err := command(t, "soak", "--rate", "40", "--duration", "3s", "--duplicates", "0.3", "--retry-after", "300ms").Output()
		require.NoError(t, err, "%s", out)
		var report chaos.SoakReport
		require.NoError(t, json.Unmarshal(out, &report))
		require.True(t, report.Kept)
		require.Empty(t, report.Broken)
		require.Equal(t, 120, report.Events)
		require.Equal(t, 120, report.Accepted)
		require.Equal(t, 120, report.Rows)
		require.Positive(t, report.Duplicates)
		require.Positive(t, report.Retries, "nothing was refused while onboarding was dead")
		require.Equal(t, 2, report.Kills["onboarding"]+report.Kills["postgres"])
		require.Empty(t, report.Folder)
	})

	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{name: "NoRateIsRefused", args: []string{"--rate", "0"}, want: "--rate"},
		{name: "NoTimeIsRefused", args: []string{"--duration", "0s"}, want: "--duration"},
		{name: "MoreThanAllTwiceIsRefused", args: []string{"--duplicates", "1.5"}, want: "--duplicates"},
		{name: "MoreThanCanBeRememberedIsRefused", args: []string{"--rate", "100000", "--duration", "24h"}, want: "events"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, run(t.Context(), append([]string{"soak"}, tc.args...), terminal{out: io.Discard}), tc.want)
		})
	}
}
