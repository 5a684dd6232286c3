package chaos_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/test/chaos"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a simulation is short of time, not of memory
	pgtest.Run(m)
}

// seed of the conversations that the test command plays. Others are played by `rig chaos --seed`.
const seed = 20261121

func TestSimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	// Also: S0-65
	t.Run("S0_63_EveryPromiseIsKeptUnderEveryFault", func(t *testing.T) {
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

// TestMonths plays worlds in which people drift away and return: they answer after weeks, say "later" and come back after weeks, are held
// and released weeks later, stop and are back; finished jobs are swept away meanwhile.
func TestMonths(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	const people, days = 6, 24 * time.Hour
	play := func(t *testing.T, seed uint64) (played chaos.World) {
		t.Helper()
		simulation := chaos.Simulation{
			Seed: seed, Sessions: people, PerWorld: people, Gear: chaos.Fast, Now: time.Now, Story: os.Stderr,
			Progress: func(w chaos.World) { played = w },
		}
		report, err := simulation.Run(t.Context())
		require.NoError(t, err)
		for _, w := range report.Failed {
			t.Errorf("world %d broke a promise; play it again with `%s`: %v %v", w.Seed, w.Again(), w.Err, w.Verdict.Broken)
		}
		t.Logf("%.0f days in %s, %d jobs swept; ended: %v; faults: %v", played.Lasted.Hours()/24, played.Took, played.Swept,
			played.Verdict.Ended, played.Faults)
		require.GreaterOrEqual(t, played.Lasted, 90*days)
		require.Positive(t, played.Swept, "retention was not at work")
		require.GreaterOrEqual(t, played.Verdict.Sessions, people)
		require.NotEmpty(t, played.Faults)
		return played
	}
	for _, seed := range []uint64{314, 324} {
		t.Run(fmt.Sprintf("S0_63_EveryPromiseIsKeptOverMonths/%d", seed), func(t *testing.T) {
			t.Parallel()
			play(t, seed)
		})
	}
	t.Run("S0_63_TheSameSeedIsTheSameRunOverMonths", func(t *testing.T) {
		t.Parallel()
		const seed = 1852 // a hold of weeks, a "later" of weeks, a STOP after days and a return from it; and no two events of one instant race
		first, second := play(t, seed), play(t, seed)
		if repeatable {
			require.Equal(t, first.Digest, second.Digest)
		}
	})
}

// TestEngagement plays a world in which engagement follows people who drift away and return, with two replicas of onboarding. What has to
// come about in it is asked for, so that it cannot keep its promises by doing nothing.
func TestEngagement(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	t.Run("S4_77_TwoReplicasStayInTouchWithEverybodyAsTheRulesSay", func(t *testing.T) {
		t.Parallel()
		simulation := chaos.Simulation{
			Seed: 20261123, Sessions: followed, PerWorld: followed, Engagement: 30 * 24 * time.Hour, Now: time.Now, Story: os.Stderr,
		}
		report, err := simulation.Run(t.Context())
		require.NoError(t, err)
		for _, w := range report.Failed {
			t.Errorf("world %d broke a promise; play it again with `%s`: %v %v", w.Seed, w.Again(), w.Err, w.Verdict.Broken)
		}
		t.Logf("in %d s: %v; %v; %v; %v; faults: %v", report.TookMS/1000, report.Standing, report.Transitions, report.Outreach, report.Runs,
			report.Faults)
		for _, sent := range []string{"goodbye sent", "weekly_review sent"} {
			require.Positive(t, report.Outreach[sent], sent)
		}
		for _, trigger := range []string{"inactivity_14d", "goodbye_timeout", "user_message"} {
			require.Positive(t, report.Transitions[trigger], trigger)
		}
		require.Positive(t, report.Transitions["goodbye_response_1"]+report.Transitions["goodbye_response_2"]+report.Transitions["goodbye_response_3"])
		require.NotEmpty(t, report.Faults)
	})
}

func TestSameSeedIsTheSameRun(t *testing.T) { //nolint:paralleltest // alone: a machine that is too busy comes to the services' own bounds
	if testing.Short() {
		t.Skip("long: make proof")
	}
	play := func(seed uint64, sessions int) (report chaos.Report, digest string) {
		simulation := chaos.Simulation{Seed: seed, Sessions: sessions, Now: time.Now, Progress: func(w chaos.World) { digest = w.Digest }}
		report, err := simulation.Run(t.Context())
		if err != nil {
			report.Failed = append(report.Failed, chaos.World{Err: err})
		}
		return report, digest
	}
	once, first := play(7, 15)
	again, second := play(7, 15)
	require.Empty(t, once.Failed)
	require.Empty(t, again.Failed)
	if repeatable {
		require.Equal(t, first, second)
	}

	t.Run("R_03_AlsoWhenAStatementOfTheRelayIsNeverAnswered", func(t *testing.T) {
		const seed, people = 1552, 3
		var reports [2]chaos.Report
		var digests [2]string
		var plays sync.WaitGroup
		for i := range reports { // at once, for they wait more than they work
			plays.Go(func() { reports[i], digests[i] = play(seed, people) })
		}
		plays.Wait()
		for _, report := range reports {
			require.Empty(t, report.Failed)
			require.Equal(t, 1, report.Faults["onboarding -> postgres silent"])
		}
		if repeatable {
			require.Equal(t, digests[0], digests[1])
		}
	})
}
