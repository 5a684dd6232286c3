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
			"Oui", "oui, continuez", "Continue.", "ＹＥＳ", "yes 👍", "yes please continue", "Please continue!", "keep them coming, thanks", "No, keep sending", "no, go on", "please don't stop",
			"No, don’t stop texting me", "Sim, por favor continuem", "não parem", "pode mandar", "Sí, por favor sigan", "No dejen de escribirme",
			"quiero seguir recibiendo mensajes", "Non, continuez svp", "N'arrêtez pas", "continuez s'il vous plaît",
		},
		false: {
			"", "👍", "yes please", "yes, stop", "yes but not now", "no", "ok", "claro", "sim, obrigada", "si no", "oui mais", "don't go on", "go on holiday",
			"continue to stop", "please", "thanks", "yes, thank you", "please don't continue", "no thanks", "go ahead", "No, I mean I come alone",
			"no, continue", "não continue", "não, quero continuar recebendo", "no sigan", "no, paren", "No quiero seguir, gracias", "ne continuez pas",
			"non merci", "keep going and I sue",
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
