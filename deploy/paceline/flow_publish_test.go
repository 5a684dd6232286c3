package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFlowPush publishes to a real stack, as an author does.
func TestFlowPush(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	data := dataFolder(t)
	up := startUp(t, data)
	flow := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"flow"}, append(args, "--data", data)...), terminal{out: &out})
		return out.String(), err
	}
	works := func(args ...string) string {
		said, err := flow(args...)
		require.NoError(t, err)
		return said
	}
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(examples+"opt_in")))
	change := func(file, old, with string) {
		path := filepath.Join(folder, file)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), old)
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte(old), []byte(with)), 0o600))
	}

	said := works("push", folder)
	require.Regexp(t, `^opt_in: version [0-9a-f]{16} is published and current\n$`, said)
	first := said[len("opt_in: version "):][:16]
	require.Equal(t, "opt_in: version "+first+" is already current; nothing changed\n", works("push", folder))

	change("flow.yaml", "flow: opt_in", "flow: other")
	_, err := flow("push", folder)
	require.ErrorContains(t, err, "flow.yaml: entry: flow other cannot have the keyword ")
	require.ErrorContains(t, err, "it is one of flow opt_in")
	change("flow.yaml", "flow: other", "flow: opt_in")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "xx.yaml"), []byte("texts: {}\n"), 0o600))
	_, err = flow("push", folder)
	require.EqualError(t, err, "xx.yaml: no language of the flow has this file")
	require.NoError(t, os.Remove(filepath.Join(folder, "xx.yaml")))

	require.NoError(t, os.WriteFile(filepath.Join(folder, "en.yaml"), []byte("texts: {}\n"), 0o600))
	_, err = flow("push", folder)
	require.ErrorContains(t, err, "en.yaml:1: text ")
	require.ErrorContains(t, err, "\nen.yaml:1: text ", "every problem has its line")
	text, err := os.ReadFile(examples + "opt_in/en.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "en.yaml"), append(text, "# changed\n"...), 0o600))
	require.Contains(t, works("push", folder), "is published and current")

	_, err = flow("rollback", "opt_in", "0000000000000000")
	require.ErrorContains(t, err, "there is no such flow, or it has no such version")
	require.Equal(t, "opt_in: version "+first+" is current again\n", works("rollback", "opt_in", first))
	require.Regexp(t, `^interview +[0-9a-f]{16} +\S+Z +up +current\nopt_in +`+first+` +\S+Z +operator +current\n$`, works("list"))
	require.Regexp(t, `^opt_in  `+first+`  \S+Z  operator  current\nopt_in  [0-9a-f]{16}  \S+Z  operator  *\n$`, works("list", "opt_in"))

	_, err = flow("list", "zz")
	require.EqualError(t, err, `no flow "zz" is published; paceline flow list names those that are`)

	second := regexp.MustCompile(`opt_in  ([0-9a-f]{16})  \S+Z  operator  *\n$`).FindStringSubmatch(works("list", "opt_in"))[1]
	require.Equal(t, "would be moved: 0\n", works("move", "opt_in", "--from", second, "--to", first, "--step", "confirm=confirm", "--dry-run"))
	require.Equal(t, "moved: 0\n", works("move", "opt_in", "--from", second, "--to", first, "--step", "confirm=confirm"))
	_, err = flow("move", "opt_in", "--from", second, "--to", first, "--step", "nowhere=confirm")
	require.ErrorContains(t, err, `"nowhere" is no step of from_version that waits for a reply`)
	up.stop(t, syscall.SIGTERM)
}
