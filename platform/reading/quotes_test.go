package reading_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/reading"
)

func TestWithoutQuoted(t *testing.T) {
	t.Parallel()
	const opening = "Hi Ana, it's the welcome team. A few short texts will help you start. Ready? Reply STOP to opt out."
	for _, tt := range []struct{ name, text, want string }{
		{"TheWholeOfIt", opening, ""},
		{"InQuotationMarks", "“" + opening + "”", ""},
		{"QuotedLines", "> Hi Ana, it's the welcome team.\n> A few short texts will help you start. Ready? Reply STOP to opt out.\nwho is this?", "who is this?"},
		{"OtherLettersAndCase", strings.ToUpper(opening) + " Sounds good", "Sounds good"},
		{"WithWordsBefore", "What is this: " + opening, "What is this:"},
		{"CutByThePhone", "“Hi Ana, it's the welcome team. A few short texts will help you start. Ready?…” yes", "yes"},
		{"AWordWasLost", strings.Replace(opening, "short ", "", 1), ""},
		{"ThePersonsOwnStopBehindIt", opening + " stop", "stop"},
		{"AFewOfItsWords", "A few short texts will do. Reply STOP to opt out", "A few short texts will do. Reply STOP to opt out"},
		{"OtherWords", "stop texting me", "stop texting me"},
		{"Nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, reading.WithoutQuoted(tt.text, []string{"Short one", opening}))
		})
	}
	t.Run("AShortMessageOfOursIsNoQuote", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "stop texting me now", reading.WithoutQuoted("stop texting me now", []string{"Stop texting me now"}))
	})
}

// TestWithoutQuotedKeepsWhatIsNotOurs pastes our messages into texts: the words around them stay, in their order, and nothing else does.
func TestWithoutQuotedKeepsWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	ours := rapid.Map(rapid.SliceOfN(rapid.StringMatching(`[a-f]{1,3}`), 6, 30), func(words []string) string { return strings.Join(words, " ") })
	theirs := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"stop", "texting", "me", "please", "who", "is", "this"}), 0, 6),
		func(words []string) string { return strings.Join(words, " ") })
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(ours, 1, 3).Draw(t, "sent")
		before, after := theirs.Draw(t, "before"), theirs.Draw(t, "after")
		pasted := rapid.SampledFrom(sent).Draw(t, "pasted")
		left := reading.WithoutQuoted(before+" \""+pasted+"\" "+after, sent)
		require.Equal(t, strings.Fields(before+" "+after), strings.Fields(left))
		text := strings.TrimSpace(before + " " + after)
		require.Equal(t, text, reading.WithoutQuoted(text, sent), "nothing of ours is in it")
	})
}

func FuzzWithoutQuoted(f *testing.F) {
	f.Add("> a b c d e f\ng", "a b c d e f")
	f.Add("\xff a\u0301 b c d e f", "a b c d e f \xff")
	f.Fuzz(func(t *testing.T, text, sent string) {
		left := reading.WithoutQuoted(text, []string{sent})
		require.LessOrEqual(t, len(left), len(text)+len(sent))
		require.Equal(t, left, reading.WithoutQuoted(text, []string{sent}), "the same again")
	})
}
