package runs

import (
	"sync"
	"time"
)

const (
	// atWork bounds the runs that a process works on at a time: the other workers of the queue are for what people write.
	atWork = 4
	// workWhileOthersWait bounds a turn while another run waits for a place.
	workWhileOthersWait = 3 * time.Second
	// placeWait is the time after which a run without a place asks again, and forgottenAfter that after which it counts no more: another
	// process has it.
	placeWait, forgottenAfter = time.Second, 5 * time.Second
)

// places shares the places of a process among runs: the next free one is for the organisation with the fewest, and among its runs for the
// one that waits longest. Without it four runs that never end would keep all others waiting, because they ask again at once.
type places struct {
	mu      sync.Mutex
	taken   int
	of      map[string]int // by organisation
	waiting map[string]waiter
}

// waiter is a run without a place.
type waiter struct {
	orgID       string
	since, seen time.Time
}

func newPlaces() *places { return &places{of: map[string]int{}, waiting: map[string]waiter{}} }

// acquire takes a place for a run, unless all are taken or others come before it; it waits then.
func (p *places) acquire(runID, orgID string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	mine, known := p.waiting[runID]
	if !known {
		mine = waiter{orgID: orgID, since: now}
	}
	mine.seen = now
	p.waiting[runID] = mine
	ahead := 0
	for id, other := range p.waiting {
		if id != runID && p.before(other, mine, id < runID) {
			ahead++
		}
	}
	if p.taken+ahead >= atWork {
		return false
	}
	delete(p.waiting, runID)
	p.taken++
	p.of[orgID]++
	return true
}

// before reports whether one run gets a place before another; first decides between equals.
func (p *places) before(one, other waiter, first bool) bool {
	if mine, theirs := p.of[one.orgID], p.of[other.orgID]; mine != theirs {
		return mine < theirs
	}
	if !one.since.Equal(other.since) {
		return one.since.Before(other.since)
	}
	return first
}

// release gives a place back.
func (p *places) release(orgID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[orgID]--; p.of[orgID] == 0 {
		delete(p.of, orgID)
	}
}

// wanted reports whether a run waits for a place.
func (p *places) wanted(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	return len(p.waiting) > 0
}

func (p *places) forget(now time.Time) {
	for id, w := range p.waiting {
		if now.Sub(w.seen) > forgottenAfter {
			delete(p.waiting, id)
		}
	}
}
