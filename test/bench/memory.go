package bench

import (
	"os"
	"strconv"
	"strings"
)

// memoryOf is a mark of a process's memory, such as VmRSS, what is resident, or VmHWM, the most that was. By Linux's /proc; zero elsewhere.
func memoryOf(process, mark string) (mb float64) {
	status, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, mark+":"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64) // the kernel writes a number
			return kb / 1024
		}
	}
	return 0
}
