package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/docs"
)

var update = flag.Bool("update", false, "fill the test column of docs/acceptance.md from the tests that exist")

// TestAcceptance holds docs/acceptance.md to the tests. When it fails because a test came, went or was renamed:
//
//	go test ./test/docs -run TestAcceptance -update
func TestAcceptance(t *testing.T) {
	t.Parallel()
	root, err := docs.Root()
	require.NoError(t, err)
	tests, err := docs.Index(root)
	require.NoError(t, err)
	path := filepath.Join(root, "docs", "acceptance.md")
	source, err := os.ReadFile(path)
	require.NoError(t, err)

	var rows []docs.Row
	var stale []string
	lines := strings.Split(string(source), "\n")
	for i, line := range lines {
		if row, ok := docs.ParseRow(line); ok {
			row = docs.Update(row, tests)
			rows, lines[i] = append(rows, row), row.String()
			if lines[i] != line {
				stale = append(stale, row.ID)
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644))
		stale = nil
	}

	t.Run("NamesEveryTestThatCarriesAnID", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, stale, "run: go test ./test/docs -run TestAcceptance -update")
	})
	t.Run("HasEveryIDOnceAndInOrder", func(t *testing.T) {
		t.Parallel()
		var ids []string
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		require.Equal(t, criteria(), ids)
	})
	t.Run("MeansWhatItsStateSays", func(t *testing.T) {
		t.Parallel()
		state := regexp.MustCompile(`^(met|open|issue \d+|later)$`)
		for _, row := range rows {
			require.Regexp(t, state, row.State, row.ID)
			require.Equal(t, row.State == docs.StateMet, len(row.Tests) > 0 && (row.State == docs.StateMet || row.State == docs.StateOpen), row.ID)
		}
	})
	t.Run("CountsNoTestThatCanSkip", func(t *testing.T) {
		t.Parallel()
		for _, row := range rows {
			for _, test := range docs.TestsFor(row.ID, tests) {
				require.False(t, test.Skips, "%s: %s %s can be skipped and proves nothing then", row.ID, test.Dir, test.Name)
			}
		}
	})
	t.Run("KnowsEveryIDThatATestCarries", func(t *testing.T) {
		t.Parallel()
		known := criteria()
		mark := regexp.MustCompile(`\bS[0-4]_\d\d|_S[0-4]_\d\d|\bR_\d\d|_R_\d\d|\bItem\d\d`)
		for _, test := range tests {
			for _, match := range mark.FindAllString(docs.SpelledOut(test.Name), -1) {
				match = strings.TrimPrefix(match, "_")
				require.Contains(t, known, strings.ReplaceAll(match, "_", "-"), "%s %s", test.Dir, test.Name)
			}
		}
	})
}

// criteria are the ids that docs/acceptance.md must hold: the acceptance criteria, the promises that were found broken, then the items of
// the conformance list that the emulators serve.
func criteria() []string {
	var ids []string
	for section, last := range []int{70, 39, 39, 40, 87} {
		for number := range last {
			ids = append(ids, fmt.Sprintf("S%d-%02d", section, number+1))
		}
	}
	for number := range 21 {
		ids = append(ids, fmt.Sprintf("R-%02d", number+1))
	}
	for _, span := range [][2]int{{1, 8}, {10, 23}, {27, 28}, {37, 37}, {39, 39}, {42, 46}, {48, 51}, {53, 56}, {60, 60}} {
		for number := span[0]; number <= span[1]; number++ {
			ids = append(ids, fmt.Sprintf("Item%02d", number))
		}
	}
	return ids
}
