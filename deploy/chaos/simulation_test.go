package chaos_test

import (
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/chaos"
	"paceline.internal/platform/postgres/pgtest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a simulation is short of time, not of memory
	pgtest.Run(m)
}

// seed of the conversations that the test command plays. Others are played by `paceline chaos --seed`.
const seed = 20261121

func TestSimulation(t *testing.T) {
	t.Parallel()

	t.Run("S0_63_S0_65_EveryPromiseIsKeptUnderEveryFault", func(t *testing.T) {
		t.Parallel()
		simulation := chaos.Simulation{
			Seed: seed, Sessions: conversations, Now: time.Now, Story: os.Stderr, // only of a world that breaks a promise
		}
		report, err := simulation.Run(t.Context())
		require.NoError(t, err)
		for _, w := range report.Failed {
			t.Errorf("world %d broke a promise; play it again with `%s`: %v %v", w.Seed, w.Again(), w.Err, w.Verdict.Broken)
		}
		require.GreaterOrEqual(t, report.Verdict.Sessions, conversations)
		require.NotEmpty(t, report.Faults, "a simulation in which nothing goes wrong proves nothing")
		t.Logf("%d sessions, %d texts in %d s; faults: %v; ended: %v; parked: %v", report.Sessions, report.Texts, report.TookMS/1000,
			report.Faults, report.Ended, report.Parked)
	})
}

func TestSameSeedIsTheSameRun(t *testing.T) { //nolint:paralleltest // alone: a machine that is too busy comes to the services' own bounds
	play := func() string {
		var digest string
		simulation := chaos.Simulation{Seed: 7, Sessions: 15, Now: time.Now, Progress: func(w chaos.World) { digest = w.Digest }}
		report, err := simulation.Run(t.Context())
		require.NoError(t, err)
		require.Empty(t, report.Failed)
		return digest
	}
	if once, again := play(), play(); repeatable {
		require.Equal(t, once, again)
	}
}
