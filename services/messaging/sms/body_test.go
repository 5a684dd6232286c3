package sms_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/sms"
)

func TestNewBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		text string
		want string // part of the error, empty when the text is taken
	}{
		{name: "OrdinaryText", text: "Oi! Tudo bem? 👋"},
		{name: "LongestText", text: strings.Repeat("a", sms.MaxBody)},
		{name: "OneTooLong", text: strings.Repeat("a", sms.MaxBody+1), want: "1601 characters, at most 1600"},
		{name: "LongestTextOfEmoji", text: strings.Repeat("👋", sms.MaxBody/2)},
		{name: "EmojiCountTwice", text: strings.Repeat("👋", sms.MaxBody/2+1), want: "1602 characters"},
		{name: "Empty", text: "", want: "blank"},
		{name: "OnlySpace", text: " \n\t\u00a0", want: "blank"},
		{name: "InvalidUTF8", text: "caf\xe9", want: "not valid UTF-8"},
		{name: "NUL", text: "a\x00b", want: "NUL character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body, err := sms.NewBody(tt.text)
			if tt.want == "" {
				require.NoError(t, err)
				require.Equal(t, tt.text, string(body))
				return
			}
			require.ErrorIs(t, err, sms.ErrBody)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, body)
		})
	}
}

func TestBodyIsMaskedInLogs(t *testing.T) {
	t.Parallel()
	value := slog.AnyValue(sms.Body("olá, segredo")).Resolve()
	require.Equal(t, "[12 characters]", value.String())
}
