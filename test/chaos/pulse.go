package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"paceline.internal/emulators/clock"
)

// pulse has the loops of the services rest in a world by its clock, and counts them, so that the clock is not moved while one
// of them works. They wake at fixed instants and at no other: a wake-up by NOTIFY comes when the database gets to it, and the loops of
// a service that starts would all be woken at once, which no seed could repeat.
type pulse struct {
	clock *clock.Settable

	mu      sync.Mutex
	resting map[*nap]struct{}
	changed chan struct{} // closed and replaced whenever a loop lies down
}

// nap is one rest of one loop.
type nap struct {
	due   time.Time
	every time.Duration
	ring  chan struct{}
}

func newPulse(c *clock.Settable) *pulse {
	return &pulse{clock: c, resting: map[*nap]struct{}{}, changed: make(chan struct{})}
}

// rest is the process.Rest of every service.
func (p *pulse) rest(ctx context.Context, d time.Duration, _ <-chan struct{}) bool {
	n := &nap{every: d, ring: make(chan struct{})}
	p.mu.Lock()
	now := p.clock.Now()
	n.due = now.Add(d - (now.Sub(began)-phase(d))%d)
	p.resting[n] = struct{}{}
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-n.ring:
	}
	p.mu.Lock()
	delete(p.resting, n)
	p.mu.Unlock()
	return ctx.Err() == nil
}

// phase is the instant within the grid of a loop that works every d. Each kind of loop has its own, behind those of all people, so that
// no two of them meet.
func phase(d time.Duration) time.Duration {
	const behindPeople, apart = grid - 1500*time.Microsecond, 10 * time.Microsecond
	return behindPeople + apart*time.Duration(d.Seconds())
}

// next returns when the first loop wakes.
func (p *pulse) next() (first time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.resting {
		if first.IsZero() || n.due.Before(first) {
			first = n.due
		}
	}
	return first
}

// rouse wakes every loop that is due. From here on it counts as working.
func (p *pulse) rouse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.resting {
		if !n.due.After(p.clock.Now()) {
			delete(p.resting, n)
			close(n.ring)
		}
	}
}

// oversleep has every loop that would have woken before an instant wake once right after it, each kind at its own.
func (p *pulse) oversleep(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.resting {
		if n.due.Before(until) {
			n.due = until.Add(phase(n.every))
		}
	}
}

// errLoops would otherwise show only as a seed that is not the same run, now and then: the clock would move while one of them works.
var errLoops = errors.New("more loops rest in the world than are counted: see onboardingLoops and messagingLoops")

// quiet waits until as many loops rest as there are.
func (p *pulse) quiet(ctx context.Context, loops int) error {
	for {
		p.mu.Lock()
		resting, changed := len(p.resting), p.changed
		p.mu.Unlock()
		switch {
		case resting > loops:
			return errLoops
		case resting == loops:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
