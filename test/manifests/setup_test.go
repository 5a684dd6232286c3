package manifests

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// tree is a folder of the repository by path, without what git ignores.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(filepath.Join(root(t), folder)), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "secrets":
			return fs.SkipDir
		case entry.IsDir() || entry.Name() == "secrets.env" || entry.Name() == "real.env":
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root(t), folder, path))
		files[path] = string(content)
		return err
	}))
	return files
}

// replace changes a file of a tree in one place.
func replace(t *testing.T, files map[string]string, file, old, replacement string) {
	t.Helper()
	require.Contains(t, files[file], old, "it no longer fits %s", file)
	files[file] = strings.Replace(files[file], old, replacement, 1)
}

// run is one of our scripts with its own environment; its output.
func run(t *testing.T, environ []string, script string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{script}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
