package human_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/reading/human"
)

func TestAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want bool
	}{
		{text: "I want to talk to a human please", want: true},
		{text: "HUMAN PLEASE!!", want: true},
		{text: "Can I speak to a real person? My child is sick", want: true},
		{text: "agent", want: true},
		{text: "quero falar com um atendente", want: true},
		{text: "Preciso falar com alguém, por favor", want: true},
		{text: "Quiero hablar con una persona", want: true},
		{text: "Je voudrais parler à quelqu’un", want: true},
		{text: "put me through to the front desk", want: true}, // of the flow
		{text: "I don't need to talk to a human", want: false},
		{text: "não quero falar com um atendente", want: false},
		{text: "Je n'ai pas besoin de parler à un conseiller", want: false},
		{text: "no need to talk to someone", want: false},
		{text: "My sister is a real estate agent", want: false},
		{text: "ok, go ahead", want: false},
		{text: "I am a human being", want: false},
		{text: "my child is sick, what do I do", want: false},
		{text: "", want: false},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, human.Asked(tt.text, []string{"the front desk"}))
		})
	}
}
