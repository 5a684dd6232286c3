package people_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/people"
)

func TestParseLocale(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"": "en", "en": "en", "EN": "en", "en-US": "en", "en_GB": "en", "en_US.UTF-8": "en", "English": "en", "pt-BR": "pt-BR", "pt_BR": "pt-BR",
		"PT-br": "pt-BR", "pt": "pt-BR", "pt-PT": "pt-BR", "Portuguese": "pt-BR", "portugue\u0302s": "pt-BR", "por": "pt-BR", "pt_BR.UTF-8": "pt-BR",
	} {
		got, err := people.ParseLocale(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{"fr", "es-419", "x", "português do brasil!", "und", "en us", "\xff"} {
		_, err := people.ParseLocale(raw)
		require.ErrorContains(t, err, "locale must be one of en, pt-BR", raw)
	}
}
