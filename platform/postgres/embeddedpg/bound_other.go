//go:build !linux

package embeddedpg

import "os/exec"

// startBound starts cmd under a watchdog, for want of Linux's parent-death signal.
func startBound(cmd *exec.Cmd) (release func(), err error) {
	release, _, err = startWatched(cmd)
	return release, err
}
