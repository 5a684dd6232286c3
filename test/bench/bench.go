// Package bench measures the product on this machine: steps, replies, receipts, webhooks, pacing and memory. Services run as
// separate processes on a durable Postgres. A run that loses or doubles anything fails and has no figures.
package bench

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// load is how many processes wanted to run during the last minute; -1 where the kernel does not report it. Figures from a
// machine with other load are worth little, and this shows that load.
func load() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(content), " ")
	value, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return value
}

// together runs do n times at once and waits for all.
func together(n int, do func(i int) error) error {
	var group errgroup.Group
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// quantile is the smallest value that so large a share of all does not exceed.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
