// Package history brings back what this repository was at another revision, and builds its command, for proofs that compare two
// releases.
package history

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrMissing is a checkout without the revision that is asked for, such as a shallow clone.
var ErrMissing = errors.New("the revision is not in this checkout; `git fetch --unshallow --tags` brings it")

// Unpack puts the files of a revision of the repository that the folder repository lies in into dir.
func Unpack(ctx context.Context, repository, revision, dir string) error {
	git := func(args ...string) ([]byte, error) {
		// Whose files they are is no question here: nothing of them is executed that is not executed anyway.
		cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...) //nolint:gosec // the arguments are our own
		cmd.Dir = repository
		return cmd.Output()
	}
	if _, err := git("cat-file", "-e", revision+"^{commit}"); err != nil {
		return fmt.Errorf("%w (%s)", ErrMissing, revision)
	}
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	repository = string(bytes.TrimSpace(root)) // else git archives the folder alone
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

// Build makes the command of the release whose source is in dir.
func Build(ctx context.Context, dir, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, "./deploy/paceline")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w: %s", dir, err, out)
	}
	return nil
}
