package rules_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/engagement/rules"
)

// record plays actions, an hour apart.
func record(c rules.Config, p rules.Progress, actions ...string) (rules.Progress, []rules.Recorded) {
	var all []rules.Recorded
	for i, name := range actions {
		at := start.Add(time.Duration(i) * time.Hour)
		r := c.Record(p, rules.Action{Name: name, OccurredAt: at, Source: rules.SourceWeb}, start.Add(-10*day), false, at)
		p = r.Progress
		all = append(all, r)
	}
	return p, all
}

func TestS4_67_TiersAreCompletedOnceInAnyOrder(t *testing.T) {
	t.Parallel()
	c := rules.DefaultConfig()
	rapid.Check(t, func(t *rapid.T) {
		actions := rapid.SliceOfN(rapid.SampledFrom(c.Actions()), 0, 40).Draw(t, "actions")
		p, recorded := record(c, rules.Progress{}, actions...)
		var celebrated []int
		before := rules.Progress{}
		for i, r := range recorded {
			require.Equal(t, r.Changed, !equal(t, before, r.Progress))
			require.Len(t, r.Celebrate, len(r.Completed))
			again := c.Record(r.Progress, rules.Action{Name: actions[i], OccurredAt: start.Add(99 * day)}, start, false, start)
			require.False(t, again.Changed, "idempotent")
			require.Empty(t, again.Completed)
			for _, completion := range r.Completed {
				require.Contains(t, c.Tiers[completion.Tier-1], actions[i])
			}
			celebrated = append(celebrated, r.Celebrate...)
			before = r.Progress
		}
		highest := 0
		for number, wanted := range c.Tiers {
			done := !slices.ContainsFunc(wanted, func(action string) bool { return !slices.Contains(actions, action) })
			require.Equal(t, done, !p.Tier(number+1).CompletedAt.IsZero())
			require.Equal(t, done, slices.Contains(celebrated, number+1))
			if done {
				highest = number + 1
				last := slices.MaxFunc(wanted, func(a, b string) int { return slices.Index(actions, a) - slices.Index(actions, b) })
				require.Equal(t, start.Add(time.Duration(slices.Index(actions, last))*time.Hour), p.Tier(number+1).CompletedAt, "written once")
			}
		}
		require.Equal(t, highest, p.Highest())
		slices.Sort(celebrated)
		require.Equal(t, celebrated, slices.Compact(slices.Clone(celebrated)), "each once")

		stored, err := json.Marshal(p)
		require.NoError(t, err)
		var loaded rules.Progress
		require.NoError(t, json.Unmarshal(stored, &loaded))
		require.True(t, equal(t, p, loaded))
	})
}

func equal(t require.TestingT, a, b rules.Progress) bool {
	first, err := json.Marshal(a)
	require.NoError(t, err)
	second, err := json.Marshal(b)
	require.NoError(t, err)
	return string(first) == string(second)
}

func TestS4_69_OneActionMayCompleteTwoTiers(t *testing.T) {
	t.Parallel()
	c := rules.DefaultConfig()
	p, _ := record(c, rules.Progress{}, "view_report", "add_expense", "delete_expense", "add_category")
	require.Zero(t, p.Highest())
	edit := rules.Action{Name: "edit_category", OccurredAt: start.Add(day), Source: rules.SourceCommand}
	r := c.Record(p, edit, start.Add(-10*day), false, start.Add(day))
	require.Equal(t, []int{1, 3}, r.Celebrate, "both are celebrated")
	require.Equal(t, 3, r.Tier)
	require.Equal(t, []rules.Completion{{Tier: 1, Days: 11, DaysSinceSignup: 11}, {Tier: 3, Days: 11, DaysSinceSignup: 11}}, r.Completed, "the second tier is not completed")

	r2, _ := record(c, r.Progress, "set_budget", "add_recurring")
	last := c.Record(r2, rules.Action{Name: "list_categories", OccurredAt: start.Add(4 * day)}, start.Add(-10*day), false, start.Add(4*day))
	require.Equal(t, []rules.Completion{{Tier: 2, Days: 3, DaysSinceSignup: 14}}, last.Completed, "from the tier before")
	require.Equal(t, 3, last.Tier)

	for name, silent := range map[string]rules.Recorded{
		"tips off":            c.Record(p, edit, start, true, edit.OccurredAt),
		"older than 24 hours": c.Record(p, edit, start, false, edit.OccurredAt.Add(24*time.Hour+1)),
		"celebrate: false": c.Record(p, rules.Action{Name: "edit_category", OccurredAt: start.Add(day), Silent: true}, start, false,
			edit.OccurredAt),
	} {
		require.Empty(t, silent.Celebrate, name)
		require.Len(t, silent.Completed, 2, name)
		require.Equal(t, 3, silent.Tier, name)
	}
	require.Len(t, c.Record(p, edit, start, false, edit.OccurredAt.Add(24*time.Hour)).Celebrate, 2)

	more := c
	more.Tiers[2] = append(slices.Clone(c.Tiers[2]), "add_goal")
	later := more.Record(r.Progress, rules.Action{Name: "add_goal", OccurredAt: start.Add(9 * day)}, start, false, start.Add(9*day))
	require.True(t, later.Changed)
	require.Empty(t, later.Completed, "a tier that has a new action is not completed again")
	require.Equal(t, r.Progress.Tier3.CompletedAt, later.Progress.Tier3.CompletedAt)
	_, done := p.Tier(1).Done["edit_category"]
	require.False(t, done, "what was read is not changed")
}

func TestIncomeIsNotCounted(t *testing.T) {
	t.Parallel()
	c := rules.DefaultConfig()
	for _, a := range []rules.Action{{Name: "add_income"}, {Name: rules.AddExpense, Income: true}, {Name: "unknown"}} {
		a.OccurredAt = start
		r := c.Record(rules.Progress{}, a, start, false, start)
		require.False(t, r.Changed)
		require.Empty(t, r.Completed)
	}
}

func TestProgressIsStoredAsTheSeedHasIt(t *testing.T) {
	t.Parallel()
	p, _ := record(rules.DefaultConfig(), rules.Progress{Epoch: 2}, "edit_category", "view_report")
	stored, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"tier1": {"edit_category": true}, "tier2": {}, "tier3": {"edit_category": true, "view_report": true, "completed_at": "2026-11-16T13:00:00Z"},
		"epoch": 2}`, string(stored))
	for _, empty := range []string{`{}`, `{"tier1": {"add_expense": false}}`, `{"tier1": {}, "magic_moment_at": "2026-01-01T00:00:00Z"}`} {
		var loaded rules.Progress
		require.NoError(t, json.Unmarshal([]byte(empty), &loaded))
		require.Zero(t, loaded.Highest())
	}
	for _, broken := range []string{`{"tier1": 7}`, `{"tier1": {"add_expense": "yes"}}`, `{"tier1": {"completed_at": "soon"}}`} {
		var loaded rules.Progress
		require.Error(t, json.Unmarshal([]byte(broken), &loaded), broken)
	}
}

func TestS4_66_HintsAreForBeginners(t *testing.T) {
	t.Parallel()
	expense := rules.Action{Name: rules.AddExpense}
	for _, tt := range []struct {
		name  string
		a     rules.Action
		shown rules.Shown
		want  rules.Hint
	}{
		{name: "FirstExpenseEver", a: expense, shown: rules.Shown{Expenses: 1, InCategory: 1}, want: rules.HintCategory},
		{name: "SecondOfACategory", a: expense, shown: rules.Shown{Expenses: 2, InCategory: 2}},
		{name: "ThirdOfACategory", a: expense, shown: rules.Shown{Expenses: 5, InCategory: 3}, want: rules.HintBudget},
		{name: "FourthOfACategory", a: expense, shown: rules.Shown{Expenses: 5, InCategory: 4, Tier: 1}, want: rules.HintBudget},
		{name: "NoneForTheSecondTier", a: expense, shown: rules.Shown{Expenses: 5, InCategory: 3, Tier: 2}},
		{name: "NoneForTheThirdTier", a: expense, shown: rules.Shown{Expenses: 1, Tier: 3}},
		{name: "NoneWithTipsOff", a: expense, shown: rules.Shown{Expenses: 1, TipsOff: true}},
		{name: "NoneForOtherActions", a: rules.Action{Name: "view_report"}, shown: rules.Shown{Expenses: 1, InCategory: 3}},
		{name: "NoneForIncome", a: rules.Action{Name: rules.AddExpense, Income: true}, shown: rules.Shown{Expenses: 1}},
		{name: "NoneWhenNothingIsKnown", a: expense},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, rules.HintFor(tt.a, tt.shown))
		})
	}
}

func TestTheFirstMessageIsGreeted(t *testing.T) {
	t.Parallel()
	sure, unsure := &rules.Expense{Cents: 5000, Confidence: 0.5}, &rules.Expense{Cents: 5000, Confidence: 0.49}
	require.Equal(t, rules.GreetExpense, rules.FirstMessage(true, false, sure))
	require.Equal(t, rules.GreetWithExample, rules.FirstMessage(true, false, unsure))
	require.Equal(t, rules.GreetWithExample, rules.FirstMessage(true, false, nil))
	require.Empty(t, rules.FirstMessage(false, false, sure), "who returns is not welcomed again")
	require.Empty(t, rules.FirstMessage(true, true, sure), "the flow greets")
}

func TestTheMagicMomentIsOnceAndRecognised(t *testing.T) {
	t.Parallel()
	c := rules.DefaultConfig()
	a := rules.Action{Name: rules.AddExpense, Source: rules.SourceNLP, Confidence: 0.5}
	require.True(t, c.MagicMoment(a, time.Time{}))
	require.False(t, c.MagicMoment(a, start), "once")
	for _, not := range []rules.Action{
		{Name: rules.AddExpense, Source: rules.SourceCommand, Confidence: 1},
		{Name: rules.AddExpense, Source: rules.SourceWeb, Confidence: 1},
		{Name: rules.AddExpense, Source: rules.SourceNLP, Confidence: 0.4},
		{Name: rules.AddExpense, Source: rules.SourceNLP, Confidence: 1, Income: true},
		{Name: "add_income", Source: rules.SourceNLP, Confidence: 1},
	} {
		require.False(t, c.MagicMoment(not, time.Time{}), "%+v", not)
	}
}
