package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelpGroupsTheCommands(t *testing.T) {
	t.Parallel()
	out, err := command(t, "--help").Output()
	require.NoError(t, err)
	help := string(out)
	at := -1
	for _, want := range []string{"\nTry:\n", "  demo ", "\nRun:\n", "  doctor ", "\nOperate:\n", "  why ", "\nDevelop:\n", "  token ", "  version\n"} {
		i := strings.Index(help, want)
		require.Greater(t, i, at, "%q in %s", want, help)
		at = i
	}
	require.NotContains(t, help, "chaos")
}
