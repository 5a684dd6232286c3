package goals_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/goals"
)

func TestGoalWords(t *testing.T) {
	t.Parallel()
	words := goals.DefaultWords()
	for _, tt := range []struct {
		name, message, said string
		none                bool
	}{
		{name: "English", message: "remind me to call John tomorrow at 9am", said: "to call John tomorrow at 9am"},
		{name: "CaseAndSpaceAreSetAside", message: "  REMIND\u00a0 Me: Call João ", said: "Call João"},
		{name: "Portuguese", message: "Lembre-me de ligar pro João às 9h", said: "de ligar pro João às 9h"},
		{name: "PortugueseWithoutTheHyphen", message: "lembre me de ligar", said: "de ligar"},
		{name: "SpokenPortuguese", message: "Me lembra, amanhã, de ligar!", said: "amanhã, de ligar!"},
		{name: "InvisibleCharactersAreSetAside", message: "re\u200bmind me call", said: "call"},
		{name: "CombiningAccentsAreSetAside", message: "me le\u0301mbra call", said: "call"},
		{name: "NothingBehindIt", message: "Remind me...", said: "..."},
		{name: "Polite", message: "Hey, could you pls ping me tomorrow at 9am to call mom?", said: "tomorrow at 9am to call mom?"},
		{name: "PoliteInPortuguese", message: "oi, vc pode me avisar amanhã às 9h de ligar?", said: "amanhã às 9h de ligar?"},
		{name: "NotToForget", message: "Don't let me forget to call mom", said: "to call mom"},
		{name: "NotToForgetInPortuguese", message: "não me deixa esquecer de ligar às 8", said: "de ligar às 8"},
		{name: "AReminder", message: "Please set a reminder to call mom", said: "to call mom"},
		{name: "NotAtTheBeginning", message: "you can stop now, remind me to call", none: true},
		{name: "OnlyPolite", message: "could you please", none: true},
		{name: "NotAPartOfAWord", message: "remind meat", none: true},
		{name: "OneWordOfTwo", message: "remind", none: true},
		{name: "Nothing", message: "", none: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			said, found := words.After(tt.message)
			require.Equal(t, tt.said, said)
			require.Equal(t, !tt.none, found)
		})
	}
	t.Run("TheLongestCounts", func(t *testing.T) {
		t.Parallel()
		words, err := goals.ParseWords([]byte(`{"en": ["remind", "remind me please"], "pt-BR": ["lembrar"]}`))
		require.NoError(t, err)
		said, _ := words.After("Remind me please call John")
		require.Equal(t, "call John", said)
		said, _ = words.After("remind me call John")
		require.Equal(t, "me call John", said)
		require.Equal(t, "remind me please, remind, lembrar", words.String())
	})
	t.Run("TheExamplesOfTheTextsBeginSo", func(t *testing.T) {
		t.Parallel()
		for _, locale := range []string{"en", "pt-BR"} {
			text, err := catalog.DefaultEngagement().Render(locale, catalog.GoalAskWhen, "", catalog.Params{})
			require.NoError(t, err)
			_, found := words.After(strings.Split(text, `"`)[1])
			require.True(t, found, text)
		}
	})
}

func TestAFileOfGoalWordsNamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	_, err := goals.ParseWords([]byte(`{"english": ["remind me"], "en": ["Cancel", "no", "undo", "remind me", "Remind-me!", "` +
		strings.Repeat("a", 61) + `", "🎉"], "pt-BR": []}`))
	require.ErrorIs(t, err, goals.ErrWords)
	for _, want := range []string{
		`"english" is no locale`, `"Cancel" of en means STOP`, `"no" of en has fewer than 3 letters`, `"undo" of en undoes a goal`,
		`"Remind-me!" of en is there twice`, "has more than 60 characters", `"🎉" of en has fewer than 3 letters`, "pt-BR has 0 words; it may have 1 to 20",
	} {
		require.ErrorContains(t, err, want)
	}
	for name, file := range map[string]string{
		"nothing": ``, "a list": `["remind me"]`, "no locale": `{}`, "more behind it": `{"en": ["remind me"]} {}`, "a number": `{"en": [1]}`,
	} {
		_, err := goals.ParseWords([]byte(file))
		require.ErrorIs(t, err, goals.ErrWords, name)
	}
}
