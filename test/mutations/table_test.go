package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutations keeps the table in step with the code; that each of them is noticed is shown by running the command.
func TestMutations(t *testing.T) {
	t.Parallel()
	root, err := workspace(t.Context())
	require.NoError(t, err)
	for _, m := range mutations() {
		t.Run(m.guard, func(t *testing.T) {
			t.Parallel()
			source, err := m.apply(root)
			require.NoError(t, err)
			require.NotEmpty(t, source)
			require.NotEqual(t, m.old, m.without)
			require.NotEmpty(t, m.tests)
		})
	}
}
