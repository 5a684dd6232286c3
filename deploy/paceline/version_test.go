package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	checkout := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.modified", Value: "true"}}}
	checkout.Main.Version = "v0.2.0"
	require.Contains(t, version(checkout, ""), "paceline v0.2.0, commit c0ffee with changes, go")
	require.Contains(t, version(&debug.BuildInfo{}, "c0ffee"), "paceline (devel), commit c0ffee, go", "an image is built without a repository")
	require.Contains(t, version(nil, ""), "commit unknown")
}

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
