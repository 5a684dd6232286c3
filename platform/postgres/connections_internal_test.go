package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultConns(t *testing.T) {
	t.Parallel()
	for processors, want := range map[int]int32{1: 6, 2: 8, 4: 12, 6: 16, 64: 16} {
		require.Equal(t, want, defaultConns(processors), "%d processors", processors)
	}
}
