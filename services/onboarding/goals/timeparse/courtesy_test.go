package timeparse_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/goals/timeparse"
)

// TestCourtesies leaves courtesies at the end out of a goal, and keeps those that are to be said.
func TestCourtesies(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 25, 14, 5, 20, 0, time.UTC)
	for _, tt := range []struct{ locale, text, want string }{
		{"en", "tomorrow at 8 to call mum pls", "to call mum"},
		{"en", "tomorrow at 8 to call mum, please!", "to call mum"},
		{"en", "call mum tomorrow at 8 please, thanks", "call mum"},
		{"en", "call mum please tomorrow at 8am", "call mum"},
		{"en", "water the plants at 5pm. Thank you so much", "water the plants"},
		{"en", "email Raj tomorrow at 11am? thanks!", "email Raj"},
		{"en", "tell mum tomorrow at 8 to come plz", "tell mum to come"},
		{"en", "tomorrow at 8 pls", ""},
		{"en", "tomorrow at 8 tell Ana thanks", "tell Ana thanks"},
		{"en", "tomorrow at 8 say please", "say please"},
		{"en", "tomorrow at 8 please call mum", "please call mum"},
		{"en", "tomorrow at 8 buy a thank you card", "buy a thank you card"},
		{"pt-BR", "amanhã às 8h de ligar pra mãe por favor", "de ligar pra mãe"},
		{"pt-BR", "amanhã às 8h ligar pra mãe, obrigada", "ligar pra mãe"},
		{"pt-BR", "ligar pra mãe amanhã às 8h pfv", "ligar pra mãe"},
		{"pt-BR", "ligar pra mãe amanhã às 8h. Valeu!", "ligar pra mãe"},
		{"pt-BR", "pagar a luz às 15h por gentileza", "pagar a luz"},
		{"pt-BR", "amanhã às 8h falar muito obrigado", "falar muito obrigado"},
		{"es", "mañana a las 8 llamar a mamá por favor", "llamar a mamá"},
		{"es", "mañana a las 8 pagar la luz, gracias", "pagar la luz"},
		{"fr", "demain à 8h appeler maman svp", "appeler maman"},
		{"fr", "demain à 8h appeler maman, merci", "appeler maman"},
	} {
		t.Run(tt.locale+" "+tt.text, func(t *testing.T) {
			t.Parallel()
			read := timeparse.Read(tt.text, tt.locale, time.UTC, now)
			require.Equal(t, timeparse.At, read.Kind)
			require.Equal(t, tt.want, read.Goal)
		})
	}
}
