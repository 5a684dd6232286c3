package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// collectAt is the growth of a service's heap, in percent of what is alive, after which it is collected. A service keeps little and
	// allocates a lot: at Go's default of 100 it spends a tenth of its processor time on looking through some twenty megabytes.
	collectAt = 400
	// heapWanted is the size at which it is collected at the latest, unless more than half of it is alive: so much may three services have
	// that are to stay at 300 MB, of which the programs are 90. A memory limit would hold them there as well, but one of which more than
	// that is alive would do little else than collect.
	heapWanted = 40 << 20
)

// CollectLess lets a process that serves collect its garbage less often, unless GOGC says how often. GOMEMLIMIT works as ever.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		new(collector).collected(0)
	}
}

// collector sets after each collection when the next one is.
type collector struct{ percent int }

// collected comes after a collection: the runtime calls it once what it made the last time is garbage.
func (c *collector) collected(int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := collectPercent(live[0].Value.Uint64()); percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(new([64]byte), c.collected, 0)
}

// collectPercent returns the growth that a heap may have when so much of it is alive. It has steps, because a change stops everything for
// an instant.
func collectPercent(live uint64) int {
	if live == 0 {
		return collectAt
	}
	return min(max(int(heapWanted*10/live)*10-100, 100), collectAt) //nolint:gosec // at most 40 MB times ten
}
