package inbound_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbound"
)

// TestReplyCopy holds what we answer to one segment in GSM-7, in each language but Portuguese, which cannot be written in its letters.
func TestReplyCopy(t *testing.T) {
	t.Parallel()
	answers := inbound.ReplyCopy{Brand: "Paceline"}
	for _, l := range languages.All() {
		t.Run(l.Locale, func(t *testing.T) {
			t.Parallel()
			question := answers.Asks(consent.Locale(l.Locale))
			require.Empty(t, letters.Dearer(question), question)
			require.LessOrEqual(t, len([]rune(question)), 160, question)
			for _, text := range []string{answers.Stopped(consent.Locale(l.Locale)), answers.Help(consent.Locale(l.Locale))} {
				require.Regexp(t, `^Paceline: \pL.*\.$`, text)
				require.NotContains(t, text, "  ")
				if l.Locale != "pt-BR" {
					require.Empty(t, letters.Dearer(text), text)
					require.LessOrEqual(t, len([]rune(text)), 160, text)
				}
			}
		})
	}
	require.Contains(t, inbound.ReplyCopy{Contact: "help@example.com"}.Help("fr"), " Aide : help@example.com. Répondez ARRET")
	require.Equal(t, answers.Stopped(consent.English), answers.Stopped("de"), "a language that there is none of")
}
