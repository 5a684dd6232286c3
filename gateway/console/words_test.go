package console

import (
	"io/fs"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryKeyHasWordsInBothLanguages(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range glossaries() {
		for key, p := range g {
			require.False(t, seen[key], "%s is there twice", key)
			seen[key] = true
			require.NotEmpty(t, p.en, key)
			require.NotEmpty(t, p.pt, key)
		}
	}
	used := regexp.MustCompile(`(?:\.T|said\(|key:|Why:|Title:) *\(?"([a-z_]+(?:\.[a-z_]+)+)"`)
	for _, pattern := range []string{"pages/*.html", "*.go"} {
		names, err := fs.Glob(os.DirFS("."), pattern)
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, found := range used.FindAllStringSubmatch(string(text), -1) {
				require.True(t, seen[found[1]], "%s uses %s, which has no words", name, found[1])
			}
		}
	}
}
