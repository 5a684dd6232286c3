package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnseen holds how the texts are read that the readers were not made from: per thousand, what may be read wrongly. The numbers may only
// fall.
func TestUnseen(t *testing.T) {
	t.Parallel()
	found, err := measure(filepath.Join(corpus, "unseen"))
	require.NoError(t, err)
	for _, tt := range []struct {
		name, prefix, wrong string
		most                int
	}{
		{"RevocationsAreHeard", "revocations", "passed", 22},
		{"OrdinaryTextsHoldNobody", "ordinary", "held", 25},
		{"OrdinaryTextsOptNobodyOut", "ordinary", "opted out", 0},
		{"RefusalsAreANo", "answers: no", "goes on", 215},
		{"AnswersGoOn", "answers: yes", "a no", 20},
		{"ReactionsAreNoWords", "notwords: reaction", "has words of theirs", 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			total, wrong := 0, 0
			for label, as := range found {
				if strings.HasPrefix(label, tt.prefix) {
					for reading, n := range as {
						total += n
						if reading == tt.wrong {
							wrong += n
						}
					}
				}
			}
			require.Positive(t, total)
			require.LessOrEqual(t, 1000*wrong, tt.most*total, "%d of %d", wrong, total)
		})
	}
}
