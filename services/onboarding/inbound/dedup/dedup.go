// Package dedup runs the work of one delivery at most once at a time, and remembers that it was done.
//
// A key is absent, in flight, or done, as of a given time; a value that has ended is absent. With fewer values, a worker that died before
// its work could not be distinguished from one that did it.
package dedup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// Lock sets how long one delivery of a message may take, unless its job has another lock.
	Lock          = 240 * time.Second
	ttl           = 300 * time.Second // how long one run under a business key may take
	memory        = 24 * time.Hour    // how long it is remembered that its work was done
	finishTimeout = 3 * time.Second   // of what is recorded after the work
	// retryWindow is from the first attempt to the last of our alarms: 10+20+40+80+160 s. The leases are shorter, or all retries of a
	// delivery after its worker died would be refused; the memory is longer, or the last one would repeat the work.
	retryWindow = 310 * time.Second
	// Slack limits how much longer than its value a store keeps a key, for processes with clocks that differ.
	Slack = time.Hour
)

var (
	// ErrLost is a reservation that its owner does not have, or has no more. Nothing was changed.
	ErrLost = errors.New("the lease of the reservation was lost")
	// ErrUnavailable is a store that did not answer. The work was not begun.
	ErrUnavailable = errors.New("the store of reservations cannot be reached")
)

// InProgress reports that another run has a delivery's message or key: nothing was done, and a retry before RetryAfter is likely wasted.
type InProgress struct{ RetryAfter time.Duration }

func (p *InProgress) Error() string {
	return fmt.Sprintf("another delivery of this is being worked on, for at most %s", p.RetryAfter)
}

// Claim has what an owner asks a store for.
type Claim struct {
	Key   string
	Owner string    // the fence: a random string of one run
	Now   time.Time // the time by which values end, to the microsecond
	Until time.Time // to Reserve: the end of the lease; to Finish: the end of the memory
}

// Value has what a store has under a key: done, or else in flight.
type Value struct {
	Done  bool
	Owner string
	Until time.Time // when it ends
}

// store keeps the values. Each call is one guarded statement or one script, and may be repeated by the same owner after a lost
// answer. Reserve gives an absent key to the claim's owner, and returns its value after that. Finish turns the owner's live lease into
// done, or else makes it absent; ErrLost when the owner has no live lease on the key.
type store interface {
	Reserve(ctx context.Context, c Claim) (Value, error)
	Finish(ctx context.Context, c Claim, done bool) error
}

// Guard guards the deliveries of one kind of job.
type Guard struct {
	store store
	lock  time.Duration
	log   *slog.Logger
	now   func() time.Time
}

// New returns a guard, unless its lock is as long as the retries.
func New(kept store, lock time.Duration, log *slog.Logger, now func() time.Time) (*Guard, error) {
	if lock <= 0 || lock >= retryWindow {
		return nil, fmt.Errorf("reservation: the lock of %s must be above zero and shorter than the retry window of %s", lock, retryWindow)
	}
	return &Guard{store: kept, lock: lock, log: log, now: now}, nil
}

// Delivery is one attempt to bring one piece of work.
type Delivery struct {
	MessageID string // Upstash-Message-Id: the same in every attempt of one publish
	Key       string // the business key, kind:resource: the same however often the work is published
}

// Do runs work within the shorter lease, unless it was done already, which makes the delivery a duplicate, or is being done elsewhere,
// which is *InProgress. It fails closed: after ErrUnavailable work was not run. When work fails or panics, the keys are free at once. When
// the process dies, or success cannot be recorded (which is a success all the same), the leases expire and the work is done again: it has
// to bear a repetition. Nothing but its success makes a duplicate of it.
func (g *Guard) Do(ctx context.Context, d Delivery, work func(ctx context.Context) error) (duplicate bool, err error) {
	if d.MessageID == "" || d.Key == "" {
		return false, errors.New("reservation: a delivery has the id of its message and the key of its work")
	}
	r, done := &run{Guard: g, owner: rand.Text()}, false
	defer func() { r.finish(ctx, done) }()
	if done, err = r.reserve(ctx, "message:"+d.MessageID, g.lock); err == nil && !done {
		done, err = r.reserve(ctx, "work:"+d.Key, ttl) // if it was done, then by another message, and this one is dealt with, too
	}
	if err != nil || done {
		return done, err
	}
	bounded, cancel := context.WithTimeout(ctx, min(g.lock, ttl))
	defer cancel()
	err = work(bounded)
	done = err == nil
	return false, err
}

// run is one call of Do, and the keys that it may have.
type run struct {
	*Guard

	owner string
	keys  []string
}

// reserve reports whether the work of the key was done; *InProgress when another run has it.
func (r *run) reserve(ctx context.Context, key string, lease time.Duration) (done bool, err error) {
	now := r.now()
	v, err := r.store.Reserve(ctx, Claim{Key: key, Owner: r.owner, Now: now, Until: now.Add(lease)})
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	case v.Done:
		return true, nil
	case v.Owner != r.owner:
		return false, &InProgress{RetryAfter: v.Until.Sub(now)}
	}
	r.keys = append(r.keys, key) // after an error, too: perhaps only the answer was lost
	return false, err
}

// finish completes or releases every key, though the caller may have hung up: the business key first, for it speaks for every message.
func (r *run) finish(ctx context.Context, done bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	for _, key := range slices.Backward(r.keys) {
		now := r.now()
		err := r.store.Finish(ctx, Claim{Key: key, Owner: r.owner, Now: now, Until: now.Add(memory)}, done)
		if err != nil && done {
			r.log.WarnContext(ctx, "dedup.reservation_not_completed", "key", key, "error", err)
		} else if err != nil && !errors.Is(err, ErrLost) {
			r.log.WarnContext(ctx, "dedup.reservation_not_released", "key", key, "error", err)
		}
	}
}
