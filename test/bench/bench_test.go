package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessors(t *testing.T) {
	t.Parallel()
	eight := []string{"0", "1", "2", "3", "8", "9", "10", "11"}
	for _, tt := range []struct {
		name     string
		of       []string
		replicas []int
		want     []string // by replica
	}{
		{name: "TwoAreToBeShared", of: eight[:2], replicas: []int{1, 2}, want: []string{"", ""}},
		{name: "OneReplicaHasAll", of: eight, replicas: []int{1}, want: []string{""}},
		{name: "HalfOfAllAreDealtOut", of: eight, replicas: []int{1, 2}, want: []string{"0,1", "2,3"}},
		{name: "EachHasOneAtLeast", of: eight[:4], replicas: []int{1, 4}, want: []string{"0", "1", "2", "3"}},
		{name: "MoreThanThereAreShareThem", of: eight[:4], replicas: []int{6}, want: []string{"0", "1", "2", "3", "0", "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for n, want := range tt.want {
				require.Equal(t, want, Steps{Replicas: tt.replicas}.processors(tt.of, n))
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	values := []float64{4, 1, 3, 2}
	require.InDelta(t, 3, quantile(values, 0.5), 1e-9)
	require.InDelta(t, 4, quantile(values, 0.99), 1e-9)
	require.InDelta(t, 2.5, median(values), 1e-9)
}
