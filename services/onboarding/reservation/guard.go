package reservation

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
	defaultLock = 240 * time.Second
	defaultTTL  = 300 * time.Second
	defaultKeep = 24 * time.Hour
	// defaultRetryWindow is the time from the first attempt to the last by the policy of our alarms: 10+20+40+80+160 s.
	defaultRetryWindow = 310 * time.Second
	// finishTimeout bounds what is recorded after the work, when its caller may have hung up.
	finishTimeout = 3 * time.Second
)

// store keeps the values. Each call is one guarded statement or one script, and may be repeated by the same owner after a
// lost answer. Reserve gives an absent key to the claim's owner and changes no other. Complete turns the owner's live lease
// into done. Release makes it absent. ErrLost when the owner has no live lease on the key.
type store interface {
	Reserve(ctx context.Context, c Claim) (Answer, error)
	Complete(ctx context.Context, c Claim) error
	Release(ctx context.Context, c Claim) error
}

// Config says how the deliveries of one kind of job are guarded. Durations that are zero have the defaults of the retry
// policy; another job may have a guard with others.
type Config struct {
	Store store
	Log   *slog.Logger
	Now   func() time.Time

	Lock time.Duration // how long one delivery of a message may take; default 240 s
	TTL  time.Duration // how long one run under a business key may take; default 300 s
	Keep time.Duration // how long it is remembered that the work was done; default 24 h
	// RetryWindow is the time from the first attempt to the last; default 310 s. Lock and TTL are shorter, or the retries of a
	// delivery whose worker died would all be refused by its locks; Keep is longer, or the last retry would do it again.
	RetryWindow time.Duration
}

func (c *Config) fill() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Lock, defaultLock}, {&c.TTL, defaultTTL}, {&c.Keep, defaultKeep}, {&c.RetryWindow, defaultRetryWindow}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
}

func (c *Config) check() error {
	var problems []error
	for _, lease := range []struct {
		name  string
		value time.Duration
	}{{"lock", c.Lock}, {"TTL", c.TTL}} {
		if lease.value <= 0 || lease.value >= c.RetryWindow {
			problems = append(problems, fmt.Errorf("the %s of %s must be above zero and shorter than the retry window of %s",
				lease.name, lease.value, c.RetryWindow))
		}
	}
	if c.Keep <= c.RetryWindow {
		problems = append(problems, fmt.Errorf("what was done must be remembered for longer than the retry window of %s, not for %s",
			c.RetryWindow, c.Keep))
	}
	return errors.Join(problems...)
}

// Guard guards the deliveries of one kind of job.
type Guard struct{ cfg Config }

// New checks the durations against each other.
func New(cfg Config) (*Guard, error) {
	cfg.fill()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("reservation: %w", err)
	}
	return &Guard{cfg: cfg}, nil
}

// Delivery is one attempt to bring one piece of work.
type Delivery struct {
	MessageID string // Upstash-Message-Id: the same in every attempt of one publish
	Key       string // the business key, kind:resource: the same however often the work is published
}

// Do runs work unless it was done already, which makes the delivery a duplicate, or is being done elsewhere, which is
// *InProgress. It fails closed: ErrUnavailable means that the store did not answer and work was not run.
//
// When work fails, its error is returned and everything is free for a retry at once. When the process dies instead, the
// leases run out and the work is done again. So it is when work succeeded and that could not be recorded: this is success all
// the same, and is logged, for work has to bear a repetition anyway. Nothing but its success ever makes a duplicate of it.
func (g *Guard) Do(ctx context.Context, d Delivery, work func(ctx context.Context) error) (duplicate bool, err error) {
	if d.MessageID == "" || d.Key == "" {
		return false, errors.New("reservation: a delivery has the id of its message and the key of its work")
	}
	r := &run{Guard: g, owner: rand.Text()}
	verdict, err := r.reserve(ctx, "message:"+d.MessageID, g.cfg.Lock)
	if err == nil && verdict == Won {
		verdict, err = r.reserve(ctx, "work:"+d.Key, g.cfg.TTL)
	}
	switch {
	case err != nil:
		r.release(ctx)
		return false, err
	case verdict == Done: // perhaps by another message, and then this one is done with, too
		r.complete(ctx)
		return true, nil
	default:
		return false, r.perform(ctx, work)
	}
}

// run is one call of Do. It may hold the keys, the last one reserved at the end.
type run struct {
	*Guard

	owner string
	keys  []string
}

// reserve answers Won or Done; *InProgress when somebody else has the key.
func (r *run) reserve(ctx context.Context, key string, lease time.Duration) (Verdict, error) {
	now := r.cfg.Now()
	answer, err := r.cfg.Store.Reserve(ctx, Claim{Key: key, Owner: r.owner, Now: now, Until: now.Add(lease)})
	if err != nil {
		r.keys = append(r.keys, key) // it may be ours: perhaps only the answer was lost
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch answer.Verdict {
	case Won:
		r.keys = append(r.keys, key)
	case InFlight:
		return 0, &InProgress{Until: answer.Until, RetryAfter: answer.Until.Sub(now)}
	case Done:
	}
	return answer.Verdict, nil
}

// perform does the work within the shorter lease. Whatever comes of it, a panic too, the keys are free or done afterwards.
func (r *run) perform(ctx context.Context, work func(ctx context.Context) error) error {
	done := false
	defer func() {
		if !done {
			r.release(ctx)
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, min(r.cfg.Lock, r.cfg.TTL))
	defer cancel()
	if err := work(bounded); err != nil {
		return err
	}
	done = true
	r.complete(ctx)
	return nil
}

// complete records that the work was done: under the business key first, because that speaks for every message of it. What
// cannot be recorded is logged and harms nothing but time.
func (r *run) complete(ctx context.Context) {
	r.finish(ctx, func(ctx context.Context, c Claim) {
		c.Until = c.Now.Add(r.cfg.Keep)
		if err := r.cfg.Store.Complete(ctx, c); err != nil {
			r.cfg.Log.WarnContext(ctx, "onboarding.reservation_not_completed", "key", c.Key, "error", err)
		}
	})
}

// release lets go of what is held. What is not let go of ends with its lease.
func (r *run) release(ctx context.Context) {
	r.finish(ctx, func(ctx context.Context, c Claim) {
		if err := r.cfg.Store.Release(ctx, c); err != nil && !errors.Is(err, ErrLost) {
			r.cfg.Log.WarnContext(ctx, "onboarding.reservation_not_released", "key", c.Key, "error", err)
		}
	})
}

// finish does something with every key, last reserved first, though the caller may have hung up.
func (r *run) finish(ctx context.Context, do func(ctx context.Context, c Claim)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	for _, key := range slices.Backward(r.keys) {
		do(ctx, Claim{Key: key, Owner: r.owner, Now: r.cfg.Now()})
	}
}
