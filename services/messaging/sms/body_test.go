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
		{name: "EmojiCountTwice", text: strings.Repeat("👋", sms.MaxBody/2+1), want: "1602 characters, at most 1600 fit (an emoji counts as two or more)"},
		{name: "Empty", text: "", want: "blank"},
		{name: "OnlySpace", text: " \n\t\u00a0", want: "blank"},
		{name: "OnlyZeroWidth", text: "\u200b\ufeff\u2060 \u200d", want: "blank"},
		{name: "OnlySoftHyphen", text: "\u00ad", want: "blank"},
		{name: "OnlyVariationSelectors", text: "\ufe0f\ufe00\U000e0100", want: "blank"},
		{name: "OnlyDirections", text: "\u202e\u2066\u061c", want: "blank"},
		{name: "OnlyFillers", text: "\u3164\uffa0\u115f\u034f", want: "blank"},
		{name: "OnlyTags", text: "\U000e0061\U000e007f", want: "blank"},
		{name: "OnlyBrailleBlank", text: "\u2800", want: "blank"},
		{name: "OnlyControls", text: "\x01\x7f", want: "blank"},
		{name: "EmojiWithJoiners", text: "👩\u200d👩\u200d👧 ❤\ufe0f"},
		{name: "LetterWithACombiningMark", text: "q\u0303"},
		{name: "Keycap", text: "1\ufe0f\u20e3"},
		{name: "EmojiNewerThanOurTables", text: "\U0001fadf"},
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
