package people_test

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"paceline.internal/platform/roster"
)

// TestNamesAreComposed checks, for every letter that can be written in two ways, that a name has one of them.
func TestNamesAreComposed(t *testing.T) {
	t.Parallel()
	seen := 0
	for r := rune(0x80); r <= 0xffff; r++ {
		apart := norm.NFD.String(string(r))
		if !unicode.IsLetter(r) || apart == string(r) {
			continue
		}
		seen++
		var names [2]string
		for i, letter := range []string{string(r), apart} {
			p, err := roster.Normalise(roster.Person{Phone: "+14155550123", FirstName: "A" + letter})
			require.NoError(t, err, "U+%04X", r)
			names[i] = p.FirstName
		}
		require.Equal(t, names[0], names[1], "U+%04X", r)
		require.Equal(t, norm.NFC.String(names[0]), names[0])
	}
	require.Greater(t, seen, 10_000)
}
