package rules_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/engagement/rules"
)

func TestS4_15_S4_16_TheDefaultHasTheSeedsValues(t *testing.T) {
	t.Parallel()
	c := rules.DefaultConfig()
	require.Equal(t, rules.Limits{Inactivity: 14 * day, GoodbyeTimeout: 48 * time.Hour, RemindLater: 14 * day}, c.Limits)
	require.Equal(t, rules.Calendar{DailyAt: 6 * 60, WeeklyOn: time.Monday, WeeklyAt: 9 * 60}, c.Calendar)
	require.Equal(t, 7*day, c.WeeklyWindow)
	require.Equal(t, [3][]string{
		{"add_expense", "edit_category", "delete_expense", "add_category"},
		{"set_budget", "add_recurring", "list_categories"},
		{"edit_category", "view_report"},
	}, c.Tiers)
	require.False(t, c.Recogniser)
	require.Equal(t, []string{
		"add_expense", "edit_category", "delete_expense", "add_category", "set_budget", "add_recurring", "list_categories", "view_report", "add_income",
	}, c.Actions())
	require.Equal(t, []rules.State{"active", "goodbye_sent", "help_flow", "remind_later", "dormant"}, rules.States())
	require.ElementsMatch(t, []rules.Trigger{
		"user_message", "inactivity_14d", "goodbye_response_1", "goodbye_response_2", "goodbye_response_3", "goodbye_timeout", "reminder_due",
	}, rules.Triggers())
	require.ElementsMatch(t, []rules.MessageType{"welcome", "tier_unlock", "goodbye", "weekly_review", "reminder", "help_restart"}, rules.MessageTypes())
}

const good = `{"version": "1", "inactivity_days": 14, "goodbye_timeout_hours": 48, "remind_later_days": 14, "weekly_window_days": 7, "daily_at": "06:00",
	"weekly_on": "monday", "weekly_at": "09:00", "tiers": [["a"], ["b"], ["c"]], "uncounted_actions": [], "recogniser": false}`

func TestAnEngagementFileNamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	_, err := rules.ParseConfig([]byte(good))
	require.NoError(t, err)
	_, err = rules.ParseConfig([]byte(`{
		"version": "", "inactivity_days": 0, "goodbye_timeout_hours": 721, "remind_later_days": "14", "weekly_window_days": 1.5, "daily_at": "6:00",
		"weekly_on": "Montag", "tiers": [["a", "a"], [], ["B!", "completed_at"], ["d"]], "uncounted_actions": ["a", ""], "recogniser": null, "colour": "red"}`))
	for _, problem := range []string{
		"version is empty", "inactivity_days 0 must be 1 to 365", "goodbye_timeout_hours 721 must be 1 to 720", `remind_later_days "14" must be a whole number`,
		"weekly_window_days 1.5 must be a whole number", `daily_at "6:00" must be a time of day`, `weekly_on "Montag" must be monday, `, "weekly_at is missing",
		"tiers must be three lists of actions, not 4", `tier 1 "a" is there already`, "tier 2 has no action", `tier 3 "B!" must be 1 to 64`, `tier 3 "completed_at" must be`,
		`uncounted_actions "a" is counted in a tier`, `uncounted_actions "" must be`, "recogniser null must be true or false", "colour is no field",
	} {
		require.ErrorContains(t, err, problem)
	}
	require.Equal(t, 17, strings.Count(err.Error(), rules.ErrConfig.Error()), "%v", err)

	for name, file := range map[string]string{
		"empty": "", "no object": "[]", "cut off": good[:40], "followed": good + "{}", "null": "null", "number": "7",
	} {
		_, err := rules.ParseConfig([]byte(file))
		require.ErrorIs(t, err, rules.ErrConfig, name)
	}
}

func TestCalendarIsReadWithoutTheRest(t *testing.T) {
	t.Parallel()
	calendar, err := rules.ParseCalendar([]byte(`{"daily_at": "10:00", "weekly_on": "sunday", "weekly_at": "09:30", "colour": "red"}`))
	require.NoError(t, err)
	require.Equal(t, rules.Calendar{DailyAt: 600, WeeklyOn: time.Sunday, WeeklyAt: 570}, calendar)
	_, err = rules.ParseCalendar([]byte(`{"daily_at": "10", "weekly_on": null}`))
	require.ErrorIs(t, err, rules.ErrConfig)
	require.Equal(t, 3, strings.Count(err.Error(), rules.ErrConfig.Error()), "%v", err)
}

func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{good, "{}", "null", "", good + good, strings.Replace(good, "14", "1e2", 1), strings.Replace(good, `["a"]`, `null`, 1)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := rules.ParseConfig(file)
		if err != nil {
			require.ErrorIs(t, err, rules.ErrConfig)
			require.Zero(t, c)
			return
		}
		require.True(t, json.Valid(file))
		require.NotEmpty(t, c.Version)
		for _, limit := range []time.Duration{c.Inactivity, c.GoodbyeTimeout, c.RemindLater, c.WeeklyWindow} {
			require.True(t, limit >= time.Hour && limit <= 365*day)
		}
		for _, actions := range c.Tiers {
			require.NotEmpty(t, actions)
		}
		require.False(t, c.Newest(rules.Weekly, start).Nominal.After(start))
		var nothing rules.Progress
		for _, action := range c.Actions() {
			require.NoError(t, c.Check(rules.Action{Name: action, Source: rules.SourceWeb, OccurredAt: start}, start))
			nothing = c.Record(nothing, rules.Action{Name: action, OccurredAt: start}, start, false, start).Progress
		}
		require.Equal(t, rules.TierCount, nothing.Highest(), "all actions complete all tiers")
	})
}

func TestAnActionNamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	c := rules.DefaultConfig()
	ok := rules.Action{Name: "add_income", Source: rules.SourceNLP, OccurredAt: start.Add(5 * time.Minute), Confidence: 1}
	require.NoError(t, c.Check(ok, start))
	late := ok
	late.OccurredAt = start.Add(5*time.Minute + 1)
	require.ErrorContains(t, c.Check(late, start), "occurred_at")
	err := c.Check(rules.Action{Name: "dance", Source: "telepathy", Confidence: 1.1}, start)
	require.ErrorIs(t, err, rules.ErrAction)
	for _, problem := range []string{`action "dance" must be one of add_expense, `, `source "telepathy" must be nlp, command or web`, "occurred_at must", "confidence 1.1 must be 0 to 1"} {
		require.ErrorContains(t, err, problem)
	}
	require.Equal(t, 4, strings.Count(err.Error(), rules.ErrAction.Error()))
}
