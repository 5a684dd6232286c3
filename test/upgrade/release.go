// Package upgrade has the release before this one. Its tests upgrade from it, and measurements compare with it.
package upgrade

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// released is the revision of the release before, a tag or a commit. The commit after a release's tag writes that tag here.
//
//go:embed RELEASE
var released string

// Before extracts the source of the release before into a new folder, from the checkout at root. Where the history is missing the test is
// skipped: there is nothing to compare with.
func Before(tb testing.TB, root, source string) {
	tb.Helper()
	git := func(args ...string) *exec.Cmd {
		// The checkout may belong to another user. Nothing of it is executed that the test would not execute anyway.
		cmd := exec.CommandContext(tb.Context(), "git", append([]string{"-c", "safe.directory=*"}, args...)...)
		cmd.Dir = root
		return cmd
	}
	revision := strings.TrimSpace(released)
	if git("cat-file", "-e", revision+"^{commit}").Run() != nil {
		tb.Skipf("%s is not in this checkout; `git fetch --unshallow --tags` brings it", revision)
	}
	archive := source + ".tar"
	require.NoError(tb, os.Mkdir(source, 0o750))
	require.NoError(tb, git("archive", "--format=tar", "--output", archive, revision).Run())
	require.NoError(tb, exec.CommandContext(tb.Context(), "tar", "-xf", archive, "-C", source).Run())
	require.NoError(tb, os.Remove(archive))
}

// Build makes the user's command of a source at the path to.
func Build(tb testing.TB, source, to string) {
	tb.Helper()
	to, err := filepath.Abs(to)
	require.NoError(tb, err)
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-buildvcs=false", "-o", to, "./deploy/paceline")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, "build %s: %s", source, out)
}
