package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantiles(t *testing.T) {
	t.Parallel()
	values := []float64{4, 1, 3, 2}
	require.InDelta(t, 3, quantile(values, 0.5), 1e-9)
	require.InDelta(t, 4, quantile(values, 0.99), 1e-9)
	require.InDelta(t, 2.5, median(values), 1e-9)
}
