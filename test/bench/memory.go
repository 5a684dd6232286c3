package bench

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// memoryMB is the most memory that this process has had. The kernel's own mark (VmHWM) is of this program alone; the one of
// getrusage, where there is no other, is inherited from the process that started it.
func memoryMB() float64 {
	if mb := memoryOf("self", "VmHWM"); mb > 0 {
		return mb
	}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" { // in bytes there
		return float64(usage.Maxrss) / (1 << 20)
	}
	return float64(usage.Maxrss) / (1 << 10)
}

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
