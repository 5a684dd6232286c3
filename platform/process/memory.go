package process

import (
	"os"
	"runtime/debug"
)

// collectAt is how far the heap of a service grows, in percent of what is alive, before it is collected. A service keeps little and
// allocates a lot: at Go's default of 100 it spends a tenth of its processor time on looking through some twenty megabytes.
const collectAt = 400

// CollectLess lets a process that serves collect its garbage less often, unless GOGC says how often.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}
