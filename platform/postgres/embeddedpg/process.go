package embeddedpg

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a running child that dies with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; to be read after done
}

// spawn starts cmd and waits for it on a goroutine that owns its OS thread until the child has ended. On Linux the parent
// of a child is a thread: were the thread to end, as idle ones of the runtime may, the kernel would tell the child that
// its parent died.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		release, err := startBound(cmd)
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		release()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// signal tells the child; one that has ended does not care.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// quitTimeout bounds the stop without a checkpoint; the server itself kills its children after five seconds.
const quitTimeout = 10 * time.Second

// quit ends the child at once, but lets it clean up behind itself, and waits for that.
func (p *process) quit() {
	p.signal(syscall.SIGQUIT)
	timer := time.NewTimer(quitTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // the whole group; it may end in this instant
		<-p.done
	}
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
