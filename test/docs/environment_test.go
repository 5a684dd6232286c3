package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/docs"
)

func TestEnvironmentContract(t *testing.T) {
	t.Parallel()
	root, err := docs.Root()
	require.NoError(t, err)
	path := filepath.Join(root, "docs", "environment-contract.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(docs.Environment()), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, docs.Environment(), string(written), "run: make environment")
}
