package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

var (
	mermaidState = regexp.MustCompile(`^state "([^"]+)" as (\w+)$`)
	mermaidEdge  = regexp.MustCompile(`^(\[\*\]|\w+) --> (\[\*\]|\w+): (\w+)`)
)

// TestArchitecture holds the diagram of docs/architecture.md to the transitions of the session.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	_, diagram, found := strings.Cut(read(t, "docs/architecture.md"), "```mermaid\nstateDiagram-v2\n")
	require.True(t, found, "there is no state diagram")
	diagram, _, _ = strings.Cut(diagram, "```")

	tokens := map[string]session.Token{"[*]": ""}
	var drawn []session.Edge
	for line := range strings.Lines(diagram) {
		line = strings.TrimSpace(line)
		if state := mermaidState.FindStringSubmatch(line); state != nil {
			tokens[state[2]] = session.Token(state[1])
		}
		edge := mermaidEdge.FindStringSubmatch(line)
		if edge == nil || edge[2] == "[*]" { // how a session ends is not a transition of its token
			continue
		}
		require.Contains(t, tokens, edge[1], line)
		require.Contains(t, tokens, edge[2], line)
		drawn = append(drawn, session.Edge{From: tokens[edge[1]], To: tokens[edge[2]], Trigger: session.Trigger(edge[3])})
	}
	require.ElementsMatch(t, session.Transitions(), drawn)
}
