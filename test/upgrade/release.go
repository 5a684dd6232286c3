// Package upgrade has the release before this one. Its tests upgrade from it, and measurements compare with it.
package upgrade

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
		cmd := exec.CommandContext(tb.Context(), "git", append([]string{"-c", "safe.directory=*"}, args...)...) //nolint:gosec // our own words
		cmd.Dir = root
		return cmd
	}
	revision := strings.TrimSpace(released)
	if git("cat-file", "-e", revision+"^{commit}").Run() != nil {
		tb.Skipf("%s is not in this checkout; `git fetch --unshallow --tags` brings it", revision)
	}
	archive := source + ".tar"
	check(tb, os.Mkdir(source, 0o750), nil)
	for _, cmd := range []*exec.Cmd{
		git("archive", "--format=tar", "--output", archive, revision), exec.CommandContext(tb.Context(), "tar", "-xf", archive, "-C", source),
	} {
		said, err := cmd.CombinedOutput()
		check(tb, err, said)
	}
	check(tb, os.Remove(archive), nil)
}

func check(tb testing.TB, err error, said []byte) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("build a release: %v: %s", err, said)
	}
}

// Build makes the user's command of a source at the path to.
func Build(tb testing.TB, source, to string) {
	tb.Helper()
	to, err := filepath.Abs(to)
	check(tb, err, nil)
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-buildvcs=false", "-o", to, "./deploy/paceline")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	said, err := cmd.CombinedOutput()
	check(tb, err, said)
}
