package consent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/consent"
)

func TestReadAfterWhatWasAsked(t *testing.T) {
	t.Parallel()
	const opening = "Hi Ana, it's the welcome team. A few short texts will help you start. Ready? Reply STOP to opt out."
	goal := consent.Asked{Goal: true, Sent: []string{"Got it, we'll text you tomorrow at 09:00: call mom. To undo it, text \"undo\" today.", opening}}
	other := consent.Asked{Sent: []string{opening}}
	wishes := "> " + opening + "\nNo more reminders, please"
	require.Equal(t, consent.Off, other.Read(wishes, "", consent.OptedIn).Preferences.Reminders, "next to a quote")
	for _, tt := range []struct {
		name  string
		asked consent.Asked
		text  string
		want  consent.Effect
	}{
		{name: "ThatAfterAGoal", asked: goal, text: "cancel that", want: consent.None},
		{name: "ItAfterAGoal", asked: goal, text: "Cancel it!", want: consent.None},
		{name: "PortugueseAfterAGoal", asked: goal, text: "cancela isso", want: consent.None},
		{name: "StopThatAfterAGoal", asked: goal, text: "stop that", want: consent.None},
		{name: "NevermindAfterAGoal", asked: goal, text: "nevermind, cancel", want: consent.None},
		{name: "ItAfterAnotherMessage", asked: other, text: "cancel it", want: consent.Ambiguous},
		{name: "ItAfterNothing", text: "cancel it", want: consent.Ambiguous},
		{name: "TheKeywordAfterAGoal", asked: goal, text: "CANCEL", want: consent.OptOut},
		{name: "StopAfterAGoal", asked: goal, text: "stop please", want: consent.OptOut},
		{name: "AllAfterAGoal", asked: goal, text: "cancel everything", want: consent.Ambiguous},
		{name: "AClearRevocationAfterAGoal", asked: goal, text: "cancel that, stop texting me", want: consent.OptOut},
		{name: "AQuoteOfOurs", asked: other, text: opening, want: consent.None},
		{name: "AQuoteAndWords", asked: other, text: "> " + opening + "\nSounds good", want: consent.None},
		{name: "AQuoteAndThatAfterAGoal", asked: goal, text: goal.Sent[0] + " cancel that", want: consent.None},
		{name: "AQuoteAndTheKeyword", asked: other, text: opening + " STOP", want: consent.OptOut},
		{name: "AQuoteAndADoubt", asked: other, text: opening + " leave me alone", want: consent.Ambiguous},
		{name: "AKeywordInTwoParts", text: "AR RET", want: consent.Ambiguous},
		{name: "AKeywordByLetters", text: "P A R A R", want: consent.Ambiguous},
		{name: "AQuoteOfSomethingElse", text: "Please reply \"STOP\" to opt out of messages", want: consent.Ambiguous},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.asked.Read(tt.text, "", consent.OptedIn).Effect)
		})
	}
}

// TestAQuoteHidesNoRevocation pastes our messages next to a revocation.
func TestAQuoteHidesNoRevocation(t *testing.T) {
	t.Parallel()
	sent := []string{
		"Hi Ana, it's the welcome team. A few short texts will help you start. Ready? Reply STOP to opt out.",
		"Got it, we'll text you tomorrow at 09:00: stop texting me so late. To undo it, text \"undo\" today.",
		"Podemos começar? São poucas mensagens, todas bem curtas. Envie PARAR para não receber mais.",
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom([]string{"stop texting me", "STOP", "please stop texting me", "não quero mais receber", "me tira da lista"}).Draw(t, "words")
		quote := rapid.SampledFrom(sent).Draw(t, "quote")
		mark := rapid.SampledFrom([]string{" ", "\n", "\n> "}).Draw(t, "mark")
		text := quote + "\n" + words
		if rapid.Bool().Draw(t, "before") {
			text = words + mark + quote
		}
		for _, goal := range []bool{false, true} {
			effect := consent.Asked{Sent: sent, Goal: goal}.Read(text, "", consent.OptedIn).Effect
			require.Contains(t, []consent.Effect{consent.OptOut, consent.Ambiguous}, effect, text)
		}
	})
}
