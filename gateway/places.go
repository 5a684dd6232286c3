package gateway

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxCallbacks is how many callbacks of one vendor are held at once: far more than a healthy upstream ever holds up, and at most 64 MiB of
	// bodies. Of Twilio's, half of them are worked on and half wait, so that a person's message passes the receipts that came before it.
	maxCallbacks = 1024
	// maxAlarms is how many alarms are worked on at once: as many as keep the services busy, and no more, so that each of them is soon done.
	// maxWaitingAlarms more wait for that: what is refused comes back seconds later, and a burst is eight seconds long. An alarm has some
	// hundred bytes.
	maxAlarms        = 512
	maxWaitingAlarms = 4096
	// waitShare is the part of its time that a callback may wait, so that enough is left for the work.
	waitShare = 4
	// fullRetryAfter is when a vendor that was refused may try again.
	fullRetryAfter = 2 * time.Second
)

// places bound the callbacks of one vendor. One is taken once the body is there and its signature was found to be the vendor's, so that no
// other caller can take one or go before a genuine callback. What finds none waits for a while, where there is room or where the last of
// those that wait goes after it and is refused instead. What is refused is kept by the vendor, which sends it again.
//
// Vendors do not share places: alarms, which have a time to keep, never wait for what people write or for receipts, and a burst of alarms
// keeps no STOP out. A receipt goes after every message: it only reports, and Twilio is asked for what it would have said.
type places struct {
	mu   sync.Mutex
	free int     // of those that are worked on at once
	room int     // how many may wait
	line []*turn // those that wait; the last element goes first
	came int     // how many have come to wait so far
}

func newPlaces(working, waiting int) *places { return &places{free: working, room: waiting} }

// turn is where a callback stands among those that wait.
type turn struct {
	rank   int       // the lower goes first
	due    time.Time // then the earlier; what is refused comes again with the same, and so is ahead of what came due meanwhile
	came   int       // then the one that came first
	called chan bool // has one element once the wait is over: whether there is a place
}

// later orders the line, in which no two turns are equal.
func later(a, b *turn) int {
	return cmp.Or(cmp.Compare(b.rank, a.rank), b.due.Compare(a.due), cmp.Compare(b.came, a.came))
}

// enter takes a place, once it is its turn but within so long, and reports whether it did. The place must be left.
func (p *places) enter(ctx context.Context, within time.Duration, rank int, due time.Time) bool {
	t, ok := p.join(rank, due)
	if t == nil {
		return ok
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case ok = <-t.called:
		return ok
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, waits := slices.BinarySearchFunc(p.line, t, later); waits {
		p.line = slices.Delete(p.line, i, i+1)
		return false
	}
	return <-t.called // it was called in the same instant
}

// join takes a free place, or a turn in the line, or nothing.
func (p *places) join(rank int, due time.Time) (waits *turn, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 { // the line is empty then
		p.free--
		return nil, true
	}
	p.came++
	t := &turn{rank: rank, due: due, came: p.came, called: make(chan bool, 1)}
	if len(p.line) >= p.room {
		if p.room == 0 || later(t, p.line[0]) < 0 {
			return nil, false
		}
		p.line[0].called <- false // refused
		p.line = slices.Delete(p.line, 0, 1)
	}
	// A sorted slice and not a heap, which knows only one of its ends: to join and leave a line of 4,096 takes two microseconds.
	i, _ := slices.BinarySearchFunc(p.line, t, later)
	p.line = slices.Insert(p.line, i, t)
	return t, false
}

// leave gives the place to the next one in the line.
func (p *places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.line) - 1
	if last < 0 {
		p.free++
		return
	}
	p.line[last].called <- true
	p.line = slices.Delete(p.line, last, last+1)
}
