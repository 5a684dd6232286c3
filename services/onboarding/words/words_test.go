package words

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/reading/languages"
)

// TestLanguages holds that each language has every key: what one can say can be said in all of them.
func TestLanguages(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(files, "*.tsv")
	require.NoError(t, err)
	require.Len(t, names, len(languages.Written()), "one file for each language that has a name in package languages")
	line := regexp.MustCompile(`^(?:# .*|[a-z0-9-]+\t\S.*\S|[a-z0-9-]+\t\S)$`)
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		require.NoError(t, err)
		for text := range strings.Lines(string(content)) {
			require.Regexp(t, line, strings.TrimSuffix(text, "\n"), name)
		}
	}
	keys := Together().Keys("")
	for _, l := range All() {
		for _, key := range keys {
			if key != "expense-in-leisure" { // English has the words
				require.NotEmpty(t, l.Lines(key), "%s misses %s", l.Locale, key)
			}
		}
	}
}
