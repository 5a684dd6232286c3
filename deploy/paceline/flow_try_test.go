package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTryReadsAsTheProduct types answers where a text is asked for, with a step for a refusal.
func TestTryReadsAsTheProduct(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "repair")
	require.NoError(t, os.Mkdir(folder, 0o700))
	for name, content := range map[string]string{
		"flow.yaml": `flow: repair
languages: [en]
fields: {problem: text}
start: ask
steps:
  ask:
    ask: PROBLEM
    expect: {text: {limit: 300}}
    save: problem
    unclear: {send: PROBLEM, times: 1, then: done}
    negative: {send: REFUSED, then: done}
    then: thanks
  thanks: {send: THANKS, then: done}
  done: {end: completed}
`,
		"en.yaml": "texts: {PROBLEM: Please describe the problem., THANKS: Thank you., REFUSED: 'All right, nothing then.'}\nperson: [the landlord]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	for typed, want := range map[string]string{
		"in the garage":    `problem = "in the garage"`,
		"It's flooding!":   `problem = "It's flooding!"`,
		"only with notice": `problem = "only with notice"`,
		"no":               "All right, nothing then.",
		"The landlord promised to fix the boiler in May but nothing happened": "Thank you.",
		"the landlord please":          "(this asks for a person: a ticket opens",
		"I want to talk to a human":    "(this asks for a person: a ticket opens",
		"please stop texting me":       "(STOP, START and HELP are answered",
		"leave me alone":               "(this may be an opt-out: nothing more is sent",
		"Liked “Please describe the…”": "answers nothing)",
	} {
		t.Run(typed, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), []string{"flow", "try", folder}, terminal{in: strings.NewReader(typed + "\n"), out: &out}))
			require.Contains(t, out.String(), want)
		})
	}
}
