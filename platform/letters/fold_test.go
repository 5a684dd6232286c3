package letters

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{name: "None", text: " ?!👍 "},
		{name: "CaseAndMarks", text: "STOP!! Opt-out", want: []string{"stop", "opt", "out"}},
		{name: "Accents", text: "NÃO começar Ação àéîõü ñ ÿ ő ş ệ", want: []string{"nao", "comecar", "acao", "aeiou", "n", "y", "o", "s", "e"}},
		{name: "AccentsApart", text: "na\u0303o", want: []string{"nao"}},
		{name: "FullWidth", text: "ＳＴＯＰ！１", want: []string{"stop", "1"}},
		{name: "Unseen", text: "s\u200bt\u00ado\u2060p\ufe0f", want: []string{"stop"}},
		{name: "VowelsThatAreMarks", text: "मैसेज, भेजो หยุดส่ง! পাঠাবেন", want: []string{"मैसेज", "भेजो", "หยุดส่ง", "পাঠাবেন"}},
		{name: "MarksApart", text: "\u095c \u0921\u093c か\u3099", want: []string{"\u0921\u093c", "\u0921\u093c", "が"}},
		{name: "PointsThatAreLeftOut", text: "أَوْقِفُوا إلغاء שָׁלוֹם", want: []string{"اوقفوا", "الغاء", "שלום"}},
		{name: "OtherScripts", text: "Ёлка Ὀδός 한국 が", want: []string{"елка", "οδος", "한국", "が"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, slices.Clip(append([]string(nil), Words(tt.text)...)))
		})
	}
}

// TestFold writes every letter of Latin with its accents together and apart, small and large: its words are the same.
func TestFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom(nil, unicode.Latin, unicode.Zs)).Draw(t, "text")
		require.Equal(t, Words(text), Words(norm.NFD.String(text)))
		require.Equal(t, Words(text), Words(norm.NFC.String(text)))
		again := strings.Join(Words(text), " ")
		require.Equal(t, again, strings.Join(Words(again), " "), "folding twice changes nothing")
	})
}

func TestLeading(t *testing.T) {
	t.Parallel()
	known := func(phrase string) bool { return phrase == "not" || phrase == "not now" }
	for _, tt := range []struct {
		name, text, want string
		length           int
	}{
		{name: "TheLongest", text: "not now thanks", want: "not now", length: 2},
		{name: "AShorterOne", text: "not later", want: "not", length: 1},
		{name: "NoneAtTheBeginning", text: "later not"},
		{name: "Nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			phrase, length := Leading(Words(tt.text), 4, known)
			require.Equal(t, tt.want, phrase)
			require.Equal(t, tt.length, length)
		})
	}
}
