package chaos_test

import (
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

const (
	conversations = 80 // about half a minute; `rig chaos` plays as many as it is asked for
	followed      = 8  // by engagement, of which some drift away and answer, or do not
)

func TestSimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	// Also: S0-65
	t.Run("S0_63_EveryPromiseIsKeptUnderEveryFault", func(t *testing.T) {
		t.Parallel()
		simulation := chaos.Simulation{
			Seed: seed, Sessions: conversations, PerWorld: conversations / 4, Now: time.Now,
			Story: os.Stderr, // only of a world that breaks a promise
		}
		report, err := simulation.Run(t.Context())
		require.NoError(t, err)
		for _, w := range report.Failed {
			t.Errorf("world %d broke a promise; play it again with `%s`: %v %v", w.Seed, w.Again(), w.Err, w.Verdict.Broken)
		}
		require.GreaterOrEqual(t, report.Verdict.Sessions, conversations)
		for _, kind := range kinds() {
			require.Positive(t, report.Faults[kind], "a simulation in which this does not go wrong proves nothing about it: %s", kind)
		}
		t.Logf("%d sessions, %d texts in %d s; faults: %v; ended: %v; parked: %v", report.Sessions, report.Texts, report.TookMS/1000,
			report.Faults, report.Ended, report.Parked)
	})
}

// kinds are the faults that have to occur. A send that hangs is too rare for so few people, and TestSameSeedIsTheSameRun has a silent wire.
func kinds() []string {
	return []string{
		"alarm late", "alarm lost", "alarm repeated", "alarm several times at once", "alarm silent",
		"create 302, not taken", "create 429", "create 500, not taken", "create 500, taken", "create 503, not taken", "create 503, taken",
		"create garbage, taken", "create reset, not taken", "create reset, taken",
		"publish answer lost", "publish refused", "publish reset", "receipt late", "receipt lost", "receipt repeated",
		"gateway restarted", "messaging restarted", "onboarding restarted", "qstash restarted",
		"messaging's postgres away", "onboarding's postgres away",
	}
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
	t.Run("S0_63_EveryPromiseIsKeptOverMonths/314", func(t *testing.T) {
		t.Parallel()
		played := play(t, 314)
		require.Positive(t, played.Faults["message resolved"]+played.Faults["session resumed"], "no operator had anything to decide")
	})
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
			Seed: 20269100, Sessions: followed, PerWorld: followed, Engagement: 22 * 24 * time.Hour, Now: time.Now, Story: os.Stderr,
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
	once, first := play(7, 8)
	again, second := play(7, 8)
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
