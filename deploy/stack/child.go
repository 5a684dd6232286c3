package stack

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
)

// ChildConfig describes a child process.
type ChildConfig struct {
	Name    string
	Command []string            // the program and its arguments
	Environ map[string]string   // all of it: nothing is inherited
	Log     string              // the file that its output is added to
	As      *syscall.Credential // nil: our own user
}

// Child is a process that we started. On Linux it never outlives us, however we end; elsewhere it is the caller who kills it.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; to be read after done
}

// StartChild starts a process. Ctrl-C at the terminal does not reach it: its end is the caller's to decide.
//
// It is waited for on a goroutine that owns its thread until then: to the kernel, the parent of a child is a thread, and one
// that ends takes the child with it.
func StartChild(cfg ChildConfig) (*Child, error) {
	log, err := os.OpenFile(cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Name, err)
	}
	defer func() { _ = log.Close() }()                      // the child has its own
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...) //nolint:noctx,gosec // its end is Kill; the command is our own
	cmd.Env, cmd.Stdout, cmd.Stderr = lines(cfg.Environ), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: cfg.As}
	dieWithParent(cmd.SysProcAttr)
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Name, err)
	}
	return c, nil
}

// Signal tells the process something, which may have ended in this instant.
func (c *Child) Signal(signal os.Signal) { _ = c.cmd.Process.Signal(signal) }

// Pid is the process's id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Kill ends the process with SIGKILL, and returns once it is gone. Killing one that has ended changes nothing.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended in this instant
	<-c.done
}

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err returns the error with which the process ended. It must be Done.
func (c *Child) Err() error { return c.err }

func lines(environ map[string]string) []string {
	all := make([]string, 0, len(environ))
	for name, value := range environ {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}
