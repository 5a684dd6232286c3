package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// criterion is one line of docs/acceptance.md: an id such as S0-01, or several such as S0-02..04.
var criterion = regexp.MustCompile(`^(S\d-|R-|Item)(\d\d)(?:\.\.(\d\d))? +\S`)

// TestPage checks what can be checked of the criteria and of the map without a run of all tests, which CI does.
func TestPage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	for file, of := range map[string]func(line string) []string{page: idsOfPage, held: idsOfMap} {
		t.Run("HasEveryIDOnceAndInOrder/"+filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			var ids []string
			for line := range strings.Lines(string(source)) {
				ids = append(ids, of(strings.TrimSuffix(line, "\n"))...)
			}
			require.Equal(t, criteria(), ids)
		})
	}
	t.Run("KnowsEveryIDThatATestCarries", func(t *testing.T) {
		t.Parallel()
		known := criteria()
		mark := regexp.MustCompile(`\b(?:Test)?(?:\w*_)?(?:(?:S[0-4]|R)(?:_\d\d)+|Item\d\d)`)
		err := eachTestFile(os.DirFS(root), func(name, source string) error {
			for _, element := range mark.FindAllString(source, -1) {
				if strings.HasPrefix(name, "test/docs/acceptance/") {
					continue // uses ids in its own examples
				}
				for _, id := range carries(element) {
					require.True(t, slices.Contains(known, id), "%s: %s carries %s, which is no criterion", name, element, id)
				}
			}
			return nil
		})
		require.NoError(t, err)
		also, err := readAlso(os.DirFS(root))
		require.NoError(t, err)
		for at, ids := range also {
			require.NotEmpty(t, ids, "%s: an Also without an id", at)
			for _, id := range ids {
				require.True(t, slices.Contains(known, id), "%s: Also: %s, which is no criterion", at, id)
			}
		}
	})
}

// idsOfPage returns the ids of a line of docs/acceptance.md.
func idsOfPage(line string) (ids []string) {
	cells := criterion.FindStringSubmatch(line)
	if cells == nil {
		return nil
	}
	first, _ := strconv.Atoi(cells[2]) // the pattern has two digits
	last := first
	if cells[3] != "" {
		last, _ = strconv.Atoi(cells[3])
	}
	for number := first; number <= last; number++ {
		ids = append(ids, fmt.Sprintf("%s%02d", cells[1], number))
	}
	return ids
}

// idsOfMap returns the id of a line of the map.
func idsOfMap(line string) []string {
	if cells := row.FindStringSubmatch(line); cells != nil {
		return cells[1:2]
	}
	return nil
}

// criteria returns the ids that docs/acceptance.md and the map must hold: the acceptance criteria, the promises that were found broken, then the
// items of the conformance list that the emulators serve.
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
