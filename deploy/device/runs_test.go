package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	runA = "01900000-0000-7000-8000-0000000000a1"
	runB = "01900000-0000-7000-8000-0000000000a2"
)

func TestBook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	b, err := OpenBook(path)
	require.NoError(t, err)
	fresh, err := b.begin(runA)
	require.NoError(t, err)
	require.True(t, fresh)
	fresh, err = b.begin(runA)
	require.NoError(t, err)
	require.False(t, fresh)

	_, err = OpenBook(path)
	require.ErrorContains(t, err, "another process uses")
	require.NoError(t, b.Close())

	b, err = OpenBook(path)
	require.NoError(t, err)
	known := b.find(runA)
	require.Equal(t, runEnded, known.State)
	require.False(t, known.OK)
	require.Equal(t, "the device restarted", known.Detail)
	require.Equal(t, runNeverSaw, b.find(runB).State)
	require.NoError(t, b.Close())

	require.NoError(t, os.WriteFile(path, []byte(`{"`), 0o600))
	_, err = OpenBook(path)
	require.Error(t, err, "an empty one in its place would begin runs twice")

	b = &Book{path: filepath.Join(t.TempDir(), "gone", "state.json"), runs: map[string]notedRun{}}
	_, err = b.begin(runA)
	require.Error(t, err)
	require.Equal(t, runNeverSaw, b.find(runA).State, "what is not on disk is not begun")
}
