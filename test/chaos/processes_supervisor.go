package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"paceline.internal/deploy/stack"
)

// supervisor keeps one service running, as an orchestrator does: whenever its process ends it starts another.
type supervisor struct {
	cfg      stack.ChildConfig
	readyURL string
	log      *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	child  *stack.Child
	killed bool // by us; else it ended by itself
	over   bool // it has been retired: no other is started
	ends   int  // by itself
}

// restartPause is the time for which a process that ended by itself is left alone. One that was killed is started again at once.
const restartPause = 200 * time.Millisecond

// supervise begins to keep a service, until close.
func supervise(cfg stack.ChildConfig, readyURL string, log *slog.Logger) *supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	k := &supervisor{cfg: cfg, readyURL: readyURL, log: log, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		for k.live(ctx) {
		}
	}()
	return k
}

// live is the life of one process, and reports whether there is to be another.
func (k *supervisor) live(ctx context.Context) bool {
	child, err := stack.StartChild(k.cfg)
	if err != nil {
		k.log.ErrorContext(ctx, "chaos.start_failed", "process", k.cfg.Name, "error", err)
		return pause(ctx, restartPause)
	}
	k.mu.Lock()
	k.child, k.killed = child, false
	k.mu.Unlock()
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
		return false
	}
	k.mu.Lock()
	byItself := !k.killed
	if byItself {
		k.ends++
	}
	k.child = nil
	over := k.over
	k.mu.Unlock()
	if over {
		return false
	}
	if !byItself {
		return ctx.Err() == nil
	}
	k.log.WarnContext(ctx, "chaos.ended_by_itself", "process", k.cfg.Name, "error", child.Err())
	return pause(ctx, restartPause)
}

// kill ends the process that runs now with SIGKILL, and reports whether there was one.
func (k *supervisor) kill() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.child == nil {
		return false
	}
	k.killed = true
	k.child.Signal(os.Kill)
	return true
}

// retire ends the process with SIGTERM and starts no other. Its error is one that did not end within the bound, or not well.
func (k *supervisor) retire(bound time.Duration) error {
	k.mu.Lock()
	child := k.child
	k.killed, k.over = true, true
	k.mu.Unlock()
	if child == nil {
		return fmt.Errorf("%s was not there to be retired", k.cfg.Name)
	}
	child.Signal(syscall.SIGTERM)
	last := time.AfterFunc(bound, child.Kill)
	defer last.Stop()
	<-child.Done()
	<-k.done
	if err := child.Err(); err != nil {
		return fmt.Errorf("%s did not end well: %w", k.cfg.Name, err)
	}
	return nil
}

// endedByItself returns how often a process ended although the run did not kill it.
func (k *supervisor) endedByItself() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ends
}

// close kills the process and starts no other.
func (k *supervisor) close() {
	k.cancel()
	<-k.done
}
