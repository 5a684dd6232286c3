package embeddedpg

import (
	"os/exec"
	"syscall"
)

// startBound starts cmd so that the kernel ends it when the calling thread does: SIGQUIT is the server's immediate stop.
func startBound(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	return func() {}, cmd.Start()
}
