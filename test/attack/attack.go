// Package attack attacks a deployment on this machine as a stranger without any key could, and measures what that does to others.
package attack

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// onlyHere refuses to attack anything but this machine. It returns the address itself, so that no name is looked up again.
func onlyHere(hostPort string) error {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return fmt.Errorf("--target: %w", err)
	}
	address, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !address.IsLoopback()) {
		return fmt.Errorf("--target: %s is not this machine; only 127.0.0.1, ::1 and localhost are attacked", host)
	}
	return nil
}

// tally counts how the attacking connections ended.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what]++
}
