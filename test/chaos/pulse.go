package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"paceline.internal/emulators/clock"
)

// pulse is how the loops of the services rest in a world: on its clock, and counted, so that the clock is not moved while one
// of them works. They wake at fixed instants and at no other: a wake-up by NOTIFY comes when the database gets to it, and the loops of
// a service that starts would all be woken at once, which no seed could repeat.
type pulse struct {
	clock *clock.Settable

	mu      sync.Mutex
	resting map[*nap]struct{}
	changed chan struct{} // closed and replaced whenever a loop lies down
}

type nap struct{ ring chan struct{} }

func newPulse(c *clock.Settable) *pulse {
	return &pulse{clock: c, resting: map[*nap]struct{}{}, changed: make(chan struct{})}
}

// rest is the process.Rest of every service.
func (p *pulse) rest(ctx context.Context, d time.Duration, _ <-chan struct{}) bool {
	n := &nap{ring: make(chan struct{})}
	stop := p.clock.AfterFunc(p.next(d), func() { p.rouse(n) }) // before it counts as resting: from then on the clock may move
	p.mu.Lock()
	p.resting[n] = struct{}{}
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-n.ring:
	}
	stop()
	p.rouse(n)
	return ctx.Err() == nil
}

// next is how long it is to the next wake-up of a loop that works every d.
func (p *pulse) next(d time.Duration) time.Duration {
	return d - (p.clock.Now().Sub(began)-phase(d))%d
}

// phase is the instant within the grid of a loop that works every d. Each kind of loop has its own, behind those of all people, so that
// no two of them meet.
func phase(d time.Duration) time.Duration {
	const behindPeople, apart = grid - 1500*time.Microsecond, 10 * time.Microsecond
	return behindPeople + apart*time.Duration(d.Seconds())
}

// rouse ends a rest. From here on its loop counts as working.
func (p *pulse) rouse(n *nap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, resting := p.resting[n]; resting {
		delete(p.resting, n)
		close(n.ring)
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
