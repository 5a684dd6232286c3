package qstash

import (
	"context"
	"fmt"
	"time"
)

// timer is work that waits for the clock.
type timer struct {
	due  time.Time
	stop func() bool
}

// after runs work, under the lock, once d has passed; at once, returning nil, when d is not positive. The lock is held.
func (e *Emulator) after(d time.Duration, work func()) *timer {
	if e.closed {
		return nil
	}
	if d <= 0 {
		work()
		return nil
	}
	t := &timer{}
	e.timers[t] = struct{}{}
	t.stop = e.cfg.Clock.AfterFunc(d, func() {
		e.lock()
		defer e.unlock()
		if _, waiting := e.timers[t]; waiting {
			delete(e.timers, t)
			work()
		}
	})
	// Read after the timer was set: the clock may move in between, and due must not be before the timer's own.
	t.due = e.cfg.Clock.Now().Add(d)
	return t
}

// forget stops a timer, nil too, so that its work never runs. The lock is held.
func (e *Emulator) forget(t *timer) {
	if t != nil {
		t.stop()
		delete(e.timers, t)
	}
}

// fly runs work in a goroutine that Idle waits for. Its context ends with the life of the attempts. The lock is held.
func (e *Emulator) fly(work func(ctx context.Context)) {
	e.flying++
	ctx := e.attempts
	go func() {
		work(ctx)
		e.lock()
		e.flying--
		e.unlock()
	}()
}

// Idle waits until no delivery is in flight, none is due at the clock's present time and OnEvent has got
// every event. A message that waits for a later time does not count.
func (e *Emulator) Idle(ctx context.Context) error {
	e.mu.Lock()
	if e.idle() {
		e.mu.Unlock()
		return nil
	}
	quiet := make(chan struct{})
	e.waiters = append(e.waiters, quiet)
	e.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("qstash emulator: waiting for deliveries: %w", ctx.Err())
	}
}

// idle is the condition that Idle waits for. The lock is held.
func (e *Emulator) idle() bool {
	if e.flying > 0 || e.notifying || len(e.unreported) > 0 {
		return false
	}
	now := e.cfg.Clock.Now()
	for t := range e.timers {
		if !t.due.After(now) {
			return false
		}
	}
	return true
}
