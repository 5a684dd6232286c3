package route

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// MaxCallbacks bounds the callbacks of one vendor that are held at once: far more than a healthy upstream ever holds up, and at most
	// 64 MiB of bodies.
	MaxCallbacks = 1024
	// FullRetryAfter tells a vendor that was refused when to try again.
	FullRetryAfter = 2 * time.Second
	// waitShare is the part of its time that a callback may wait, so that enough is left for the work.
	waitShare = 4
)

// Limiter bounds the callbacks of one vendor that are worked on at once. A callback acquires a slot once its body is there and its
// signature was found to be the vendor's, so that no stranger takes a slot or goes before a genuine callback. Without a free slot it waits
// a while, if there is room or if the last waiter goes after it and is refused instead. The vendor keeps a refused callback and sends it
// again.
//
// Each vendor has its own limiter: alarms, which have a time to keep, never wait for messages or receipts, and a burst of alarms keeps no
// STOP out.
type Limiter struct {
	mu      sync.Mutex
	free    int       // slots
	room    int       // how many may wait
	waiting []*waiter // the last element goes first
	came    int       // how many have come to wait so far
}

// NewLimiter returns a limiter with so many slots, and room for so many waiters.
func NewLimiter(slots, waiters int) *Limiter { return &Limiter{free: slots, room: waiters} }

// waiter is a callback that waits for a slot.
type waiter struct {
	priority int       // the lower goes first
	due      time.Time // then the earlier: a refused callback comes again with the same, ahead of those that came due meanwhile
	came     int       // then the one that came first
	decided  chan bool // has one element once the wait is over: whether there is a slot
}

// later orders the waiters, of which no two are equal.
func later(a, b *waiter) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), b.due.Compare(a.due), cmp.Compare(b.came, a.came))
}

// Acquire waits for a slot, at most so long, and reports whether it got one. The slot must be released.
func (l *Limiter) Acquire(ctx context.Context, within time.Duration, priority int, due time.Time) bool {
	w, ok := l.join(priority, due)
	if w == nil {
		return ok
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case ok = <-w.decided:
		return ok
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, waits := slices.BinarySearchFunc(l.waiting, w, later); waits {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return false
	}
	return <-w.decided // in the same instant
}

// join takes a free slot, or a place among the waiters, or nothing.
func (l *Limiter) join(priority int, due time.Time) (waits *waiter, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free > 0 { // nobody waits then
		l.free--
		return nil, true
	}
	l.came++
	w := &waiter{priority: priority, due: due, came: l.came, decided: make(chan bool, 1)}
	if len(l.waiting) >= l.room {
		if l.room == 0 || later(w, l.waiting[0]) < 0 {
			return nil, false
		}
		l.waiting[0].decided <- false // refused
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	// A sorted slice and not a heap, which knows only one of its ends: to join and leave 4,096 waiters takes two microseconds.
	i, _ := slices.BinarySearchFunc(l.waiting, w, later)
	l.waiting = slices.Insert(l.waiting, i, w)
	return w, false
}

// Release gives the slot to the next waiter.
func (l *Limiter) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.waiting) - 1
	if last < 0 {
		l.free++
		return
	}
	l.waiting[last].decided <- true
	l.waiting = slices.Delete(l.waiting, last, last+1)
}
