// Package process holds the common parts of the processes: the verbs of a binary, what it is given beyond its environment, its
// doctor, and its components, which are started in order and stopped in reverse, each within its bound.
//
// It handles no signals, exits nothing and keeps nothing global, so that one process can hold several services and a
// test can hold a whole stack. A second signal, the impatient one, is main's to handle.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// defaultStopTimeout bounds the stop of a component that names no bound.
	defaultStopTimeout = 10 * time.Second
	// hardStop is the time that a Stop gets after its context has ended, to close by force what would not end by itself.
	hardStop = time.Second
)

var (
	// ErrEnded says that a component's Run returned although it was not asked to.
	ErrEnded = errors.New("ended by itself")
	// ErrNotStopped says that a component outlived its bound; what it was doing is abandoned.
	ErrNotStopped = errors.New("did not stop in time")
)

// Component is a part of a process that has a beginning and an end. Every function is optional.
type Component struct {
	Name string // for the log and for errors
	// Start returns once the component is ready for those that are started after it. Its context ends when the group
	// gives up starting, not when Start returns. A Start that fails leaves nothing behind: Stop is not called.
	Start func(ctx context.Context) error
	// Run is the component's work, in its own goroutine. Its context ends after Stop; returning before that, even
	// without an error, ends the whole group.
	Run func(ctx context.Context) error
	// Stop asks the component to finish what is in flight. When its context ends it should stop by force.
	Stop func(ctx context.Context) error
	// StopTimeout bounds Stop and the end of Run together; 10 s when 0. An orchestrator must wait for the
	// sum of these before it kills, and a second more for every component.
	StopTimeout time.Duration
}

// Run starts the components one after the other, waits until ctx ends or a component fails, and stops those that were
// started, last first. It returns nil after a clean end, else the first failure joined with what went wrong while
// stopping; errors name the component.
//
// The components do not see the end of ctx: each one's work goes on until its turn to stop has come, so a handler that
// is finishing its last requests still finds its database.
func Run(ctx context.Context, log *slog.Logger, components ...Component) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	started, err := start(ctx, cancel, log, components)
	if err == nil {
		<-ctx.Done()
		err = failure(ctx)
	}
	log.InfoContext(ctx, "process.stopping", "failed", err != nil)
	errs := []error{err}
	for _, r := range slices.Backward(started) {
		errs = append(errs, r.stop(context.WithoutCancel(ctx), log))
	}
	return errors.Join(errs...)
}

// failed marks the cancellation that a component caused, to tell it from the caller's own.
type failed struct{ error }

func (f failed) Unwrap() error { return f.error }

// failure is why a component ended ctx, or nil when the caller did.
func failure(ctx context.Context) error {
	if f, ok := context.Cause(ctx).(failed); ok { //nolint:errorlint // our own mark, never wrapped
		return f.error
	}
	return nil
}

// start brings the components up until one cannot start, one that already runs fails, or ctx ends.
func start(ctx context.Context, cancel context.CancelCauseFunc, log *slog.Logger, components []Component) ([]*running, error) {
	var started []*running
	for _, c := range components {
		if ctx.Err() != nil {
			return started, failure(ctx)
		}
		if c.Start != nil {
			if err := c.Start(ctx); err != nil {
				if earlier := failure(ctx); earlier != nil {
					return started, earlier // the failure of another broke this start off
				}
				return started, fmt.Errorf("%s: start: %w", c.Name, err)
			}
		}
		started = append(started, launch(ctx, cancel, c))
		log.InfoContext(ctx, "process.started", "component", c.Name)
	}
	return started, nil
}

// running is a component that was started.
type running struct {
	Component

	cancel context.CancelFunc // ends the context of Run
	ended  chan struct{}      // closed when Run has returned
	err    error              // what Run returned while it was being stopped; read after ended
}

func launch(group context.Context, fail context.CancelCauseFunc, c Component) *running {
	ctx, cancel := context.WithCancel(context.WithoutCancel(group))
	r := &running{Component: c, cancel: cancel, ended: make(chan struct{})}
	if c.Run == nil {
		close(r.ended)
		return r
	}
	go func() {
		defer close(r.ended)
		err := c.Run(ctx)
		switch {
		case group.Err() == nil && err == nil:
			fail(failed{fmt.Errorf("%s: %w", c.Name, ErrEnded)})
		case group.Err() == nil:
			fail(failed{fmt.Errorf("%s: %w", c.Name, err)})
		case !errors.Is(err, context.Canceled):
			r.err = err
		}
	}()
	return r
}

// stop ends one component within its bound, whatever its functions do.
func (r *running) stop(ctx context.Context, log *slog.Logger) error {
	timeout := r.StopTimeout
	if timeout == 0 {
		timeout = defaultStopTimeout
	}
	soft, cancelSoft := context.WithTimeout(ctx, timeout)
	defer cancelSoft()
	hard, cancelHard := context.WithTimeout(ctx, timeout+hardStop)
	defer cancelHard()
	stopped := make(chan error, 1)
	go func() {
		var err error
		if r.Stop != nil {
			err = r.Stop(soft)
		}
		r.cancel()
		<-r.ended
		stopped <- errors.Join(err, r.err)
	}()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("%s: stop: %w", r.Name, err)
		}
		log.InfoContext(ctx, "process.stopped", "component", r.Name)
		return nil
	case <-hard.Done():
		r.cancel()
		return fmt.Errorf("%s: %w (%s)", r.Name, ErrNotStopped, timeout)
	}
}
