package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/flow"
)

const examples = "../../examples/flows/"

// TestFlow works with a flow as its author does.
func TestFlow(t *testing.T) {
	t.Parallel()
	runs := func(t *testing.T, typed string, args ...string) (string, error) {
		t.Helper()
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"flow"}, args...), terminal{in: strings.NewReader(typed), out: &out})
		return out.String(), err
	}
	t.Run("Check", func(t *testing.T) {
		t.Parallel()
		out, err := runs(t, "", "check", examples+"nps")
		require.NoError(t, err)
		require.Contains(t, out, "nps is in order: 10 steps, en, pt-BR, version ")
	})
	t.Run("Schema", func(t *testing.T) {
		t.Parallel()
		out, err := runs(t, "", "schema")
		require.NoError(t, err)
		require.JSONEq(t, string(flow.Schema()), out)
	})
	t.Run("CheckNamesEveryProblem", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		require.NoError(t, os.CopyFS(folder, os.DirFS(examples+"nps")))
		steps, err := os.ReadFile(filepath.Join(folder, "flow.yaml"))
		require.NoError(t, err)
		steps = bytes.ReplaceAll(steps, []byte("else: detractor"), []byte("else: nobody"))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "flow.yaml"), steps, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "pt-BR.yaml"), []byte("texts: {SCORE: Oi}\n"), 0o600))
		_, err = runs(t, "", "check", folder)
		require.ErrorContains(t, err, "flow.yaml:15: step promoter leads to nobody, which is no step")
		require.ErrorContains(t, err, "pt-BR.yaml:1: text THANKS is missing; step thanks of flow.yaml sends it")
	})
	t.Run("Draw", func(t *testing.T) {
		t.Parallel()
		out, err := runs(t, "", "draw", examples+"survey")
		require.NoError(t, err)
		require.Contains(t, out, "<svg ")
		require.Contains(t, out, `<title>what_happened</title>`)
	})
	t.Run("TryWithFields", func(t *testing.T) {
		t.Parallel()
		out, err := runs(t, "STOP\nquestion\nend\n", "try", examples+"payment", "--field", "amount=$20", "--field", "link=https://pay.example/7")
		require.NoError(t, err)
		require.Contains(t, out, "Hi Ana, $20 is due. Pay here: https://pay.example/7.")
		require.Contains(t, out, "(STOP, START and HELP are answered before any flow;")
		require.Contains(t, out, "(the end: closed)")
		_, err = runs(t, "", "try", examples+"payment", "--field", "amuont=$20")
		require.ErrorContains(t, err, "--field amuont=$20: the flow has no such field")
	})
	t.Run("Try", func(t *testing.T) {
		t.Parallel()
		out, err := runs(t, "\n3 or 4\n3\nnobody answered\n\n", "try", examples+"nps", "--name", "Bo")
		require.NoError(t, err)
		at := 0
		for _, want := range []string{
			"Hi Bo, how likely", "One number from 0 to 10 helps", "A number from 0 to 10 is enough", "nps = 3", "What went wrong?",
			"(handed over to a person: unhappy)", "Thank you for your time.", "(the end: completed)",
		} {
			i := strings.Index(out[at:], want)
			require.GreaterOrEqual(t, i, 0, "%q after %q", want, out[:at])
			at += i
		}
	})
}
