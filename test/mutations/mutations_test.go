package mutations

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutations removes each guard. The files stay as they are: the compiler reads the changed copy instead (go test -overlay).
func TestMutations(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, m := range mutations() {
		t.Run(m.guard, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(root, m.file)
			source, err := os.ReadFile(file)
			require.NoError(t, err, "say in test/mutations/table_test.go where the guard is now")
			require.Equal(t, 1, bytes.Count(source, []byte(m.old)), "say in test/mutations/table_test.go how the guard reads now")
			requireTest(t, filepath.Join(root, m.in), m.run)
			if testing.Short() {
				return
			}
			dir := t.TempDir()
			copied, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(copied, bytes.Replace(source, []byte(m.old), []byte(m.without), 1), 0o600))
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: copied}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(overlay, replace, 0o600))
			pattern := "^" + strings.ReplaceAll(m.run, "/", "$/^") + "$"
			command := exec.CommandContext(t.Context(), "go", "test", "-short", "-vet=off", "-overlay", overlay, "-timeout", "3m", m.in, "-run", pattern)
			command.Dir = root
			out, err := command.CombinedOutput()
			_, failed := errors.AsType[*exec.ExitError](err)
			require.True(t, failed, "nothing noticed: %v\n%s", err, out)
			require.Contains(t, string(out), "--- FAIL: "+m.run, "it did not come to the test")
		})
	}
}

// requireTest checks that a package has the test that has to notice, so that a test that moves takes its row along.
func requireTest(t *testing.T, dir, run string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(content)
	}
	name, sub, _ := strings.Cut(run, "/")
	require.Contains(t, all.String(), "func "+name+"(", "say in test/mutations/table_test.go where the test is now")
	require.Contains(t, all.String(), sub, "say in test/mutations/table_test.go where the test is now")
}
