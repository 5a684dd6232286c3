package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

func TestParseToken(t *testing.T) {
	t.Parallel()

	t.Run("KnowsTheRegisteredTokens", func(t *testing.T) {
		t.Parallel()
		want := []string{
			"onboarding:awaiting_opening_response", "onboarding:awaiting_explanation_response", "onboarding:awaiting_burst",
			"onboarding:awaiting_interview_start", "interview:activity_01",
		}
		for i, s := range want {
			token, err := session.ParseToken(s)
			require.NoError(t, err)
			require.Equal(t, session.Tokens()[i], token)
		}
		require.Len(t, session.Tokens(), len(want))
	})

	t.Run("RefusesEveryOther", func(t *testing.T) {
		t.Parallel()
		for _, s := range []string{"", "onboarding:awaiting_lunch", "onboarding:AWAITING_BURST", "awaiting_burst", "interview:activity_02"} {
			token, err := session.ParseToken(s)
			require.ErrorIs(t, err, session.ErrUnknownToken)
			require.Empty(t, token)
		}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		got  string
		want string
	}{
		{name: "Step", got: session.Key("p", "s", "onboarding_message_2"), want: "onboarding:p:s:onboarding_message_2"},
		{name: "Opening", got: session.OpeningKey("p", "s"), want: "onboarding:p:s:opening"},
		{name: "Explanation", got: session.DirectKey("p", "s", session.TextExplanation, 1), want: "onboarding:p:s:explanation:1"},
		{name: "Later", got: session.DirectKey("p", "s", session.TextLater, 12), want: "onboarding:p:s:later:12"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.got)
		})
	}
}
