package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPage(t *testing.T) {
	t.Parallel()
	results := []result{
		{Tool: "a", Version: "1.0.0", Call: "list", Outcome: passed},
		{Tool: "b", Version: "2.0.0", Call: "enqueue", Outcome: refused, Note: "does not play queues"},
		{Tool: "b", Version: "2.0.0", Call: "publish", Outcome: refused, Note: "does not play topics"},
		{Tool: "b", Version: "2.0.0", Call: "list", Outcome: refused, Note: "does not play queues"},
		{Tool: "a", Version: "1.0.0", Call: "get", Outcome: failed, Note: "404"},
		{Tool: "a", Version: "1.0.0", Call: "put", Outcome: "skipped"},
	}
	page := string(render(results))
	require.Contains(t, page, "| a | 1.0.0 | 3 | 1 | 0 | 2 |\n| b | 2.0.0 | 3 | 0 | 3 | 0 |\n", "an outcome that is not known has failed")
	require.Contains(t, page, "- b: queues, topics.\n")
	require.Contains(t, page, "- a, get, failed: 404\n- a, put, skipped: \n")
	require.EqualError(t, faults(results), "2 calls failed")
	require.NoError(t, faults(results[:3]))
}

// What is committed shows no call that failed, and every tool in the version that is pinned.
func TestCommittedPage(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../" + page)
	require.NoError(t, err)
	pins, err := os.ReadFile("package.json")
	require.NoError(t, err)
	tools := 0
	for line := range strings.Lines(string(committed)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 6 || cells[0] == "tool" {
			continue
		}
		tools++
		require.Equal(t, "0", cells[5], line)
		if strings.Contains(string(pins), `"`+cells[0]+`"`) {
			require.Contains(t, string(pins), `"`+cells[0]+`": "`+cells[1]+`"`, line)
		}
	}
	require.GreaterOrEqual(t, tools, 2)
}
