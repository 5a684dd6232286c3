package sms_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/sms"
)

func TestSegments(t *testing.T) {
	t.Parallel()
	a := func(n int) string { return strings.Repeat("a", n) }
	z := func(n int) string { return strings.Repeat("ж", n) }
	tests := []struct {
		name string
		body string
		want sms.Segmentation
	}{
		{name: "Empty", body: "", want: sms.Segmentation{Encoding: sms.GSM7}},
		{name: "OneCharacter", body: "a", want: sms.Segmentation{Encoding: sms.GSM7, Count: 1, Units: 1}},
		{name: "FullSingleGSM7", body: a(160), want: sms.Segmentation{Encoding: sms.GSM7, Count: 1, Units: 160}},
		{name: "OneOverSingleGSM7", body: a(161), want: sms.Segmentation{Encoding: sms.GSM7, Count: 2, Units: 161}},
		{name: "TwoFullGSM7", body: a(306), want: sms.Segmentation{Encoding: sms.GSM7, Count: 2, Units: 306}},
		{name: "OneOverTwoGSM7", body: a(307), want: sms.Segmentation{Encoding: sms.GSM7, Count: 3, Units: 307}},
		{name: "ExtensionCountsTwo", body: "{€}", want: sms.Segmentation{Encoding: sms.GSM7, Count: 1, Units: 6}},
		{name: "ExtensionFillsSingle", body: a(158) + "€", want: sms.Segmentation{Encoding: sms.GSM7, Count: 1, Units: 160}},
		{name: "EscapePairIsNotCut", body: a(152) + "€" + a(152), want: sms.Segmentation{Encoding: sms.GSM7, Count: 3, Units: 306}},
		{name: "EscapePairMovesToTheNextSegment", body: a(152) + "€" + a(151), want: sms.Segmentation{Encoding: sms.GSM7, Count: 2, Units: 305}},
		{name: "LettersOfGSM7", body: "àéùìòÇÉÑñäöü", want: sms.Segmentation{Encoding: sms.GSM7, Count: 1, Units: 12}},
		{name: "LowerCedillaIsUCS2", body: "começar", want: sms.Segmentation{Encoding: sms.UCS2, Count: 1, Units: 7}},
		{name: "TildeLettersAreUCS2", body: "não", want: sms.Segmentation{Encoding: sms.UCS2, Count: 1, Units: 3}},
		{name: "FullSingleUCS2", body: z(70), want: sms.Segmentation{Encoding: sms.UCS2, Count: 1, Units: 70}},
		{name: "OneOverSingleUCS2", body: z(71), want: sms.Segmentation{Encoding: sms.UCS2, Count: 2, Units: 71}},
		{name: "TwoFullUCS2", body: z(134), want: sms.Segmentation{Encoding: sms.UCS2, Count: 2, Units: 134}},
		{name: "OneOverTwoUCS2", body: z(135), want: sms.Segmentation{Encoding: sms.UCS2, Count: 3, Units: 135}},
		{name: "EmojiCountsTwo", body: "👋", want: sms.Segmentation{Encoding: sms.UCS2, Count: 1, Units: 2}},
		{name: "SurrogatePairIsNotCut", body: z(66) + "👋" + z(66), want: sms.Segmentation{Encoding: sms.UCS2, Count: 3, Units: 134}},
		{name: "SurrogatePairAtTheEdge", body: z(65) + "👋" + z(67), want: sms.Segmentation{Encoding: sms.UCS2, Count: 2, Units: 134}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, sms.Segments(tt.body))
		})
	}
}

// Every cut must hold all units, and no segment can be more than one unit short of full, except the last.
func TestSegmentsAreAsFewAsPairsAllow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "€", "{", "ã", "👋"}), 1, 900).Draw(t, "body"), "")
		s := sms.Segments(body)
		single, multi := 160, 153
		if s.Encoding == sms.UCS2 {
			single, multi = 70, 67
		}
		if s.Units <= single {
			require.Equal(t, 1, s.Count)
			return
		}
		require.GreaterOrEqual(t, s.Count*multi, s.Units)
		require.Less(t, (s.Count-1)*(multi-1), s.Units)
	})
}
