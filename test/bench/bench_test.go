package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEffects(t *testing.T) {
	t.Parallel()
	done := func(jobs ...int) *effects {
		e := newEffects(4)
		for _, n := range jobs {
			e.add(n)
		}
		return e
	}
	for _, tt := range []struct {
		name  string
		jobs  []int
		first int
		want  string // of the error; empty means that every job was done once
	}{
		{name: "EachOnce", jobs: []int{2, 0, 1}, first: 3},
		{name: "OneNever", jobs: []int{0, 2}, first: 3, want: "1 jobs were never done"},
		{name: "OneTwiceInPlaceOfAnother", jobs: []int{0, 1, 1}, first: 3, want: "1 jobs were done more than once"},
		{name: "OneThatIsNotItsTurn", jobs: []int{0, 1, 2, 3}, first: 3, want: "done more than once"},
		{name: "OneThatWasNeverStored", jobs: []int{0, 1, 2, 9}, first: 3, want: "never stored"},
		{name: "OneThatCannotBeRead", jobs: []int{0, 1, 2, numberOf([]byte("{"))}, first: 3, want: "never stored"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := done(tt.jobs...).check(tt.first)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}

	t.Run("TheWaitEndsWithTheLastOneAndNotBefore", func(t *testing.T) {
		t.Parallel()
		e := newEffects(2)
		e.expect(2)
		e.add(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorContains(t, e.wait(ctx), "1 jobs of 2")
		e.add(1)
		require.NoError(t, e.wait(t.Context()))
	})
}

func TestProcessors(t *testing.T) {
	t.Parallel()
	eight := []string{"0", "1", "2", "3", "8", "9", "10", "11"}
	for _, tt := range []struct {
		name     string
		of       []string
		replicas []int
		want     []string // by replica
	}{
		{name: "TwoAreToBeShared", of: eight[:2], replicas: []int{1, 2}, want: []string{"", ""}},
		{name: "OneReplicaHasAll", of: eight, replicas: []int{1}, want: []string{""}},
		{name: "HalfOfAllAreDealtOut", of: eight, replicas: []int{1, 2}, want: []string{"0,1", "2,3"}},
		{name: "EachHasOneAtLeast", of: eight[:4], replicas: []int{1, 4}, want: []string{"0", "1", "2", "3"}},
		{name: "MoreThanThereAreShareThem", of: eight[:4], replicas: []int{6}, want: []string{"0", "1", "2", "3", "0", "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for n, want := range tt.want {
				require.Equal(t, want, Steps{Replicas: tt.replicas}.processors(tt.of, n))
			}
		})
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	trial := &trial{stored: 64}
	next := trial.numbers(2500, 1000)
	var dealt [][2]int
	for first, size := next(); size > 0; first, size = next() {
		dealt = append(dealt, [2]int{first, size})
	}
	require.Equal(t, [][2]int{{64, 1000}, {1064, 1000}, {2064, 500}}, dealt)
	require.Equal(t, 2564, trial.stored)
}

func TestReport(t *testing.T) {
	t.Parallel()
	rate := func(rates ...float64) []Result {
		results := make([]Result, len(rates))
		for i, r := range rates {
			results[i] = Result{Rate: r, MemoryMB: 10, Jobs: 7}
		}
		return results
	}

	t.Run("ARatioIsTakenWithinARound", func(t *testing.T) {
		t.Parallel()
		// the second round was slower, for both: medians over rounds would give 2
		out := summary(scenarios()[0], measures()[:1], map[runKey][]Result{
			{endToEnd, ours}:  rate(300, 30, 500),
			{endToEnd, river}: rate(100, 10, 250),
		})
		require.InDelta(t, 3, out.RatioToRiver, 1e-9)
		require.InDelta(t, 300, out.Figures[0].Median, 1e-9)
		require.InDelta(t, 1, out.Figures[0].MemoryRatio, 1e-9)
		require.InDelta(t, 1, out.Figures[1].RatioToRiver, 1e-9, "river to itself")
	})

	t.Run("TheGoalIsMissedWhenOneScenarioMissesIt", func(t *testing.T) {
		t.Parallel()
		r := Report{Goal: goal, Scenarios: []Outcome{{Name: "fresh", RatioToRiver: 4}, {Name: "held", RatioToRiver: 2.9}}}
		r.conclude()
		require.False(t, r.GoalMet)
		require.InDelta(t, 4, r.RatioToRiver, 1e-9)
		r.Scenarios[1].RatioToRiver = 3
		r.conclude()
		require.True(t, r.GoalMet)
	})

	t.Run("Quantiles", func(t *testing.T) {
		t.Parallel()
		values := []float64{4, 1, 3, 2}
		require.InDelta(t, 3, quantile(values, 0.5), 1e-9)
		require.InDelta(t, 4, quantile(values, 0.99), 1e-9)
		require.InDelta(t, 2.5, median(values), 1e-9)
	})
}

func TestQueueRefuses(t *testing.T) {
	t.Parallel()
	whole := Queue{Jobs: 10, Rounds: 1, Finished: 1}
	for _, tt := range []struct {
		name   string
		change func(*Queue)
		want   string
	}{
		{name: "NoJobs", change: func(q *Queue) { q.Jobs = 0 }, want: "--jobs"},
		{name: "NoRound", change: func(q *Queue) { q.Rounds = 0 }, want: "--rounds"},
		{name: "AScenarioThatThereIsNot", change: func(q *Queue) { q.Scenarios = []string{"empty"} }, want: "fresh, finished, held"},
		{name: "AMeasureThatThereIsNot", change: func(q *Queue) { q.Measures = []string{"speed"} }, want: "end_to_end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := whole
			tt.change(&q)
			_, err := q.Run(t.Context())
			require.ErrorContains(t, err, tt.want)
		})
	}

	t.Run("AMeasurementThatFailsWithWhatItSaid", func(t *testing.T) {
		t.Parallel()
		q := Queue{Program: []string{"sh", "-c", "echo a job was done twice; exit 1"}, Environ: map[string]string{"PATH": os.Getenv("PATH")}}
		_, err := q.child(t.Context(), t.TempDir(), Spec{Contender: ours})
		require.ErrorContains(t, err, "a job was done twice")
	})

	t.Run("AMeasurementWithoutAResult", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		q := Queue{Program: []string{"true"}, Environ: map[string]string{"PATH": os.Getenv("PATH")}}
		_, err := q.child(t.Context(), dir, Spec{Contender: ours, Out: filepath.Join(dir, "result.json")})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}
