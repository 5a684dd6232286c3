package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGoalsVerdict spoils one thing after the other of a run of three goals that went well: one completed, one was cancelled in time, and
// one failed because its device was offline.
func TestGoalsVerdict(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	well := func() *ledger {
		begins := DeviceEvent{At: at, Device: "d1", What: DeviceBegins, Run: "r1", Goal: "g1"}
		ends := DeviceEvent{At: at.Add(time.Second), Device: "d1", What: DeviceEnded, Run: "r1", Goal: "g1", OK: true}
		return &ledger{
			GoalsVerdict: &GoalsVerdict{Ends: map[string]int{}}, report: &Report{}, events: []DeviceEvent{begins, ends},
			site: &site{goals: &errands{
				said: map[string]errand{"g1": {}, "g2": {}, "g3": {}}, answers: map[string]string{"g1": "2026-11-23T12:00:00.5Z", "g2": cancelled},
			}},
			rows: map[string]goalRow{
				"g1": {id: "g1", device: "d1", status: "completed", run: "r1", startedAt: "2026-11-23T12:00:00.500000Z"},
				"g2": {id: "g2", device: "d2", status: cancelled},
				"g3": {id: "g3", device: "d3", status: "failed", reason: "device_offline"},
			},
			begun: map[string][]DeviceEvent{},
		}
	}
	judge := func(l *ledger) {
		l.judgeRuns()
		l.judgeGoals()
		l.judgeCancellations()
	}
	row := func(l *ledger, id string, spoil func(*goalRow)) {
		r := l.rows[id]
		spoil(&r)
		l.rows[id] = r
	}
	begins := func(l *ledger, device, run, goal string) {
		l.events = append(l.events, DeviceEvent{At: at.Add(time.Minute), Device: device, What: DeviceBegins, Run: run, Goal: goal})
	}

	t.Run("FindsNothingInARunThatWentWell", func(t *testing.T) {
		t.Parallel()
		l := well()
		judge(l)
		require.Empty(t, l.report.Broken)
		require.Equal(t, map[string]int{"completed": 1, "cancelled": 1, "device_offline": 1}, l.Ends)
		require.Equal(t, []int{1, 1, 1}, []int{l.Runs, l.Granted, l.Refused})
	})
	for _, tt := range []struct {
		name  string
		spoil func(l *ledger)
		found func(v *GoalsVerdict) int
	}{
		{"ARunThatBeganTwice", func(l *ledger) { begins(l, "d1", "r1", "g1") }, func(v *GoalsVerdict) int { return v.BegunTwice }},
		{"AGoalThatRanTwice", func(l *ledger) { begins(l, "d1", "r2", "g1") }, func(v *GoalsVerdict) int { return v.RanTwice }},
		{"ARunOnAnotherDevice", func(l *ledger) { begins(l, "d2", "r3", "g3") }, func(v *GoalsVerdict) int { return v.Elsewhere }},
		{"ARunOfNoGoal", func(l *ledger) { begins(l, "d2", "r3", "g9") }, func(v *GoalsVerdict) int { return v.Elsewhere }},
		{"AGoalThatIsGone", func(l *ledger) { delete(l.rows, "g3") }, func(v *GoalsVerdict) int { return v.Lost }},
		{"AGoalThatIsStillOpen", func(l *ledger) { row(l, "g3", func(r *goalRow) { r.status = "running" }) }, func(v *GoalsVerdict) int { return v.Open }},
		{"AGoalThatSaysNotWhyItFailed", func(l *ledger) { row(l, "g3", func(r *goalRow) { r.reason = "" }) }, func(v *GoalsVerdict) int { return v.Unexplained }},
		{"AGoalThatIsCompletedAndNeverRan", func(l *ledger) { l.events = nil }, func(v *GoalsVerdict) int { return v.Untrue }},
		{"AGoalThatIsCompletedAndFailed", func(l *ledger) { l.events[1].OK = false }, func(v *GoalsVerdict) int { return v.Untrue }},
		{"AGoalThatRanThoughItsDeviceWasOffline", func(l *ledger) { begins(l, "d3", "r3", "g3") }, func(v *GoalsVerdict) int { return v.Untrue }},
		{"ACancelledGoalThatRan", func(l *ledger) { begins(l, "d2", "r2", "g2") }, func(v *GoalsVerdict) int { return v.CancelLies }},
		{"ACancellationThatWasNotMade", func(l *ledger) { row(l, "g2", func(r *goalRow) { r.status = "failed" }) }, func(v *GoalsVerdict) int { return v.CancelLies }},
		{"ARefusalWithAnotherTime", func(l *ledger) { l.site.goals.answers["g1"] = "2026-11-23T12:00:01Z" }, func(v *GoalsVerdict) int { return v.CancelLies }},
		{"ARefusalOfACancelledGoal", func(l *ledger) { l.site.goals.answers["g2"] = "" }, func(v *GoalsVerdict) int { return v.CancelLies }},
	} {
		t.Run("Finds"+tt.name, func(t *testing.T) {
			t.Parallel()
			l := well()
			tt.spoil(l)
			judge(l)
			require.Positive(t, tt.found(l.GoalsVerdict), l.report.Broken)
			require.False(t, l.report.Verdict.Kept())
		})
	}
}
