package catalog_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/catalog"
)

// builtIn is loaded once: it is checked as a whole each time.
var builtIn = catalog.DefaultEngagement()

// sample returns possible parameters of a key, and words from them that its text then shows.
func sample(key string) (params catalog.Params, shown string) {
	switch key {
	case catalog.WelcomeExpense:
		return catalog.Params{Expense: "coffee 5"}, "coffee 5"
	case catalog.HintBudget:
		return catalog.Params{Category: "Mercado"}, "Mercado"
	case catalog.WeeklyReview, catalog.GoalTooFar:
		return catalog.Params{Count: 3}, "3"
	case catalog.GoalScheduled:
		return catalog.Params{Goal: "call John", When: "tomorrow at 09:00"}, "tomorrow at 09:00: call John"
	case catalog.GoalNoted:
		return catalog.Params{Goal: "call John", When: "today at 14:00", Note: "I read 2 as 14:00."}, "today at 14:00: call John. I read 2 as 14:00. "
	case catalog.GoalCancelled, catalog.GoalBegun:
		return catalog.Params{Goal: "call John"}, "call John"
	case catalog.GoalReminder:
		return catalog.Params{WholeGoal: "call John"}, ": call John"
	}
	return catalog.Params{}, ""
}

// render is a built-in text for Ana.
func render(t *testing.T, locale, key string) string {
	t.Helper()
	params, _ := sample(key)
	text, err := builtIn.Render(locale, key, "Ana", params)
	require.NoError(t, err)
	return text
}

func TestEngagementCopy(t *testing.T) {
	t.Parallel()
	for _, group := range []struct {
		name string
		keys []string
	}{
		{name: "S4_20_WelcomesInBothLanguages", keys: []string{catalog.Welcome, catalog.WelcomeExpense}},
		{name: "S4_21_CelebratesEveryTierInBothLanguages", keys: []string{catalog.Tier1, catalog.Tier2, catalog.Tier3}},
		{name: "S4_22_SaysGoodbyeInBothLanguages", keys: []string{
			catalog.Goodbye, catalog.GoodbyeConfused, catalog.GoodbyeBusy, catalog.GoodbyeAllGood, catalog.HelpRestart, catalog.Reminder,
		}},
		{name: "S4_23_ReviewsTheWeekInBothLanguages", keys: []string{catalog.WeeklyReview, catalog.WeeklyReviewEmpty}},
		{name: "S4_24_ConfirmsPreferencesInBothLanguages", keys: []string{
			catalog.RemindersOff, catalog.RemindersOn, catalog.TipsOff, catalog.TipsOn,
		}},
		{name: "HintsAndDestinationsInBothLanguages", keys: []string{
			catalog.HintCategories, catalog.HintBudget, catalog.DestinationHousehold, catalog.DestinationIndividual, catalog.DestinationNone,
			catalog.Apology,
		}},
		{name: "GoalsByTextInBothLanguages", keys: []string{
			catalog.GoalScheduled, catalog.GoalNoted, catalog.GoalAskWhat, catalog.GoalAskWhen, catalog.GoalUnclear, catalog.GoalPast,
			catalog.GoalTooFar, catalog.GoalTooMany, catalog.GoalReminder, catalog.GoalCancelled, catalog.GoalBegun, catalog.GoalNone,
		}},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, key := range group.keys {
				english, portuguese := render(t, "en", key), render(t, "pt-BR", key)
				require.NotEqual(t, english, portuguese)
				_, shown := sample(key)
				require.Contains(t, english, shown)
				require.Contains(t, portuguese, shown)
				require.NotContains(t, english+portuguese, "{")
			}
		})
	}
	t.Run("S4_27_EveryLanguageHasEveryText", func(t *testing.T) {
		t.Parallel()
		texts := builtIn
		require.Equal(t, []string{"en", "pt-BR"}, texts.Locales())
		require.Len(t, catalog.EngagementKeys(), 37)
		for _, key := range catalog.EngagementKeys() {
			for _, locale := range texts.Locales() {
				require.NotEmpty(t, render(t, locale, key))
			}
		}
	})
	t.Run("TheGoodbyeOffersThreeDigitsAndSilence", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, render(t, "en", catalog.Goodbye), "\n1 Confused\n2 Busy\n3 All good\n")
		require.Contains(t, render(t, "en", catalog.Goodbye), "No answer is fine")
		require.Contains(t, render(t, "pt-BR", catalog.Goodbye), "\n1 Achei confuso\n2 Na correria\n3 Tudo certo\nSe não, tudo bem")
	})
	t.Run("TheReminderIsTheOneThatWasAnnounced", func(t *testing.T) {
		t.Parallel()
		for locale, says := range map[string][2]string{"en": {"in two weeks", "mentioned two weeks ago"}, "pt-BR": {"duas semanas", "como combinado"}} {
			require.Contains(t, render(t, locale, catalog.GoodbyeBusy), says[0])
			require.Contains(t, render(t, locale, catalog.Reminder), says[1])
		}
	})
	t.Run("EveryOfferIsMade", func(t *testing.T) { // or people do not learn that the words exist
		t.Parallel()
		for language, offers := range catalog.Offered() {
			for _, words := range offers {
				made := 0
				for _, key := range catalog.EngagementKeys() {
					made += strings.Count(render(t, language, key), `"`+words+`"`)
				}
				require.Positive(t, made, words)
			}
		}
	})
}

// TestEngagementKeysOfTheSource holds the texts to those of the system that this one replaces (all prefixed engagement there).
func TestEngagementKeysOfTheSource(t *testing.T) {
	t.Parallel()
	used := map[string]bool{catalog.TipsOn: true, catalog.TipsOff: true, catalog.Reminder: true} // it had no text for these
	for source, key := range map[string]string{
		"FirstMessage":                    catalog.Welcome,
		"GuideToFirstExpense":             catalog.Welcome, // one text: a greeting with one example
		"FirstExpenseSuccess":             catalog.WelcomeExpense,
		"FirstExpenseCelebration":         catalog.WelcomeExpense, // celebrated once; the magic moment of later is an event and no text
		"Tier1Complete":                   catalog.Tier1,
		"Tier2Complete":                   catalog.Tier2,
		"Tier3Complete":                   catalog.Tier3,
		"HintFirstExpenseCategory":        catalog.HintCategories,
		"HintBudgetSuggestion":            catalog.HintBudget,
		"HintAddCategory":                 "", // no rule gives it; HintFirstExpenseCategory says the same
		"HintSetBudget":                   "", // no rule gives it; Tier1Complete points there
		"HintViewReport":                  "", // no rule gives it; Tier2Complete points there
		"GoodbyeSelfSelect":               catalog.Goodbye,
		"GoodbyeMessage":                  "", // legacy in the source
		"GoodbyeResponse1":                catalog.GoodbyeConfused,
		"GoodbyeResponse2":                catalog.GoodbyeBusy,
		"GoodbyeResponse3":                catalog.GoodbyeAllGood,
		"GoodbyeTimeout":                  "", // a goodbye without an answer ends in silence
		"RemindLaterConfirm":              catalog.GoodbyeBusy,
		"HelpFlowStart":                   catalog.HelpRestart,
		"WeeklyReviewActive":              catalog.WeeklyReviewEmpty,
		"WeeklyReviewCelebration":         catalog.WeeklyReview,
		"OptOutConfirm":                   catalog.RemindersOff,
		"OptInConfirm":                    catalog.RemindersOn,
		"OptOutConfirmed":                 catalog.RemindersOff,
		"OptInConfirmed":                  catalog.RemindersOn,
		"OptOutError":                     catalog.Apology,
		"WelcomeBack":                     "", // a return sends nothing
		"DestinationSwitchedToGroup":      catalog.DestinationHousehold,
		"DestinationSwitchedToIndividual": catalog.DestinationIndividual,
		"DestinationSwitchFailed":         catalog.Apology,
		"DestinationNeedGroupFirst":       catalog.DestinationNone,
	} {
		if key != "" {
			require.Contains(t, catalog.EngagementKeys(), key, source)
			used[key] = true
		}
	}
	for _, key := range catalog.EngagementKeys() {
		used[key] = used[key] || strings.HasPrefix(key, "GOAL_") // which it had none of
	}
	require.Len(t, used, len(catalog.EngagementKeys()))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		key    string
		params catalog.Params
		is     error
		want   string
	}{
		{name: "S4_81_UnknownKey", key: "engagement.goodbye_self_select", is: catalog.ErrUnknownText, want: "ENGAGEMENT_GOODBYE"},
		{name: "S4_81_KeyOfOnboarding", key: "ONBOARDING_OPENING", is: catalog.ErrUnknownText, want: "ONBOARDING_OPENING"},
		{name: "S4_81_ParameterOfAnotherKey", key: catalog.Goodbye, params: catalog.Params{Count: 1}, is: catalog.ErrParams, want: "has no count"},
		{name: "S4_81_ParameterMissing", key: catalog.HintBudget, is: catalog.ErrParams, want: "needs category"},
		{name: "S4_81_ParameterOfWhichNothingIsLeft", key: catalog.WelcomeExpense, params: catalog.Params{Expense: "🎉"}, is: catalog.ErrParams, want: "nothing of the expense"},
		{name: "S4_86_NoCelebrationOfZero", key: catalog.WeeklyReview, is: catalog.ErrParams, want: "needs count"},
		{name: "S4_86_NoCelebrationOfLess", key: catalog.WeeklyReview, params: catalog.Params{Count: -1}, is: catalog.ErrParams, want: "nothing of the count"},
		{name: "S4_86_NoCountOfZero", key: catalog.WeeklyReviewEmpty, params: catalog.Params{Count: 1}, is: catalog.ErrParams, want: "has no count"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := catalog.Check(tt.key, tt.params)
			require.ErrorIs(t, err, tt.is)
			require.ErrorContains(t, err, tt.want)
			_, err = builtIn.Render("en", tt.key, "Ana", tt.params)
			require.ErrorIs(t, err, tt.is)
		})
	}
	t.Run("S4_81_EverythingThatIsWrongIsReportedAtOnce", func(t *testing.T) {
		t.Parallel()
		err := catalog.Check(catalog.HintBudget, catalog.Params{Count: 2, Expense: "coffee"})
		for _, want := range []string{"has no count", "has no expense", "needs category"} {
			require.ErrorContains(t, err, want)
		}
	})
	t.Run("WhatIsCompletePasses", func(t *testing.T) {
		t.Parallel()
		for _, key := range catalog.EngagementKeys() {
			params, _ := sample(key)
			require.NoError(t, catalog.Check(key, params), key)
			_, params = catalog.Widest(key)
			require.NoError(t, catalog.Check(key, params), key)
		}
	})
}

func TestWaitForAReminder(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		wait                      time.Duration
		busy, reminder, tranquilo string
	}{
		{wait: 14 * day, busy: "one reminder in two weeks and", reminder: "mentioned two weeks ago", tranquilo: "Daqui a duas semanas a gente"},
		{wait: day, busy: "one reminder in one day and", reminder: "mentioned one day ago", tranquilo: "Daqui a um dia a gente"},
		{wait: 10 * day, busy: "one reminder in 10 days and", reminder: "mentioned 10 days ago", tranquilo: "Daqui a 10 dias a gente"},
		{wait: 7 * day, busy: "one reminder in one week and", reminder: "mentioned one week ago", tranquilo: "Daqui a uma semana a gente"},
		{wait: 21 * day, busy: "one reminder in 3 weeks and", reminder: "mentioned 3 weeks ago", tranquilo: "Daqui a 3 semanas a gente"},
		{wait: 365 * day, busy: "one reminder in 365 days and", reminder: "mentioned 365 days ago", tranquilo: "Daqui a 365 dias a gente"},
	} {
		for _, said := range []struct{ locale, key, want string }{
			{"en", catalog.GoodbyeBusy, tt.busy},
			{"en", catalog.Reminder, tt.reminder},
			{"pt-BR", catalog.GoodbyeBusy, tt.tranquilo},
			{"pt-BR", catalog.Reminder, "como combinado"},
		} {
			text, err := builtIn.Render(said.locale, said.key, "", catalog.WaitOf(tt.wait))
			require.NoError(t, err)
			require.Contains(t, text, said.want)
		}
	}
	require.Zero(t, catalog.WaitOf(14*day), "a release that knows no other wait reads the row")
	for days := 1; days <= 365; days++ {
		for locale, usual := range map[string]string{"en": render(t, "en", catalog.GoodbyeBusy), "pt-BR": render(t, "pt-BR", catalog.GoodbyeBusy)} {
			text, err := builtIn.Render(locale, catalog.GoodbyeBusy, "", catalog.Params{Wait: days})
			require.NoError(t, err)
			require.LessOrEqual(t, len([]rune(text)), len([]rune(usual)), "Widest leaves it out")
		}
	}
	for _, days := range []int{-1, 366} {
		require.ErrorContains(t, catalog.Check(catalog.Reminder, catalog.Params{Wait: days}), "nothing of the wait")
	}
	require.ErrorContains(t, catalog.Check(catalog.Goodbye, catalog.Params{Wait: 3}), "has no wait")
}

func TestParseParams(t *testing.T) {
	t.Parallel()
	params, err := catalog.ParseParams([]byte(`{"count": 3, "category": "Mercado"}`))
	require.NoError(t, err)
	require.Equal(t, catalog.Params{Count: 3, Category: "Mercado"}, params)
	for name, stored := range map[string]string{
		"S4_81_UnknownParameter": `{"link": "x"}`, "S4_81_WrongType": `{"count": "three"}`, "S4_81_NoWholeNumber": `{"count": 1.5}`,
		"NoObject": `[]`, "Nothing": ``, "MoreThanOne": `{} {}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.ParseParams([]byte(stored))
			require.ErrorIs(t, err, catalog.ErrParams)
		})
	}
}

func TestReviewOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		count int
		key   string
		has   catalog.Params
	}{
		{name: "S4_86_NothingIsNotCounted", count: 0, key: catalog.WeeklyReviewEmpty},
		{name: "OneIsCounted", count: 1, key: catalog.WeeklyReview, has: catalog.Params{Count: 1}},
		{name: "MoreThanFitsIsCapped", count: 1_000_000, key: catalog.WeeklyReview, has: catalog.Params{Count: 99_999}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key, params := catalog.ReviewOf(tt.count)
			require.Equal(t, tt.key, key)
			require.Equal(t, tt.has, params)
			require.NoError(t, catalog.Check(key, params))
		})
	}
	t.Run("S4_86_TheTextForNothingHasNoNumber", func(t *testing.T) {
		t.Parallel()
		for _, locale := range []string{"en", "pt-BR"} {
			require.NotRegexp(t, `\d|🎉|!`, render(t, locale, catalog.WeeklyReviewEmpty))
		}
	})
}

func TestRenderOfEngagement(t *testing.T) {
	t.Parallel()
	texts, err := catalog.LoadEngagement(fstest.MapFS{
		"2026-11.en.json":    {Data: []byte(`{"ENGAGEMENT_WELCOME": "Hi {first_name}!", "ENGAGEMENT_WELCOME_EXPENSE": "Hi {first_name} {expense}."}`)},
		"2026-11.pt-BR.json": {Data: []byte(`{"ENGAGEMENT_WELCOME": "Oi, {first_name}!"}`)},
	})
	require.NoError(t, err)
	tests := []struct {
		name, locale, key, firstName, expense, goal, want string
	}{
		{name: "S4_52_InTheLanguageOfThePerson", locale: "pt-BR", key: catalog.Welcome, firstName: "Ana", want: "Oi, Ana!"},
		{name: "S4_52_AnotherCountryOfTheLanguage", locale: "pt-PT", key: catalog.Welcome, firstName: "Ana", want: "Oi, Ana!"},
		{name: "S4_52_UnknownLanguageFallsBackToEnglish", locale: "fr", key: catalog.Welcome, firstName: "Ana", want: "Hi Ana!"},
		{name: "NoNameIsLeftOut", locale: "en", key: catalog.Welcome, firstName: " ", want: "Hi!"},
		{name: "NoNameIsLeftOutWithItsComma", locale: "pt-BR", key: catalog.Welcome, firstName: "🎉", want: "Oi!"},
		{name: "ExpenseKeepsItsNumber", locale: "en", key: catalog.WelcomeExpense, expense: "café R$ 5,50", want: "Hi café R$ 5,50."},
		{name: "ExpenseLosesItsLink", locale: "en", key: catalog.WelcomeExpense, expense: "https://evil.example 5", want: "Hi httpsevilexample 5."},
		{name: "ExpenseHasNoPlaceholders", locale: "en", key: catalog.WelcomeExpense, expense: "{first_name} 5", want: "Hi firstname 5."},
		{name: "GoalStaysOnOneLineAndAsItWasWritten", locale: "en", key: catalog.GoalReminder, goal: "call\n\u202eJohn:  {first_name} \x07at https://x.example, \u200b\"now\"?", want: "Reminder: call John: {first_name} at https://x.example, \"now\"?"},
		{name: "LongGoalIsCutAndMarked", locale: "en", key: catalog.GoalReminder, goal: strings.Repeat("call John ", 40), want: "Reminder: " + strings.TrimSpace(strings.Repeat("call John ", 29)) + " call..."},
		{name: "LongExpenseLosesItsLastWords", locale: "en", key: catalog.WelcomeExpense, expense: "lunch with the whole team 120", want: "Hi lunch with the whole."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := texts.Render(tt.locale, tt.key, tt.firstName, catalog.Params{Expense: tt.expense, WholeGoal: tt.goal})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	t.Run("WithoutCopyThereIsNoText", func(t *testing.T) {
		t.Parallel()
		_, err := catalog.Engagement{}.Render("en", catalog.Goodbye, "", catalog.Params{})
		require.ErrorIs(t, err, catalog.ErrUnknownText)
	})
}

func TestLoadEngagement(t *testing.T) {
	t.Parallel()
	file := func(texts string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(texts)} }
	t.Run("WhatAFolderLacksIsAsBuiltIn", func(t *testing.T) {
		t.Parallel()
		texts, err := catalog.LoadEngagement(fstest.MapFS{
			"2026-11.en.json": file(`{"ENGAGEMENT_TIPS_OFF": "Old. Text \"start tips\".", "ENGAGEMENT_APOLOGY": "Sorry."}`),
			"2026-12.en.json": file(`{"ENGAGEMENT_TIPS_OFF": "New. Text \"start tips\"."}`),
		})
		require.NoError(t, err)
		for _, tt := range []struct{ locale, key, want string }{
			{locale: "en", key: catalog.TipsOff, want: `New. Text "start tips".`},
			{locale: "en", key: catalog.Apology, want: "Sorry."},
			{locale: "en", key: catalog.Tier1, want: render(t, "en", catalog.Tier1)},
			{locale: "pt-BR", key: catalog.TipsOff, want: render(t, "pt-BR", catalog.TipsOff)},
		} {
			got, err := texts.Render(tt.locale, tt.key, "", catalog.Params{})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		}
	})
	t.Run("S4_27_AnotherLanguageHasEveryText", func(t *testing.T) {
		t.Parallel()
		_, err := catalog.LoadEngagement(fstest.MapFS{"2026-12.es.json": file(`{"ENGAGEMENT_APOLOGY": "Perdona."}`)})
		require.ErrorIs(t, err, catalog.ErrCopy)
		require.ErrorContains(t, err, "ENGAGEMENT_GOODBYE in es is missing or empty")
		require.NotContains(t, err.Error(), "ENGAGEMENT_APOLOGY")
	})
	t.Run("AWaitStandsOnlyInALanguageThatHasWordsForIt", func(t *testing.T) {
		t.Parallel()
		_, err := catalog.LoadEngagement(fstest.MapFS{"2026-12.es.json": file(`{"ENGAGEMENT_REMINDER": "Hace {wait}."}`)})
		require.ErrorContains(t, err, "ENGAGEMENT_REMINDER in es has a brace outside {first_name}")
		texts, err := catalog.LoadEngagement(fstest.MapFS{"2026-12.en.json": file(`{"ENGAGEMENT_REMINDER": "Hi again."}`)})
		require.NoError(t, err, "a text of the release before, which has no wait")
		got, err := texts.Render("en", catalog.Reminder, "", catalog.Params{Wait: 3})
		require.NoError(t, err)
		require.Equal(t, "Hi again.", got)
	})
	t.Run("EverythingIsReportedAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := catalog.LoadEngagement(fstest.MapFS{
			"copy.json":          file(`{}`),
			"2026-12.en.json":    file(`{"ENGAGEMENT_APOLOGY": "We miss you, hurry", "ENGAGEMENT_TIER_4": "x"}`),
			"2026-12.pt-BR.json": file(`{"ENGAGEMENT_TIER_1": "Você sumiu 🎉🎉"}`),
		})
		for _, want := range []string{
			"copy.json: a file is named", `says "we miss you"`, `says "hurry"`, "ENGAGEMENT_TIER_4 is not a key of engagement", `says "sumiu"`, "2 emoji",
		} {
			require.ErrorContains(t, err, want)
		}
	})
}

// TestLoadEngagementRefuses checks the faults that no copy folder gets past.
// Also: S4-29.
func TestLoadEngagementRefuses(t *testing.T) {
	t.Parallel()
	const en, pt = "2026-12.en.json", "2026-12.pt-BR.json"
	tests := []struct{ name, file, key, text, want string }{
		{name: "S4_25_TwoEmoji", file: en, key: catalog.Tier1, text: "Nice 🎉 and on 🎉", want: "has 2 emoji"},
		{name: "S4_25_KeycapsAreEmojiAndNoDigits", file: en, key: catalog.Goodbye, text: "1️⃣ a 2️⃣ b 3️⃣ c", want: "has 3 emoji"},
		{name: "S4_25_FormalAddress", file: pt, key: catalog.Apology, text: "Prezado cliente, algo falhou.", want: `says "prezado"`},
		{name: "S4_25_VoceWithoutItsAccent", file: pt, key: catalog.Apology, text: "A falha foi nossa, voce pode repetir.", want: `says "voce"`},
		{name: "S4_25_Shouting", file: en, key: catalog.Apology, text: "Do it NOW please", want: `shouts "NOW"`},
		{name: "S4_25_ExclamationMarks", file: en, key: catalog.Apology, text: "Sorry!!!", want: "more than one !"},
		{name: "S4_26_Guilt", file: en, key: catalog.Goodbye, text: "We’ve missed you. 1 a 2 b 3 c", want: `says "missed you"`},
		{name: "S4_26_GuiltInPortuguese", file: pt, key: catalog.Goodbye, text: "Percebi que você sumiu. 1 a 2 b 3 c", want: `says "percebi que"`},
		{name: "S4_26_Pressure", file: en, key: catalog.Reminder, text: "Two weeks left. Don't wait", want: `says "don't wait"`},
		{name: "S4_26_PressureInPortuguese", file: pt, key: catalog.Reminder, text: "Agora ou nunca", want: `says "agora ou nunca"`},
		{name: "S4_26_Judgement", file: en, key: catalog.WeeklyReview, text: "{count}: you spent too much", want: `says "spent too much"`},
		{name: "S4_26_JudgementInPortuguese", file: pt, key: catalog.WeeklyReview, text: "{count}: você exagerou", want: `says "exagerou"`},
		{name: "S4_26_StreakShaming", file: en, key: catalog.WeeklyReview, text: "{count}: keep your streak", want: `says "streak"`},
		{name: "S4_26_StreakShamingInPortuguese", file: pt, key: catalog.WeeklyReview, text: "{count} dias seguidos", want: `says "dias seguidos"`},
		{name: "S4_26_Manipulation", file: en, key: catalog.RemindersOff, text: `Are you sure? \"start reminders\"`, want: `says "are you sure"`},
		{name: "TooLongInGSM7", file: en, key: catalog.Apology, text: strings.Repeat("a", 301), want: "two segments hold 300 in GSM-7"},
		{name: "TooLongInUCS2", file: pt, key: catalog.Apology, text: "ç" + strings.Repeat("a", 134), want: "two segments hold 134 because 'ç'"},
		{name: "TooLongWithItsParameter", file: en, key: catalog.HintBudget, text: "{category}" + strings.Repeat("a", 115), want: "is 135 characters"},
		{name: "EmojiAtTheCut", file: en, key: catalog.Apology, text: strings.Repeat("a", 66) + "🎉" + strings.Repeat("a", 66), want: "is 135 characters"},
		{name: "ParameterMissing", file: en, key: catalog.WeeklyReview, text: "A week", want: "does not have {count}"},
		{name: "ParameterOfAnotherText", file: en, key: catalog.Apology, text: "Sorry {count}", want: "has a brace outside {first_name}"},
		{name: "NameThatCannotBeLeftOut", file: en, key: catalog.Apology, text: "{first_name}, sorry", want: "where it cannot be left out"},
		{name: "CirclesAreNoDigits", file: en, key: catalog.Goodbye, text: "① a 2 b 3 c", want: "digits other than plain"},
		{name: "ChoiceMissing", file: en, key: catalog.Goodbye, text: "1 a 2 b", want: "has 2 choices; they are 1 to 3"},
		{name: "ChoicesInAnotherOrder", file: en, key: catalog.Goodbye, text: "1 a 3 b 2 c", want: "has 3 where the choice 2 comes"},
		{name: "EmptyLine", file: en, key: catalog.Apology, text: `a\n\nb`, want: "empty line"},
		{name: "UnknownOffer", file: en, key: catalog.TipsOff, text: `Text \"more tips\" or \"start tips\"`, want: `offers "more tips"`},
		{name: "OfferOfAnotherLanguage", file: pt, key: catalog.TipsOff, text: `Envie \"start tips\"`, want: `offers "start tips"`},
		{name: "S4_24_NoWayBack", file: en, key: catalog.RemindersOff, text: "Done.", want: `does not say how to undo it: "start reminders"`},
		{name: "OfferOfStop", file: pt, key: catalog.TipsOn, text: `Pra desligar, \"Sair\" ou \"parar dicas\"`, want: `offers "Sair", which means STOP`},
		{name: "StopAskedFor", file: en, key: catalog.Apology, text: "Sorry. Reply stop for none", want: `says "Reply stop "`},
		{name: "TwoExamples", file: en, key: catalog.HelpRestart, text: `Text \"coffee 5\" or \"lunch 9\"`, want: "has 2 examples"},
		{name: "OpenQuote", file: en, key: catalog.HelpRestart, text: `Text \"coffee 5`, want: "quotes otherwise"},
		{name: "OtherQuotes", file: en, key: catalog.HelpRestart, text: "Text “pão 5”", want: "quotes otherwise"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.LoadEngagement(fstest.MapFS{tt.file: {Data: fmt.Appendf(nil, `{%q: "%s"}`, tt.key, tt.text)}})
			require.ErrorIs(t, err, catalog.ErrCopy)
			require.ErrorContains(t, err, tt.want)
		})
	}
	t.Run("TypographyIsWrittenPlainly", func(t *testing.T) {
		t.Parallel()
		texts, err := catalog.LoadEngagement(fstest.MapFS{en: {Data: fmt.Appendf(nil, `{%q: "It’s easy – text\u00a0“coffee\u00a05”…"}`, catalog.HelpRestart)}})
		require.NoError(t, err)
		text, err := texts.Render("en", catalog.HelpRestart, "", catalog.Params{})
		require.NoError(t, err)
		require.Equal(t, `It's easy - text "coffee 5"...`, text)
	})
	t.Run("WhatKeepsTheRulesPasses", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{
			strings.Repeat("a", 300), "An SMS is OK 👩‍💻", "Kids' shoes, at the end of the week", "Stop by whenever you like",
			strings.Repeat("a", 65) + "🎉" + strings.Repeat("a", 67), `Text \"stop tips\" or \"stop reminders\"`, "Hi {first_name}", `a\nb`,
		} {
			_, err := catalog.LoadEngagement(fstest.MapFS{en: {Data: fmt.Appendf(nil, `{%q: "%s"}`, catalog.Apology, text)}})
			require.NoError(t, err, text)
		}
	})
}

// TestEngagementCopyWasRead holds that no text of engagement is sent that no native reader has read.
func TestEngagementCopyWasRead(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/read.tsv")
	require.NoError(t, err)
	for _, locale := range builtIn.Locales() {
		t.Run("S4_28_"+locale, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile("engagement/2026-11." + locale + ".json")
			require.NoError(t, err)
			require.Contains(t, string(list), fmt.Sprintf("\n%s\t2026-11-23\t%x\n", locale, sha256.Sum256(file)),
				"have the texts read, see testdata/read.tsv")
		})
	}
}
