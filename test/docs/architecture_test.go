package docs_test

import (
	"path"
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

// TestArchitecture compares the diagram of docs/architecture.md with the transitions of the session.
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

var (
	folderOfService = regexp.MustCompile(`^(services/\w+)/\n`)
	pureFolder      = regexp.MustCompile(`^  ([\w/]+)/ +pure: `)
	strictFolder    = regexp.MustCompile(`(?m)^ +- "\*\*/(services(?:/\w+)+)/\*\*"$`)
	exceptFolders   = regexp.MustCompile(`path-except: &pureFolders (.+)\n`)
)

// TestPurePackages checks that lint covers the packages that docs/architecture.md calls pure.
func TestPurePackages(t *testing.T) {
	t.Parallel()
	var service string
	var pure []string
	for line := range strings.Lines(read(t, "docs/architecture.md")) {
		if folder := folderOfService.FindStringSubmatch(line); folder != nil {
			service = folder[1]
		}
		if folder := pureFolder.FindStringSubmatch(line); folder != nil {
			pure = append(pure, path.Join(service, folder[1]))
		}
	}
	lint := read(t, ".golangci.yaml")
	_, rule, _ := strings.Cut(lint, "\n        pure:\n")
	rule, _, found := strings.Cut(rule, "\n          allow:\n")
	require.True(t, found, "depguard has no rule `pure`")
	var strict []string
	for _, folder := range strictFolder.FindAllStringSubmatch(rule, -1) {
		strict = append(strict, folder[1])
	}
	require.ElementsMatch(t, pure, strict)
	folders := exceptFolders.FindStringSubmatch(lint)
	require.NotNil(t, folders, "forbidigo knows no pure folders")
	for _, folder := range pure {
		require.Regexp(t, folders[1], folder+"/", "forbidigo does not take it for pure")
	}
}
