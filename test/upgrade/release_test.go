package upgrade_test

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
)

// released is the revision of the release before, a tag or a commit. The commit after a release's tag writes that tag here.
//
//go:embed RELEASE
var released string

// release is one state of this repository, built.
type release struct {
	name                  string
	dir                   string // its source
	paceline              string // its command
	onboarding, messaging postgres.Migrations
}

// releases builds the release before and this one in a folder. Where the history is missing the test is skipped: there is nothing
// to upgrade from.
func releases(t *testing.T, dir string) (before, after release) {
	t.Helper()
	root := filepath.Join("..", "..")
	git := func(args ...string) *exec.Cmd {
		// The checkout may belong to another user. Nothing of it is executed that the test would not execute anyway.
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "safe.directory=*"}, args...)...)
		cmd.Dir = root
		return cmd
	}
	revision := strings.TrimSpace(released)
	if git("cat-file", "-e", revision+"^{commit}").Run() != nil {
		t.Skipf("%s is not in this checkout; `git fetch --unshallow --tags` brings it", revision)
	}
	source, archive := filepath.Join(dir, "before"), filepath.Join(dir, "before.tar")
	require.NoError(t, os.Mkdir(source, 0o750))
	require.NoError(t, git("archive", "--format=tar", "--output", archive, revision).Run())
	require.NoError(t, exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", source).Run())
	return build(t, "old", source, filepath.Join(dir, "paceline-before")), build(t, "new", root, filepath.Join(dir, "paceline"))
}

// build makes the command of the release in dir.
func build(t *testing.T, name, dir, to string) release {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", to, "./deploy/paceline")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "build the %s release: %s", name, out)
	schema := func(service string) postgres.Migrations {
		room := filepath.Join(dir, "services", service, "schema")
		if _, err := os.Stat(room); err != nil { // 0.1.0 had them elsewhere
			room = filepath.Join(dir, "services", service, "postgres")
		}
		return postgres.Migrations{FS: os.DirFS(filepath.Join(room, "migrations"))}
	}
	return release{name: name, dir: dir, paceline: to, onboarding: schema("onboarding"), messaging: schema("messaging")}
}
