// Package clock is the time that the emulators run on: the machine's own, or one that a test sets.
package clock

import (
	"container/heap"
	"sync"
	"time"
)

// Clock gives the time and runs a function later. Both emulators of one test share one Clock, so that
// QStash's delays, Twilio's receipts and the services' own timestamps agree.
type Clock interface {
	// Now is the current time of this clock.
	Now() time.Time
	// AfterFunc runs f once d has passed on this clock; d <= 0 runs it as soon as the clock next moves or,
	// on the system clock, at once. The returned stop reports whether it prevented the run.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// System is the machine's clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// Settable is a clock that stands still until a test moves it. Timers run in the order of their due time,
// ties in the order in which they were set, inside the goroutine that calls Advance, and see Now as their own
// due time.
type Settable struct {
	mu     sync.Mutex
	now    time.Time
	seq    uint64
	timers timerHeap
}

// NewSettable returns a clock that stands at start.
func NewSettable(start time.Time) *Settable { return &Settable{now: start} }

// Now returns where the clock stands.
func (c *Settable) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc sets a timer. It runs during a later Advance, never inside this call.
func (c *Settable) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	t := &timer{due: c.now.Add(max(d, 0)), seq: c.seq, run: f}
	heap.Push(&c.timers, t)
	return func() bool { return c.stop(t) }
}

// Advance moves the clock forward by d, running every timer that falls due on the way, including those that the
// run timers set within the span.
func (c *Settable) Advance(d time.Duration) {
	c.mu.Lock()
	until := c.now.Add(d)
	c.mu.Unlock()
	for {
		run, ok := c.pop(until)
		if !ok {
			return
		}
		run()
	}
}

// Next is the due time of the earliest timer, and whether there is one.
func (c *Settable) Next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 {
		return time.Time{}, false
	}
	return c.timers[0].due, true
}

// AdvanceToNext moves the clock to its earliest timer and runs what is due there. It reports whether there was one.
func (c *Settable) AdvanceToNext() bool {
	next, ok := c.Next()
	if ok {
		c.Advance(next.Sub(c.Now()))
	}
	return ok
}

// pop removes the earliest timer due by until and moves the clock to it, or moves the clock to until.
func (c *Settable) pop(until time.Time) (func(), bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 || c.timers[0].due.After(until) {
		if until.After(c.now) {
			c.now = until
		}
		return nil, false
	}
	t := heap.Pop(&c.timers).(*timer)
	if t.due.After(c.now) {
		c.now = t.due
	}
	return t.run, true
}

func (c *Settable) stop(t *timer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&c.timers, t.index)
	return true
}

type timer struct {
	due   time.Time
	seq   uint64
	run   func()
	index int // position in the heap, -1 once taken out
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].seq < h[j].seq
	}
	return h[i].due.Before(h[j].due)
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
