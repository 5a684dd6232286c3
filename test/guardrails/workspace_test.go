package guardrails

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// everything is the pattern of all packages of all modules in go.work, whatever they are called.
const everything = "work"

func root(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	return filepath.Dir(filepath.Dir(here))
}

// load reads packages as `go build` would, from files and from what overlay has instead of them or in addition.
func load(t *testing.T, mode packages.LoadMode, overlay map[string][]byte, patterns ...string) []*packages.Package {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Mode: mode, Dir: root(t), Overlay: overlay, Context: t.Context(),
		Env: append(os.Environ(), "GOWORK="+filepath.Join(root(t), "go.work")),
	}, patterns...)
	require.NoError(t, err)
	for _, p := range loaded {
		require.Empty(t, p.Errors, "%s was not examined", p.PkgPath)
	}
	return loaded
}

// examine runs all guardrails and returns what they found as file:line: message [guardrail], relative to the root.
func examine(t *testing.T, loaded []*packages.Package) []string {
	t.Helper()
	examined := map[string]bool{}
	for _, p := range loaded {
		examined[p.ID] = true
	}
	for _, p := range loaded { // facts travel along the imports; of the others' sources nothing was read
		maps.DeleteFunc(p.Imports, func(_ string, imported *packages.Package) bool { return !examined[imported.ID] })
	}
	graph, err := checker.Analyze(all(), loaded, nil)
	require.NoError(t, err)
	var found []string
	for _, action := range graph.Roots {
		require.NoError(t, action.Err, action.String())
		for _, d := range action.Diagnostics {
			at := action.Package.Fset.Position(d.Pos)
			file, err := filepath.Rel(root(t), at.Filename)
			require.NoError(t, err)
			found = append(found, fmt.Sprintf("%s:%d: %s [%s]", filepath.ToSlash(file), at.Line, d.Message, action.Analyzer.Name))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// dependOnTree makes go's test cache notice every change of the workspace: it goes by the files and folders that a test has
// opened, but only by those in the folder of the test's module, and the packages are read by another
// process as well. Without this, `go test work` would answer "ok (cached)" to a violation.
func dependOnTree(t *testing.T) {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	tree := os.DirFS(here + string(filepath.Separator) + filepath.Join("..", "..")) // joined by hand: a clean name would begin elsewhere
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name != "." && strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		return nil
	}))
}

func TestWorkspace(t *testing.T) {
	t.Parallel()
	dependOnTree(t)

	// Also: S0-59
	t.Run("S0_54_TheTestCommandExaminesEveryPackageAndFindsNothing", func(t *testing.T) {
		t.Parallel()
		loaded := slices.DeleteFunc(load(t, packages.LoadSyntax, nil, everything), func(p *packages.Package) bool {
			return p.PkgPath == "paceline.internal/services/onboarding/onboardingtest" // it is for tests, which may wait
		})
		var paths []string
		for _, p := range loaded {
			paths = append(paths, p.PkgPath)
		}
		require.Subset(t, paths, []string{
			"paceline.internal/gateway", "paceline.internal/services/onboarding/conversation", "paceline.internal/services/messaging",
			"paceline.internal/platform/queue", "paceline.internal/test/guardrails",
		})
		if found := examine(t, loaded); len(found) > 0 {
			t.Fatalf("a rule of the house is broken:\n\n%s\n", strings.Join(found, "\n"))
		}
	})

	t.Run("ServicesLinkNeitherTestsNorEmulators", func(t *testing.T) {
		t.Parallel()
		for _, service := range load(t, packages.NeedName|packages.NeedImports|packages.NeedDeps, nil,
			"paceline.internal/gateway/cmd/...", "paceline.internal/services/onboarding/cmd/...", "paceline.internal/services/messaging/cmd/...") {
			packages.Visit([]*packages.Package{service}, nil, func(p *packages.Package) {
				require.False(t, within(p.PkgPath, product+"/test", product+"/emulators", product+"/deploy"), "%s links %s", service.PkgPath, p.PkgPath)
			})
		}
	})

	t.Run("UsersCommandLinksNoTests", func(t *testing.T) {
		t.Parallel()
		command := load(t, packages.NeedName|packages.NeedImports|packages.NeedDeps, nil, product+"/deploy/paceline")
		packages.Visit(command, nil, func(p *packages.Package) {
			require.False(t, within(p.PkgPath, product+"/test", "github.com/stretchr/testify"), "it links %s", p.PkgPath)
		})
	})

	t.Run("S0_54_ANewPackageIsExamined", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(root(t), "services/onboarding/pacing/pacing.go")
		loaded := load(t, packages.NeedName, map[string][]byte{file: []byte("package pacing\n")}, everything)
		require.True(t, slices.ContainsFunc(loaded, func(p *packages.Package) bool {
			return p.PkgPath == "paceline.internal/services/onboarding/pacing"
		}))
	})
}
