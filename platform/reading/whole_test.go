package reading_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/reading"
)

func TestAffirmed(t *testing.T) {
	t.Parallel()
	for want, texts := range map[bool][]string{
		true: {
			"YES", "Yes!", " yes yes ", "go on", "Yes, go on", "continue", "sim", "Sim, pode continuar", "pode continuar", "Sí", "si, sigue", "sigan",
			"Oui", "oui, continuez", "Continue.", "ＹＥＳ", "yes 👍",
		},
		false: {
			"", "👍", "yes please", "yes, stop", "yes but not now", "no", "ok", "claro", "sim, obrigada", "si no", "oui mais", "don't go on", "go on holiday",
			"continue to stop",
		},
	} {
		for _, text := range texts {
			require.Equal(t, want, reading.Affirmed(text), text)
		}
	}
}

func TestAgreed(t *testing.T) {
	t.Parallel()
	for want, texts := range map[bool][]string{
		true:  {"yes please", "Yeah!", "ok, claro", "sim, por favor", "Com certeza", "d'accord, merci", "vale gracias", "sounds good, thanks"},
		false: {"", "thanks", "please", "not ok", "yes but no", "sure, why?", "não, obrigado", "3", "👍 later"},
	} {
		for _, text := range texts {
			require.Equal(t, want, reading.Agreed(text), text)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, texts := range map[bool][]string{
		true:  {"no", "No, thanks!", "não, obrigada", "agora não", "Ahora no, gracias", "todavía no", "Non merci", "pas maintenant svp", "no no no"},
		false: {"", "thanks", "no problem", "merci", "sí", "por favor", "non stop"},
	} {
		for _, text := range texts {
			require.Equal(t, want, reading.Refused(text), text)
		}
	}
}
