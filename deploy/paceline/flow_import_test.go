package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFlowImport writes a folder that paceline flow check takes, and never over another.
func TestFlowImport(t *testing.T) {
	t.Parallel()
	const definitions = "../../services/onboarding/flow/studio/testdata/"
	dir := filepath.Join(t.TempDir(), "bakery")
	var out bytes.Buffer
	args := []string{"flow", "import", definitions + "menu.json", "--to", dir, "--language", "pt-BR"}
	require.NoError(t, run(t.Context(), args, terminal{out: &out}))
	require.Contains(t, out.String(), "\n  Trigger (trigger): calls are not carried over; say_closed follows one\n")
	require.Contains(t, out.String(), "menu is in order: 7 steps, pt-BR, version ")
	require.FileExists(t, filepath.Join(dir, "pt-BR.yaml"))
	require.ErrorContains(t, run(t.Context(), args, terminal{out: &out}), "is there already; give another folder with --to")

	err := run(t.Context(), []string{"flow", "import", definitions + "template.json", "--to", t.TempDir()}, terminal{out: &out})
	require.ErrorContains(t, err, "the flow is not in order yet")
	require.ErrorContains(t, err, "en.yaml:1: text PING is missing")

	wrong := filepath.Join(t.TempDir(), "9 lives.json")
	require.NoError(t, os.WriteFile(wrong, []byte("{\n\"states\": 1}"), 0o600))
	require.ErrorContains(t, run(t.Context(), []string{"flow", "import", wrong}, terminal{out: &out}), "give --name")
	err = run(t.Context(), []string{"flow", "import", wrong, "--name", "lives"}, terminal{out: &out})
	require.ErrorContains(t, err, "9 lives.json: not a flow definition of Twilio Studio: line 2: states must be another kind of value than number")
}
