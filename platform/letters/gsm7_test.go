package letters

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// lookalikes are all characters that GSM-7 has an equal of.
func lookalikes() (all []rune) {
	for r := range unicode.MaxRune {
		if _, found := Instead(r); found && utf8.ValidRune(r) {
			all = append(all, r)
		}
	}
	return all
}

func of(runes []rune) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOf(rapid.SampledFrom(runes)), func(picked []rune) string { return string(picked) })
}

func TestGSM7(t *testing.T) {
	t.Parallel()
	alphabet := []rune(gsmBasic + gsmExtension)
	require.Len(t, []rune(gsmBasic), 127, "128 less the escape")
	require.Len(t, []rune(gsmExtension), 10)
	for _, r := range alphabet {
		require.Positive(t, Septets(r), "%q", r)
		_, found := Instead(r)
		require.False(t, found, "%q needs nothing in its place", r)
	}
	equals := lookalikes()
	require.Greater(t, len(equals), 50)

	t.Run("ATextOfTheAlphabetStaysAsItIs", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			text := of(alphabet).Draw(t, "text")
			require.Equal(t, text, Plain(text))
			require.Empty(t, Dearer(text))
		})
	})
	t.Run("ATextWithLookalikesIsWrittenInIt", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			text := of(append(alphabet, equals...)).Draw(t, "text")
			plain := Plain(text)
			require.Empty(t, Dearer(plain))
			require.Equal(t, plain, Plain(plain))
			letter := func(r rune) rune {
				if unicode.IsLetter(r) && Septets(r) > 0 || unicode.IsDigit(r) {
					return r
				}
				return -1
			}
			require.Equal(t, strings.Map(letter, text), strings.Map(letter, plain))
		})
	})
	t.Run("ATextThatItCannotHoldStaysAsItIs", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			text := of(append(alphabet, equals...)).Draw(t, "before") + rapid.SampledFrom([]string{"ã", "ç", "👋", "ж"}).Draw(t, "other") +
				of(append(alphabet, equals...)).Draw(t, "after")
			require.Equal(t, text, Plain(text))
			require.NotEmpty(t, Dearer(text))
		})
	})
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string
		dearer           string
	}{
		{name: "Empty"},
		{name: "Quotes", text: "“It’s” ‘on’ `now´ «ok»", want: `"It's" 'on' 'now' "ok"`, dearer: "“’”‘`´«»"},
		{name: "Dashes", text: "9–5 — non‑stop −1", want: "9-5 - non-stop -1", dearer: "–—‑−"},
		{name: "Ellipsis", text: "wait…", want: "wait...", dearer: "…"},
		{name: "Spaces", text: "a\u00a0b\u202fc\u2003d\te", want: "a b c d e", dearer: "\u00a0\u202f\u2003\t"},
		{name: "Unseen", text: "\ufeffa\u200bb\u00adc\u2060d\u200d", want: "abcd", dearer: "\ufeff\u200b\u00ad\u2060\u200d"},
		{name: "Lines", text: "a\u2028b", want: "a\nb", dearer: "\u2028"},
		{name: "LettersOfGSM7", text: "àéùìòÇÉÑñäöü", want: "àéùìòÇÉÑñäöü"},
		{name: "ALetterOutsideLeavesAll", text: "não – “sim”", want: "não – “sim”", dearer: "ã–“”"},
		{name: "AnEmojiLeavesAll", text: "👨‍👩‍👧’s", want: "👨‍👩‍👧’s", dearer: "👨\u200d👩👧’"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Plain(tt.text))
			require.Equal(t, tt.dearer, string(Dearer(tt.text)))
		})
	}
}
