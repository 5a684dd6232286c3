package upgrade_test

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
)

// released is the revision of the release before, a tag or a commit. Whoever tags a release writes its tag here in the commit after.
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

// errNoHistory is a checkout without the commit of the release before, such as a shallow clone.
var errNoHistory = errors.New("the release before is not in this checkout; `git fetch --unshallow --tags` brings it")

// releases builds the release before and this one in a folder. Where the history is missing the test is skipped: there is nothing
// to upgrade from.
func releases(t *testing.T, dir string) (before, after release) {
	t.Helper()
	source := filepath.Join(dir, "before")
	err := unpack(t.Context(), strings.TrimSpace(released), source)
	if errors.Is(err, errNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	before, err = build(t.Context(), "old", source, filepath.Join(dir, "paceline-before"))
	require.NoError(t, err)
	after, err = build(t.Context(), "new", filepath.Join("..", ".."), filepath.Join(dir, "paceline"))
	require.NoError(t, err)
	return before, after
}

// unpack puts the files of a revision into dir.
func unpack(ctx context.Context, revision, dir string) error {
	git := func(args ...string) ([]byte, error) {
		// Whose files they are is no question here: nothing of them is executed that is not executed anyway.
		cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
		cmd.Dir = filepath.Join("..", "..")
		return cmd.Output()
	}
	if _, err := git("cat-file", "-e", revision+"^{commit}"); err != nil {
		return fmt.Errorf("%w (%s)", errNoHistory, revision)
	}
	files, err := git("archive", "--format=tar", revision)
	if err != nil {
		return fmt.Errorf("git archive %s: %w", revision, err)
	}
	archive := tar.NewReader(bytes.NewReader(files))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.Clean("/"+header.Name))
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o750)
		case tar.TypeReg:
			err = write(path, archive)
		}
		if err != nil {
			return err
		}
	}
}

func write(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// build makes the command of the release in dir.
func build(ctx context.Context, name, dir, to string) (release, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, "./deploy/paceline")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return release{}, fmt.Errorf("build the %s release: %w: %s", name, err, out)
	}
	schema := func(service string) postgres.Migrations {
		return postgres.Migrations{FS: os.DirFS(filepath.Join(dir, "services", service, "postgres", "migrations"))}
	}
	return release{name: name, dir: dir, paceline: to, onboarding: schema("onboarding"), messaging: schema("messaging")}, nil
}
