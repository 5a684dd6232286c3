package runs_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/runs"
)

// many sets the people of TestManyPeople: -people=100000 for the whole.
var many = flag.Int("people", 3_000, "people of the run for many") //nolint:gochecknoglobals // a flag

// TestManyPeople is a run for many people: a dry run, the filter, the first texts, and a pause, each with its time in the log. No more people
// are begun than there are turns at the sender's rate.
func TestManyPeople(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crowd(t, b.Exec, *many, b.Clock.Now())
	took := func(what string, do func()) {
		began := time.Now() //nolint:forbidigo // it is printed
		do()
		t.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond)) //nolint:forbidigo // the same
	}
	in := runs.Request{OrgID: onboardingtest.OrgID, Flow: "news", Filter: "person.fields.plan == 'gold'"}
	took("dry run", func() {
		p, _, err := b.runs().Preview(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, *many*9/10, p.People)
	})
	const turns = 40
	b.Messaging.SetTurns(turns)
	var run runs.Run
	took("made", func() { run = b.start(in) })
	took("filtered, and the first texts sent", func() { b.Work() })
	counts := *b.get(run.ID).Counts
	require.Equal(t, []int{*many * 9 / 10, turns}, []int{counts.People, counts.Started})
	b.Messaging.SetTurns(1000)
	took("paused", func() {
		_, err := b.runs().Switch(t.Context(), onboardingtest.OrgID, run.ID, runs.Paused)
		require.NoError(t, err)
	})
	b.Pass(time.Minute)
	took("counted", func() { require.Equal(t, turns, b.get(run.ID).Counts.Started) })
}
