package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// effects counts how often each job was done. It decides whether a run has figures at all.
type effects struct {
	times  []atomic.Int32
	strays atomic.Int64 // of jobs that were never stored
	done   atomic.Int64
	target atomic.Int64
	there  chan struct{} // of one: the target was reached
	begun  atomic.Pointer[chan struct{}]
}

func newEffects(jobs int) *effects {
	return &effects{times: make([]atomic.Int32, jobs), there: make(chan struct{}, 1)}
}

// add is the effect of job n.
func (e *effects) add(n int) {
	if n < 0 || n >= len(e.times) {
		e.strays.Add(1)
		return
	}
	if begun := e.begun.Swap(nil); begun != nil {
		close(*begun)
	}
	e.times[n].Add(1)
	if e.done.Add(1) == e.target.Load() {
		e.there <- struct{}{} // wait has emptied it: no target is set twice
	}
}

// first is closed by the next effect.
func (e *effects) first() <-chan struct{} {
	begun := make(chan struct{})
	e.begun.Store(&begun)
	return begun
}

// expect says how many effects wait waits for, before the jobs are stored.
func (e *effects) expect(total int) { e.target.Store(int64(total)) }

// wait waits until as many jobs as are expected were done, any of them.
func (e *effects) wait(ctx context.Context) error {
	select {
	case <-e.there:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d jobs of %d were done: %w", e.done.Load(), e.target.Load(), context.Cause(ctx))
	}
}

// check is an error unless each of the first n jobs was done exactly once, and no other.
func (e *effects) check(n int) error {
	var problems []error
	lost, doubled := 0, 0
	for i := range e.times {
		switch times := e.times[i].Load(); {
		case i < n && times == 0:
			lost++
		case i < n && times > 1, i >= n && times > 0:
			doubled++
		}
	}
	if lost > 0 {
		problems = append(problems, fmt.Errorf("%d jobs were never done", lost))
	}
	if doubled > 0 {
		problems = append(problems, fmt.Errorf("%d jobs were done more than once", doubled))
	}
	if strays := e.strays.Load(); strays > 0 {
		problems = append(problems, fmt.Errorf("%d jobs were done that were never stored", strays))
	}
	return errors.Join(problems...)
}
