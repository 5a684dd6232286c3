package twilio

import (
	"context"
	"sync"
	"time"

	"paceline.internal/emulators/clock"
)

// work knows everything that the emulator has under way or still to do: goroutines that run and timers that are set.
// It lets a test wait for quiet, and a shutdown leave nothing behind.
type work struct {
	clock clock.Clock

	mu      sync.Mutex
	running int
	timers  map[*appointment]struct{}
	closed  bool
	changed chan struct{} // closed and replaced whenever running falls
}

// appointment is a timer that has not fired.
type appointment struct {
	due  time.Time
	stop func() bool
}

func newWork(c clock.Clock) *work {
	return &work{clock: c, timers: map[*appointment]struct{}{}, changed: make(chan struct{})}
}

// after runs f once d has passed on the clock: at once, in this goroutine, if d is not positive. f must not block,
// for a settable clock runs it inside Advance.
func (w *work) after(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	a := &appointment{due: w.clock.Now().Add(d)}
	w.timers[a] = struct{}{}
	a.stop = w.clock.AfterFunc(d, func() { w.keep(a, f) })
}

// keep runs the appointment unless the work was closed before it fell due.
func (w *work) keep(a *appointment, f func()) {
	w.mu.Lock()
	_, ok := w.timers[a]
	delete(w.timers, a)
	if ok {
		w.running++
	}
	w.mu.Unlock()
	if ok {
		defer w.end()
		f()
	}
}

// spawn runs f in a goroutine, unless the work is closed.
func (w *work) spawn(f func()) {
	if w.begin() {
		go func() {
			defer w.end()
			f()
		}()
	}
}

// begin counts one more thing under way, to be finished with end. It reports false once the work is closed.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running++
	return true
}

func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	close(w.changed)
	w.changed = make(chan struct{})
}

// close cancels every timer and lets nothing new begin.
func (w *work) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for a := range w.timers {
		a.stop()
	}
	clear(w.timers)
}

// idle waits until nothing runs and no timer is due by the clock's present.
func (w *work) idle(ctx context.Context) error {
	for {
		quiet, changed := w.state()
		if quiet {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *work) state() (quiet bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	quiet = w.running == 0
	now := w.clock.Now()
	for a := range w.timers {
		quiet = quiet && a.due.After(now)
	}
	return quiet, w.changed
}
