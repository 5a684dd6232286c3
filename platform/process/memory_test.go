package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCollectPercent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		live uint64
		want int
	}{
		{name: "BeforeTheFirstCollection", want: 400},
		{name: "ASmallHeapGrowsToFiveTimesWhatIsAlive", live: 5 << 20, want: 400},
		{name: "UpToFortyMegabytes", live: 10 << 20, want: 300},
		{name: "ALargeOneDoubles", live: 100 << 20, want: 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, collectPercent(tt.live))
		})
	}
}
