package consent_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

// heard reports whether a text opts its writer out, or holds them.
func heard(text string) bool {
	if consent.Classify(text, consent.OptedIn) == consent.OptOut {
		return true
	}
	wish, _ := consent.Revocation(text)
	return wish != consent.NoWish
}

// TestReadingCorpus counts how many texts are read wrongly: revocations that are not heard, and ordinary texts that are taken for one. The
// numbers may only fall.
func TestReadingCorpus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file  string
		want  bool
		wrong int // of the texts of the file
	}{
		{"revocations.en.txt", true, 396}, {"ordinary.en.txt", false, 41},
	} {
		content, err := os.ReadFile("testdata/reading/" + tt.file)
		require.NoError(t, err)
		texts, wrong := 0, 0
		for line := range strings.Lines(string(content)) {
			texts++
			if heard(strings.TrimSpace(line)) != tt.want {
				wrong++
			}
		}
		t.Logf("%s: %d of %d are read wrongly", tt.file, wrong, texts)
		require.LessOrEqual(t, wrong, tt.wrong, tt.file)
	}
}
