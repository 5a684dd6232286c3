package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUpFlow saves the files of a flow while paceline up plays it.
func TestUpFlow(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	data, folder := dataFolder(t), t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(examples+"nps")))
	cmd := command(t, "up", "--free-ports", "--data", data, "--flow", folder)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	bound := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }) // what it does not say ends the wait
	t.Cleanup(func() { bound.Stop() })
	lines := bufio.NewScanner(out)
	up := &upProcess{cmd: cmd}
	until := func(begins string) string {
		for lines.Scan() {
			line := strings.TrimSpace(lines.Text())
			if token, ok := strings.CutPrefix(line, "TOKEN="); ok {
				up.token = token
			}
			if strings.HasPrefix(line, "curl ") {
				up.lines = append(up.lines, line)
			}
			if strings.HasPrefix(line, begins) {
				return line
			}
		}
		t.Fatal("paceline up ended")
		return ""
	}
	save := func(old, with string) {
		path := filepath.Join(folder, "flow.yaml")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), old)
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte(old), []byte(with)), 0o600))
	}

	require.Contains(t, until("flow  nps: version "), "is published and current")
	until("grpcurl ")
	save("\nstart: ", "\nstart: nowhere_")
	require.Equal(t, "flow  not published, the version before stays:", until("flow  "))
	require.Contains(t, until("flow.yaml:"), "there is no step nowhere_")

	profile := up.curl(t, 0, nil)["profile"].(map[string]any)["profile_id"].(string)
	opened := up.curl(t, 1, map[string]string{"PROFILE_ID": profile})["session"].(map[string]any)
	require.Equal(t, "nps", opened["flow"], "an activation uses it")
	save("\nstart: nowhere_", "\nstart: ")
	save("flow: nps", "flow: other")
	until("flow  not published")
	require.Contains(t, until("flow.yaml: "), "the flow was called nps and is other now")
	save("flow: other", "flow: nps\nsegments: 3")
	require.Contains(t, until("flow  nps: version "), "is published and current")
	up.stop(t, os.Interrupt)

	wrong := []string{"up", "--free-ports", "--data", data, "--flow", t.TempDir()}
	require.ErrorContains(t, run(t.Context(), wrong, terminal{out: io.Discard}), "flow.yaml: the file is missing")
	require.ErrorContains(t, run(t.Context(), append(wrong, "--environment-databases"), terminal{out: io.Discard}), "use paceline flow push")
}
