package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"paceline.internal/platform/rpc"
)

const (
	// trust is the time for which an answer about a caller is used again, from when it was asked for: what is revoked is refused within five
	// seconds.
	trust = 3 * time.Second
	// lookupTimeout bounds one question.
	lookupTimeout = 1500 * time.Millisecond
	// maxKnown bounds the answers that are kept, also those that there is no such caller.
	maxKnown = 1 << 14
)

// lookups ask onboarding about callers, and keep the answers for a moment.
type lookups[T any] struct {
	now    func() time.Time // the machine's clock: a simulated one may stand still
	asking singleflight.Group

	mu    sync.Mutex
	known *simplelru.LRU[string, answered[T]]
}

type answered[T any] struct {
	answer T
	err    error
	asked  time.Time
}

func newLookups[T any](now func() time.Time) (*lookups[T], error) {
	known, err := simplelru.NewLRU[string, answered[T]](maxKnown, nil)
	return &lookups[T]{now: now, known: known}, err
}

// fresh returns the answer that is kept under a name, if it may still be used.
func (l *lookups[T]) fresh(name string) (found answered[T], ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok = l.known.Get(name)
	age := l.now().Sub(found.asked)
	return found, ok && age >= 0 && age < trust
}

// last returns the answer under a name that is not older than most, fresh or not.
func (l *lookups[T]) last(name string, most time.Duration) (answer T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.known.Get(name)
	return found.answer, ok && l.now().Sub(found.asked) < most
}

// accepted reports whether the last answer under a name was no error, however old it is.
func (l *lookups[T]) accepted(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.known.Get(name)
	return ok && found.err == nil
}

// find returns what is known under a name, or asks. Callers who come meanwhile wait for the same answer. An error that is not final, such
// as an outage, is not kept.
func (l *lookups[T]) find(ctx context.Context, name string, ask func(context.Context) (T, error), final func(error) bool) (T, error) {
	if found, ok := l.fresh(name); ok {
		return found.answer, found.err
	}
	got := l.asking.DoChan(name, func() (any, error) {
		// The gateway asks as itself: a caller who signed in may not ask about others.
		ctx, cancel := context.WithTimeout(rpc.WithPrincipal(context.WithoutCancel(ctx), service), lookupTimeout)
		defer cancel()
		a := answered[T]{asked: l.now()}
		a.answer, a.err = ask(ctx)
		if a.err == nil || final(a.err) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.known.Add(name, a)
		}
		return a, nil
	})
	select {
	case result := <-got:
		a, _ := result.Val.(answered[T])
		return a.answer, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
