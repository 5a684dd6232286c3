package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/services/onboarding/inbound/dedup"
)

// mishap is a failure at one call of a process: of its store, or of the work's own effect.
type mishap string

const (
	failBefore mishap = "FailsBefore" // the call is not made, the caller sees an error
	failAfter  mishap = "FailsAfter"  // the call is made, the caller sees an error all the same
	dieBefore  mishap = "DiesBefore"  // the process is gone before the call: neither it nor any later one is made
	dieAfter   mishap = "DiesAfter"   // the process is gone after the call: no later one is made
)

var errMishap = errors.New("injected")

// process is one process, which meets its mishap at the call number at.
type process struct {
	store

	at     int
	mishap mishap
	calls  int
	gone   bool
}

func (p *process) call(do func() error) error {
	if p.gone {
		return errMishap
	}
	p.calls++
	if p.calls != p.at {
		return do()
	}
	p.gone = p.mishap == dieBefore || p.mishap == dieAfter
	if p.mishap == failAfter || p.mishap == dieAfter {
		return errors.Join(do(), errMishap)
	}
	return errMishap
}

func (p *process) Reserve(ctx context.Context, c dedup.Claim) (v dedup.Value, err error) {
	err = p.call(func() error {
		v, err = p.store.Reserve(ctx, c)
		return err
	})
	return v, err
}

func (p *process) Finish(ctx context.Context, c dedup.Claim, done bool) error {
	return p.call(func() error { return p.store.Finish(ctx, c, done) })
}

// pauses are the waits of the retry policy.
var pauses = []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second}

// scene is one message that QStash delivers until it is answered, to a process that meets a mishap and to healthy ones
// once it is dead. The work's effect can be had only once, like a row with a unique key.
type scene struct {
	t       *testing.T
	store   store
	clock   *clock.Settable
	effects map[string]bool
}

// deliver is one attempt by a process. The answer of a dead one is lost.
func (s *scene) deliver(p *process, d dedup.Delivery) (answered bool, retryAfter time.Duration) {
	s.t.Helper()
	g, err := dedup.New(p, dedup.Lock, slog.New(slog.DiscardHandler), s.clock.Now)
	require.NoError(s.t, err)
	duplicate, err := g.Do(s.t.Context(), d, func(context.Context) error {
		return p.call(func() error {
			s.effects[d.Key] = true
			return nil
		})
	})
	if p.gone {
		return false, 0
	}
	if duplicate || err == nil {
		require.True(s.t, s.effects[d.Key], "work that was not done was reported as done, duplicate: %t", duplicate)
	}
	if inProgress, ok := errors.AsType[*dedup.InProgress](err); ok {
		return false, inProgress.RetryAfter
	}
	return err == nil, 0
}

// play delivers as QStash does, and reports whether the process came to its mishap.
func (s *scene) play(p *process, d dedup.Delivery) (happened bool) {
	s.t.Helper()
	serving := p
	for attempt := 0; ; attempt++ {
		answered, wait := s.deliver(serving, d)
		if answered {
			break
		}
		require.Less(s.t, attempt, len(pauses), "all attempts were used up")
		if wait == 0 {
			wait = pauses[attempt]
		}
		s.clock.Advance(wait)
		if serving.gone {
			serving = &process{store: s.store}
		}
	}
	require.True(s.t, s.effects[d.Key])
	return p.at > 0 && p.calls >= p.at
}

// TestCrash has a process fail or die at every call, before and after. Within the six attempts of the policy the work is
// done, it is never called done before, and in the end it is remembered.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, m := range []mishap{failBefore, failAfter, dieBefore, dieAfter} {
				t.Run("S1_36_S1_38_"+string(m), func(t *testing.T) {
					t.Parallel()
					s := &scene{t: t, store: k.open(t), clock: clock.NewSettable(start), effects: map[string]bool{}}
					for at := 1; ; at++ {
						d := dedup.Delivery{MessageID: newKey(), Key: fmt.Sprint("at ", at, newKey())}
						happened := s.play(&process{store: s.store, at: at, mishap: m}, d)
						s.remembers(d)
						if !happened {
							require.Greater(t, at, 5, "hardly any call was made")
							break
						}
					}
				})
			}
		})
	}
}

// remembers lets every lease run out and delivers once more. At the second time at the latest the work is known as done.
func (s *scene) remembers(d dedup.Delivery) {
	s.t.Helper()
	s.clock.Advance(5 * time.Minute)
	require.False(s.t, s.play(&process{store: s.store}, d))
	g, err := dedup.New(s.store, dedup.Lock, slog.New(slog.DiscardHandler), s.clock.Now)
	require.NoError(s.t, err)
	duplicate, err := g.Do(s.t.Context(), d, func(context.Context) error { return errWork })
	require.NoError(s.t, err)
	require.True(s.t, duplicate)
}
